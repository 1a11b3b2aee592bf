"""What a stream's outputs are compared with: a session of its own in closed loop, or what an earlier run has kept.

A record holds `stream.npz` (the signal), and the outputs in blocks of chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from trt_workbench.backends.base import Session
from trt_workbench.backends.kept_reference import KeptFile, KeptRecord, RecordIndex, ReferenceWriter
from trt_workbench.core.elements import Kind, kind
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.hashing import hash_document
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.feeding import fitted, require_kept
from trt_workbench.stream.contract.parts import TensorOf

_BLOCK = 50
State = dict[str, NDArray[Any]]


class StreamRecordIndex(RecordIndex):
    """record.json."""

    kind: str = "stream"
    contract_sha256: str
    input: dict[str, Any]
    chunks: int
    chunk: int | None
    stream: KeptFile
    blocks: list[KeptFile]

    @property
    def files(self) -> Iterable[KeptFile]:
        """The file of the stream and those of the blocks."""
        return (self.stream, *self.blocks)


def contract_hash(contract: Contract) -> str:
    """Return the hash of what a contract says about tensors, state and chunks; limits and names may change."""
    said = contract.model_dump(mode="json", include={"symbols", "inputs", "outputs", "state", "chunking"})
    return hash_document(said)


class LiveStreamReference:
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


class RecordedReference(KeptRecord[StreamRecordIndex]):
    """The outputs that a record keeps.

    Attributes:
        signal: the stream.
        state: what the next chunk is fed.
    """

    def __init__(self, directory: Path) -> None:
        """Check the record. Raises UsageProblem as of KeptRecord."""
        super().__init__(directory, StreamRecordIndex)
        self.signal = self.arrays(self.index.stream, "", ["signal"], "signal")["signal"]
        self.state: State = {}
        if not 0 < self.index.chunks <= len(self.index.blocks) * _BLOCK:
            raise UsageProblem(f"The record lacks chunks that it lists; record it again: {directory}")

    def require_fits(self, contract: Contract) -> None:
        """Raise UsageProblem where the stream is none of the contract's signal."""
        _, said = contract.signal
        self.require_tensor(self.index.stream, "signal", self.signal, said.dtype, _sizes(said))

    def begin(self, contract: Contract, initial: State) -> RecordedReference:
        """Start at the first chunk."""
        self._contract, self.state = contract, initial
        return self

    def outputs(self, chunk: int, _: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the outputs of a chunk. Raises UsageProblem where the record lacks one."""
        block = self.index.blocks[chunk // _BLOCK]
        found = self.arrays(block, str(chunk), self._contract.outputs)
        found = {name: found[name] for name in self._contract.outputs}
        for name, said in self._contract.outputs.items():
            # of one stream a length is one number
            whole = found[name].ndim == 1 and kind(found[name]) is Kind.WHOLE and not found[name].size
            self.require_tensor(block, name, found[name], said.dtype, [1] if whole else _sizes(said))
        self.state = self._contract.next_state(found)
        return found


def _sizes(tensor: TensorOf) -> list[int | None]:
    """Return the sizes that a contract fixes; None where the chunk decides."""
    found: list[int | None] = []
    for size in tensor.shape:
        try:
            found.append(size.whole({}))
        except ValueError:
            found.append(None)
    return found


class StreamRecorder:
    """Writes the record of a run in progress."""

    def __init__(self, folder: Path, signal: NDArray[Any], **facts: Any) -> None:
        """Begin a record in a run's folder; `facts` are the fields of `StreamRecordIndex` that are known."""
        self._writer, self._facts = ReferenceWriter(folder), facts
        self._stream = self._writer.keep("stream.npz", {"": {"signal": signal}})
        self._waiting: dict[str, Mapping[str, NDArray[Any]]] = {}
        self._blocks: list[KeptFile] = []
        self._chunks = 0

    def add(self, outputs: Mapping[str, NDArray[Any]]) -> None:
        """Keep the outputs of the next chunk."""
        self._waiting[str(self._chunks)] = outputs
        self._chunks += 1
        if self._chunks % _BLOCK == 0:
            self._write()

    def finish(self) -> None:
        """Write what names the files."""
        self._write()
        self._writer.write(
            StreamRecordIndex(**self._facts, chunks=self._chunks, stream=self._stream, blocks=self._blocks)
        )

    def _write(self) -> None:
        if self._waiting:
            self._blocks.append(self._writer.keep(f"block-{len(self._blocks):04d}.npz", self._waiting))
            self._waiting = {}
