"""The reference's side of a run, kept to compare other targets with: inputs, expected outputs, where they are from.

`reference/record.json` names the calls, one `.npz` each with its hash; what was changed afterwards is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.core.hashing import hash_document, hash_file
from trt_workbench.engine.array_files import load_arrays
from trt_workbench.engine.documents import Inside, Strict, read_document, write_json
from trt_workbench.errors import UsageProblem
from trt_workbench.verify.properties import EVERY_CALL, Check, Trial
from trt_workbench.verify.reference import Arrays, Reference
from trt_workbench.verify.settings import Range
from trt_workbench.verify.space import Case

FOLDER, _INDEX = "reference", "record.json"


class Recorded(Strict):
    """A call of the record: its case and inputs, which properties the model lacks or fails, and its arrays' file."""

    values: dict[str, int]
    shapes: dict[str, tuple[int, ...]]
    inputs: str
    lacks: dict[str, list[str]]
    fails: list[str]
    file: Inside
    sha256: str


class Index(Strict):
    """record.json; its hash is of all else in it."""

    schema_version: Literal[1] = 1
    model_sha256: str
    reference: str
    provenance: dict[str, Any]
    ranges: dict[str, tuple[int, int, int]]
    seed: int
    calls: list[Recorded]
    sha256: str = ""

    def hash(self) -> str:
        """Return what `sha256` has to be."""
        return hash_document(self.model_dump(mode="json", exclude={"sha256"}))


class Recorder:
    """Writes the record of a run while it goes on."""

    def __init__(self, folder: Path, **facts: Any) -> None:
        """Begin a record.

        Args:
            folder: the run's folder, in which `reference` is made.
            facts: `model_sha256`, `reference`, `provenance`, `ranges` and `seed`, as JSON values.
        """
        self._folder, self._facts = folder / FOLDER, facts
        self._folder.mkdir()
        self._calls: list[dict[str, Any]] = []

    def add(self, case: Case, label: str, inputs: Arrays, expected: Arrays) -> None:
        """Keep one call."""
        path = self._folder / f"{len(self._calls) + 1:04d}.npz"
        parts = {"inputs": inputs, "expected": expected}
        arrays = {f"{part}/{name}": _plain(array) for part, several in parts.items() for name, array in several.items()}
        np.savez(path, **arrays)  # type: ignore[arg-type]
        shapes = {name: list(array.shape) for name, array in inputs.items()}
        entry = {"values": dict(case.values), "shapes": shapes, "inputs": label, "lacks": {}, "fails": []}
        self._calls.append({**entry, "file": path.name, "sha256": hash_file(path)})

    def add_properties(self, reference: Reference, trial: Trial) -> None:
        """Keep which properties the model itself lacks, for the call that was added last."""
        for check in EVERY_CALL:
            if reference.fails(check, trial):
                self._calls[-1]["fails"].append(check.__name__)
            elif lacking := reference.lacks(check, trial):
                self._calls[-1]["lacks"][check.__name__] = sorted(lacking)

    def finish(self) -> None:
        """Write what names the calls."""
        index = Index.model_validate({**self._facts, "calls": self._calls})
        write_json(self._folder / _INDEX, index.model_copy(update={"sha256": index.hash()}))


class KeptReference:
    """A record that is read back, as the reference of another run.

    Attributes:
        name: what it was made by.
        model_sha256: hash of its model.
        ranges: sizes by symbol that its cases had.
    """

    def __init__(self, directory: Path) -> None:
        """Check the files that the record names; their arrays are read when they are asked for.

        Raises:
            UsageProblem: there is no record, or it is damaged or was changed.
        """
        self._folder = directory / FOLDER if (directory / FOLDER).is_dir() else directory
        if not (self._folder / _INDEX).is_file():
            raise UsageProblem(
                f"The folder holds no record to compare with; make one with `verify --record`: {directory}"
            )
        index = self._folder / _INDEX
        found = read_document(index, Index)
        if found.sha256 != found.hash():
            raise UsageProblem(f"The record was changed after it was made; record it again: {index}")
        self.name, self.model_sha256 = f"record of {found.reference}", found.model_sha256
        self.ranges = {name: Range(*sizes) for name, sizes in found.ranges.items()}
        self._calls = found.calls
        for call in self._calls:
            check_recorded(self._folder / call.file, call.sha256)

    def cases(self) -> list[RecordedCase]:
        """Return the cases, in the order of recording."""
        found: dict[str, list[Recorded]] = {}
        for call in self._calls:
            found.setdefault(repr((call.values, call.shapes)), []).append(call)
        return [RecordedCase(self, calls) for calls in found.values()]

    def arrays(self, call: Recorded, part: str) -> Arrays:
        """Return the `inputs` or what was `expected` of a call."""
        prefix, arrays = f"{part}/", load_arrays(self._folder / call.file)
        return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


class RecordedCase:
    """The calls of one case of a record: a reference for them alone."""

    def __init__(self, record: KeptReference, calls: Sequence[Recorded]) -> None:
        """Take the calls, which differ in their inputs' label."""
        self.name = record.name
        self._record = record
        self._calls = {call.inputs: call for call in calls}
        self._first = calls[0]
        self.labels = list(self._calls)
        self.shapes = self._first.shapes

    def inputs(self, label: str, specs: Sequence[TensorSpec]) -> Arrays:
        """Return the inputs of a label in the target's types, which may be narrower than the model's.

        Raises:
            UsageProblem: the record lacks one.
        """
        arrays = self._record.arrays(self._calls[label], "inputs")
        if lacking := [spec.name for spec in specs if spec.name not in arrays]:
            raise UsageProblem(f"The record lacks input {lacking[0]} of the target.")
        return {spec.name: arrays[spec.name].astype(spec.dtype) for spec in specs}

    def expected(self, label: str, inputs: Arrays) -> Arrays:  # noqa: ARG002 - of a session
        """Return what was recorded for a label."""
        return self._record.arrays(self._calls[label], "expected")

    def lacks(self, check: Check, trial: Trial) -> set[str]:  # noqa: ARG002 - of a session
        """Return the outputs for which the model did not have a property."""
        return set(self._first.lacks.get(check.__name__, ()))

    def fails(self, check: Check, trial: Trial) -> bool:  # noqa: ARG002 - of a session
        """Whether the model itself did not run at a shape that a check makes."""
        return check.__name__ in self._first.fails


def check_recorded(path: Path, sha256: str) -> None:
    """Raise UsageProblem for a file of a record that is not there as it was written."""
    try:
        sound = hash_file(path) == sha256
    except OSError as error:
        raise UsageProblem(
            f"A file of the record cannot be read ({error.strerror}); record it again: {path}"
        ) from error
    if not sound:
        raise UsageProblem(f"A file of the record was damaged or changed after it was made; record it again: {path}")


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array that is written without pickle: strings arrive as objects."""
    return array.astype(str) if array.dtype.hasobject else array
