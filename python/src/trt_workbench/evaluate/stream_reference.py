"""What a stream's outputs are compared with: a session of its own in closed loop, or what an earlier run has kept.

A record is `reference/record.json` with `stream.npz` (the signal) and blocks of chunks, each with its hash; what was
changed afterwards is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Session
from trt_workbench.core.hashing import hash_document, hash_file
from trt_workbench.engine.array_files import load_arrays
from trt_workbench.engine.documents import Inside, Strict, read_document, write_json
from trt_workbench.errors import UsageProblem
from trt_workbench.pipeline.streaming.contract import Contract
from trt_workbench.pipeline.streaming.feeding import fitted, require_kept
from trt_workbench.verify.record import check_recorded

FOLDER, _INDEX, _STREAM = "reference", "record.json", "stream.npz"
_BLOCK = 50
State = dict[str, NDArray[Any]]


class RecordFile(Strict):
    """A file of a record."""

    file: Inside
    sha256: str


class Index(Strict):
    """record.json; `sha256` is of all else in it."""

    schema_version: Literal[1] = 1
    kind: Literal["stream"] = "stream"
    model_sha256: str
    contract_sha256: str
    reference: str
    provenance: dict[str, Any]
    input: dict[str, Any]
    chunks: int
    chunk: int | None
    stream: RecordFile
    blocks: list[RecordFile]
    sha256: str = ""

    def hash(self) -> str:
        """Return what `sha256` has to be."""
        return hash_document(self.model_dump(mode="json", exclude={"sha256"}))


def contract_hash(contract: Contract) -> str:
    """Return the hash of what a contract says of tensors, state and chunks; limits and names may change."""
    said = contract.model_dump(mode="json", include={"symbols", "inputs", "outputs", "state", "chunking"})
    return hash_document(said)


class LiveReference:
    """A session that carries its own state."""

    def __init__(self, session: Session, contract: Contract, initial: State) -> None:
        """Take an open session."""
        self._session, self._contract, self.state = session, contract, initial

    def outputs(self, _: int, feed: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the outputs of a chunk; `state` is then what the next one is fed."""
        found = self._session.run(fitted({**feed, **self.state}, self._session.inputs))
        found = {name: found[name] for name in self._contract.outputs}
        after = self._contract.next_state(found)
        require_kept(self.state, after)
        self.state = after
        return found


class RecordedReference:
    """The outputs that a record keeps.

    Attributes:
        index: what the record says of itself.
        signal: the stream.
        state: what the next chunk is fed.
    """

    def __init__(self, directory: Path) -> None:
        """Check the record; blocks are read when they are asked for.

        Raises:
            UsageProblem: there is no record, or it is damaged or was changed.
        """
        self._folder = directory / FOLDER if (directory / FOLDER).is_dir() else directory
        path = self._folder / _INDEX
        if not path.is_file():
            raise UsageProblem(
                f"The folder holds no record to compare with; make one with `eval-stream --record`: {directory}"
            )
        self.index = read_document(path, Index)
        if self.index.sha256 != self.index.hash():
            raise UsageProblem(f"The record was changed after it was made; record it again: {path}")
        for part in (self.index.stream, *self.index.blocks):
            check_recorded(self._folder / part.file, part.sha256)
        self.signal = load_arrays(self._folder / self.index.stream.file)["signal"]
        self.state: State = {}
        self._block: tuple[int, dict[str, NDArray[Any]]] | None = None

    def begin(self, contract: Contract, initial: State) -> RecordedReference:
        """Start at the first chunk."""
        self._contract, self.state = contract, initial
        return self

    def outputs(self, chunk: int, _: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the outputs of a chunk. Raises UsageProblem where the record lacks one."""
        number = chunk // _BLOCK
        if self._block is None or self._block[0] != number:
            self._block = number, load_arrays(self._folder / self.index.blocks[number].file)
        prefix = f"{chunk}/"
        found = {name.removeprefix(prefix): array for name, array in self._block[1].items() if name.startswith(prefix)}
        if lacking := [name for name in self._contract.outputs if name not in found]:
            raise UsageProblem(f"The record lacks output {lacking[0]} of chunk {chunk}; record it again.")
        self.state = self._contract.next_state(found)
        return found


class Recorder:
    """Writes the record of a run while it goes on."""

    def __init__(self, folder: Path, signal: NDArray[Any], **facts: Any) -> None:
        """Begin a record in `folder`/reference; `facts` are the fields of `Index` that are known."""
        self._folder, self._facts = folder / FOLDER, facts
        self._folder.mkdir()
        np.savez(self._folder / _STREAM, signal=signal)
        self._waiting: dict[str, NDArray[Any]] = {}
        self._blocks: list[RecordFile] = []
        self._chunks = 0

    def add(self, outputs: Mapping[str, NDArray[Any]]) -> None:
        """Keep the outputs of the next chunk."""
        self._waiting |= {f"{self._chunks}/{name}": array for name, array in outputs.items()}
        self._chunks += 1
        if self._chunks % _BLOCK == 0:
            self._write()

    def finish(self) -> None:
        """Write what names the files."""
        self._write()
        stream = RecordFile(file=_STREAM, sha256=hash_file(self._folder / _STREAM))
        index = Index(**self._facts, chunks=self._chunks, stream=stream, blocks=self._blocks)
        write_json(self._folder / _INDEX, index.model_copy(update={"sha256": index.hash()}))

    def _write(self) -> None:
        if self._waiting:
            path = self._folder / f"block-{len(self._blocks):04d}.npz"
            np.savez(path, **self._waiting)  # type: ignore[arg-type]
            self._blocks.append(RecordFile(file=path.name, sha256=hash_file(path)))
            self._waiting = {}
