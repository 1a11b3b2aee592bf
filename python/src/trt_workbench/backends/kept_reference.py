"""The reference's side of a run, kept to compare other targets with.

`reference/record.json` names `.npz` files, each with its hash, and holds a hash of itself: a record changed afterwards
is rejected. What a command keeps in addition is in a subclass of `RecordIndex`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Session
from trt_workbench.backends.registry import backend_names, load_reference, require_backend
from trt_workbench.core.array_files import load_arrays, named_below, numpy_dtype, save_arrays
from trt_workbench.core.documents import Inside, Open, Strict, read_document, write_json
from trt_workbench.core.elements import Kind, kind
from trt_workbench.core.errors import UsageProblem, WorkbenchError
from trt_workbench.core.hashing import hash_document, hash_file

FOLDER, _INDEX = "reference", "record.json"
_COMMANDS = {"calls": "verify", "stream": "eval-stream"}
Arrays = dict[str, NDArray[Any]]


class KeptFile(Strict):
    """A file of a record."""

    file: Inside
    sha256: str


class RecordIndex(Strict):
    """record.json.

    Attributes:
        kind: what was kept: "calls" of verify, a "stream" of eval-stream.
        model_sha256: of the reference's model.
        reference: what ran it, such as `ort-cpu`.
        provenance: what really executed it.
        sha256: hash of all else.
    """

    schema_version: Literal[1] = 1
    kind: str
    model_sha256: str
    reference: str
    provenance: dict[str, Any]
    sha256: str = ""

    def hash(self) -> str:
        """Return what `sha256` has to be."""
        # an older record has no `kind`
        return hash_document(self.model_dump(mode="json", exclude={"sha256"}, exclude_unset=True))

    @property
    def files(self) -> Iterable[KeptFile]:
        """All files of the record."""
        raise NotImplementedError


IndexT = TypeVar("IndexT", bound=RecordIndex)


class ReferenceWriter:
    """Writes a record while a run goes on."""

    def __init__(self, folder: Path) -> None:
        """Begin one in the folder of a run."""
        self._folder = folder / FOLDER
        self._folder.mkdir()

    def keep(self, name: str, parts: Mapping[str, Mapping[str, NDArray[Any]]]) -> KeptFile:
        """Write arrays, by part ("" for none) and name, into a file of this name."""
        path = self._folder / name
        save_arrays(path, {_key(part, key): one for part, arrays in parts.items() for key, one in arrays.items()})
        return KeptFile(file=name, sha256=hash_file(path))

    def write(self, index: RecordIndex) -> None:
        """Write the index of the files, which completes the record."""
        index = type(index).model_validate(index.model_dump())  # with everything set
        write_json(self._folder / _INDEX, index.model_copy(update={"sha256": index.hash()}))


class KeptRecord(Generic[IndexT]):
    """A record that is read back.

    Attributes:
        index: content of record.json.
        name: what made it, for display.
    """

    def __init__(self, directory: Path, index: type[IndexT]) -> None:
        """Check the record and all of its files; arrays are read when they are asked for.

        Args:
            directory: of the run that made it, or of the record itself.
            index: its class.

        Raises:
            UsageProblem: there is no record, it is one of another command, or it is damaged or was changed.
        """
        self._held: tuple[str, Arrays] | None = None
        self._folder = directory / FOLDER if (directory / FOLDER).is_dir() else directory
        path, command = self._folder / _INDEX, _COMMANDS[index.model_fields["kind"].default]
        make = f"make one with `{command} --record`"
        if not path.is_file():
            raise UsageProblem(f"The folder has no record to compare with; {make}: {directory}")
        found = read_document(path, _Kind).kind
        if _COMMANDS.get(found) != command:
            raise UsageProblem(f"The record was made by {_COMMANDS.get(found, found)}; {make}: {path}")
        self.index = read_document(path, index)
        if self.index.sha256 != self.index.hash():
            raise UsageProblem(f"The record was changed after it was made; record it again: {path}")
        for one in self.index.files:
            self._check(one)
        self.name = f"record of {self.index.reference}"

    def arrays(self, file: KeptFile, part: str, needed: Iterable[str] = (), what: str = "output") -> Arrays:
        """Return the arrays of a part of a file by name.

        Args:
            file: of the record.
            part: as it was kept.
            needed: names that have to be among them.
            what: these are called.

        Raises:
            UsageProblem: one that is needed is not there.
        """
        found = named_below(self._read(file), _key(part, ""))
        if lacking := next((name for name in needed if name not in found), None):
            raise UsageProblem(
                f"The record lacks the {what} {lacking} of the target; record it again: {self._folder / file.file}"
            )
        return found

    def require_tensor(
        self, file: KeptFile, name: str, array: NDArray[Any], dtype: str, sizes: Sequence[int | None]
    ) -> None:
        """Raise UsageProblem for an array that is none of a tensor of the target: anybody can seal a record.

        Args:
            file: of the record.
            name: of the tensor.
            array: as it was kept.
            dtype: of the tensor; narrower types are kept in wider ones, floats in four bytes at most.
            sizes: of its dimensions, None for any.
        """
        fits = len(array.shape) == len(sizes) and all(
            want in (None, size) for want, size in zip(sizes, array.shape, strict=True)
        )
        like = np.empty(0, numpy_dtype(dtype))
        if (
            not fits
            or kind(array) != kind(like)
            or (kind(array) is Kind.REAL and array.itemsize > max(4, like.itemsize))
        ):
            shown = ", ".join("?" if one is None else str(one) for one in sizes)
            raise UsageProblem(
                f"The record does not match the target: {name} is {dtype} [{shown}], but was recorded as "
                f"{array.dtype} {list(array.shape)}; record it again: {self._folder / file.file}"
            )

    def is_of(self, reference: str, versions: Mapping[str, str]) -> bool:
        """Whether it was made by a runtime of this name, in these versions of its packages."""
        made = self.index.provenance
        return self.index.reference == reference and all(
            made.get(name, version) == version for name, version in versions.items()
        )

    def require_model(self, sha256: str | None, place: Path) -> None:
        """Raise UsageProblem if the hash of the target's model, None if unknown, differs from the record's."""
        if sha256 != self.index.model_sha256:
            other = "of another model" if sha256 else "of a model that may not be the target's source"
            raise UsageProblem(
                f"The record is {other} ({self.index.model_sha256[:12]}); pass its own model with --model, or record "
                f"again: {place}"
            )

    def _read(self, file: KeptFile) -> Arrays:
        """Return all arrays of a file; those of the last one are held."""
        if self._held is None or self._held[0] != file.file:
            self._held = file.file, load_arrays(self._folder / file.file)
        return self._held[1]

    def _check(self, one: KeptFile) -> None:
        """Raise UsageProblem for a file that is missing or was changed."""
        path = self._folder / one.file
        try:
            sound = hash_file(path) == one.sha256
        except OSError as error:
            raise UsageProblem(
                f"A file of the record cannot be read ({error.strerror}); record it again: {path}"
            ) from error
        if not sound:
            changed = "was damaged or changed after it was made"
            raise UsageProblem(f"A file of the record {changed}; record it again: {path}")


def record_folder(asked: str, brought: str = "") -> Path | None:
    """Return the folder of the record that --reference names; None where it names a backend.

    Args:
        asked: value of --reference.
        brought: an option whose values the record has already, if it was given.

    Raises:
        UsageProblem: it names neither, or the option was given together with a record.
        ComponentMissing: the backend cannot serve here.
    """
    if asked in backend_names():
        return None
    if Path(asked).is_dir():
        if brought:
            raise UsageProblem(
                f"{brought} cannot be combined with a record; omit it, or choose a backend with --reference."
            )
        return Path(asked)
    if len(Path(asked).parts) > 1:
        raise UsageProblem(f"The reference does not exist; pass the run directory of a --record: {asked}")
    require_backend(asked, ".onnx")  # says what there is
    return None


def open_reference(asked: str, model: Path) -> Session:
    """Return the model on the backend that --reference names.

    Raises:
        WorkbenchError: it cannot be opened; of the class that the backend raises.
    """
    try:
        return load_reference(model, name=asked)
    except WorkbenchError as error:
        raise type(error)(
            f"The reference {asked} cannot be opened; choose another with --reference. {error}"
        ) from error


def require_kept(record: Path, output: Path | None) -> None:
    """Raise UsageProblem if a run in `output` would replace the record that it is compared with."""
    kept = record.resolve()
    if output and record.is_dir() and output.resolve() in (kept, *kept.parents):
        raise UsageProblem(f"The output would overwrite the reference; choose another folder with --output: {output}")


def _key(part: str, name: str) -> str:
    return f"{part}/{name}" if part else name


class _Kind(Open):
    kind: str = "calls"
