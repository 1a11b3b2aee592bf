"""Whether the files of a decision can be compiled for cards that are not here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from trt_workbench.decide.document import BASELINE, Compiles, DecisionRow
from trt_workbench.engine.profiles import batch_profile
from trt_workbench.model.opened import Model
from trt_workbench.target import SERVED, TIME_LIMIT_S, architectures, check_targets, require_compiler


def require_targets(targets: Sequence[str]) -> None:
    """Check names of cards, and that there is a compiler for them.

    Raises:
        UsageProblem: a name is not known, or nothing can be built for it.
        ComponentMissing: the compiler is not installed.
    """
    if targets:
        architectures(",".join(targets), SERVED)
        require_compiler()


def compiled_elsewhere(
    rows: Sequence[DecisionRow], targets: Sequence[str], batch: int, logs: Path, update: Callable[[str], None]
) -> list[Compiles]:
    """Compile each file that has its precision in itself for each target, strongly typed.

    Where a runtime converts the float file itself, as TensorRT does for fp16, there is no such file.

    Args:
        rows: of the decision.
        targets: names of cards or architectures.
        batch: largest batch of the engines.
        logs: an existing folder.
        update: called with what is being done.
    """
    if not targets:
        return []
    base = next((row.file for row in rows if row.precision == BASELINE), None)
    files = {row.precision: row.file for row in rows if row.file and (row.precision == BASELINE or row.file != base)}
    found = []
    for precision, file in files.items():
        model = Model.open(Path(file))
        profile = batch_profile([(tensor.name, tensor.shape) for tensor in model.facts.inputs], batch)
        check, _ = check_targets(
            model,
            (profile,) if profile else (),
            architectures(",".join(targets), SERVED),
            logs / f"compiled-{precision}",
            time_limit_s=TIME_LIMIT_S,
            update=lambda text, name=precision: update(f"{text}: {name}"),  # type: ignore[misc]
        )
        found += [
            Compiles(precision=precision, target=one.name, outcome=one.outcome, reason=one.reason)
            for one in check.targets
        ]
    return found
