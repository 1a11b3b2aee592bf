"""Reading a contract: everything that is wrong with it is said at once, one sentence each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trt_workbench.engine.documents import read_document
from trt_workbench.errors import UsageProblem
from trt_workbench.pipeline.streaming.contract import Contract

# How a draft marks what has to be decided by a person.
UNDECIDED = "TODO"
_SHOWN = 20


class Contradictions(UsageProblem):
    """A contract that contradicts itself or a model.

    Attributes:
        problems: one sentence each.
    """

    def __init__(self, problems: list[str], path: Path, what: str = "itself") -> None:
        """Make the message of the problems; `what` is contradicted."""
        self.problems = problems
        shown = "; ".join(problems[:_SHOWN])
        more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        super().__init__(f"{path.name} contradicts {what} in {_count(problems)}: {shown}{more}. Contract: {path}")


def read_contract(path: Path) -> Contract:
    """Return a contract that does not contradict itself.

    Raises:
        UsageProblem: the file cannot be read, is a draft with undecided fields, or contradicts itself.
    """
    document = read_document(path, dict[str, Any])
    undecided = dict(_undecided(document))
    try:
        contract = Contract.model_validate(document)
    except ValidationError as error:
        problems = [_sentence(one) for one in error.errors(include_url=False) if ".".join(_place(one)) not in undecided]
        raise Contradictions([*(f"{place}: {text}" for place, text in undecided.items()), *problems], path) from error
    return contract


def _undecided(value: Any, *place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _undecided(part, *place, key)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _undecided(part, *place, str(index))
    elif isinstance(value, str) and value.startswith(UNDECIDED):
        yield ".".join(place), value


def _place(error: Any) -> list[str]:
    return [str(part) for part in error["loc"]]


def _sentence(error: Any) -> str:
    message = error["msg"].removeprefix("Value error, ")
    return f"{'.'.join(_place(error)) or 'the document'}: {message[:1].lower()}{message[1:]}"


def _count(problems: list[str]) -> str:
    return "one place" if len(problems) == 1 else f"{len(problems)} places"
