"""Language models that are wrong."""

from collections.abc import Callable
from typing import Any


class Faulty:
    """A model whose logits are changed by `fault`, which is given them and how many calls there were."""

    def __init__(self, model: Any, fault: Callable[[Any, int], Any]) -> None:
        self._model, self._fault, self._calls = model, fault, 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._model, name)
        if name not in ("step", "prefill", "last_logits"):
            return found

        def call(*arguments: Any) -> Any:
            self._calls += 1
            return self._fault(found(*arguments), self._calls)

        return call


def rows_after_the_first(logits: Any, _: int) -> Any:
    """Give every sequence the logits of the first."""
    return logits[[0] * len(logits)]
