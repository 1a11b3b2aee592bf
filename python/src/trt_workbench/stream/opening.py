"""What `eval-stream` and `eval-speech` run: contract, target in each precision and mode, and the reference."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.backends.kept_reference import open_reference, record_folder
from trt_workbench.backends.registry import require_backend
from trt_workbench.core.documents import json_values
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import require_file
from trt_workbench.core.launcher import task
from trt_workbench.core.verification import Mark
from trt_workbench.core.workspace import ENCODER, embedded_contract, embedded_model
from trt_workbench.engine.profiles import Profile
from trt_workbench.model.opened import Model, sha256_of
from trt_workbench.model.randomness import refuse_random
from trt_workbench.model.weights import save_model
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.model_tensors import MODEL_SUFFIX, read_tensors
from trt_workbench.stream.contract.parts import SymbolProfile
from trt_workbench.stream.contract.reading import read_contract
from trt_workbench.stream.input import StreamInput
from trt_workbench.stream.reference import LiveStreamReference, RecordedReference, contract_hash
from trt_workbench.stream.rows import numbers_of_rows
from trt_workbench.stream.settings import DEVICE, StreamedModel, StreamSettings
from trt_workbench.verify import graph_hash, let_through, own_model, refuse_wrong


def fixed_sizes(contract: Contract) -> dict[str, dict[int, int]]:
    """Return by tensor the sizes, by dimension, that are the same for one stream whatever its chunks are."""
    chunks = list(contract.chunks(contract.chunking.first.hop + contract.chunking.later.hop))
    moved = chunks[-1].model_copy(update={"size": 2 * chunks[-1].size - chunks[-1].left_context})
    points = [contract.chunk_values(chunk) for chunk in (*chunks, moved)]
    found: dict[str, dict[int, int]] = {}
    for name in contract.tensors:
        shapes = zip(*(contract.shape(name, point) for point in points), strict=True)
        found[name] = {axis: sizes[0] for axis, sizes in enumerate(shapes) if len(set(sizes)) == 1}
    return found


def write_fixed(model: Model, contract: Contract, folder: Path) -> Path:
    """Write the copy into `folder`, and return its path.

    Raises:
        UsageProblem: the model has changed on disk.
        OSError: the folder cannot be written.
    """
    document, sizes = model.load(), fixed_sizes(contract)
    for value in (*document.graph.input, *document.graph.output):
        for axis, size in sizes.get(value.name, {}).items():
            value.type.tensor_type.shape.dim[axis].dim_value = size
    path = folder / model.path.name
    save_model(document, path)
    return path


Say = Callable[[str], None]


class OpenedStream(AbstractContextManager["OpenedStream"]):
    """The sessions of an evaluation. A context manager that closes them.

    Attributes:
        settings: what is asked for.
        target: the model or plan.
        is_embedded: whether it is the embedded encoder, or a plan that was built from it.
        contract: of the model.
        contract_path: its file.
        backend: that executes the target.
        recorded: the reference, where it is an earlier run's.
        marks: what the manifests of the target's engines say of their verification.
    """

    def __init__(self, settings: StreamSettings, say: Say) -> None:
        """Read the contract and open the reference; sessions of the target are opened on demand.

        Raises:
            UsageProblem: a file cannot be used, contract and model contradict one another, the model is
                nondeterministic, or the reference is of another one.
            ComponentMissing: a backend cannot serve here.
        """
        self.settings, self._say = settings, say
        self.target = settings.target or embedded_model(ENCODER)
        require_file("engine or model", self.target)
        self._graph = Model.open(settings.model) if settings.model else own_model(self.target)
        if self._graph is not None:
            refuse_random(self._graph, "compared")
        self._model_sha256 = graph_hash(self._graph, self.target)
        self.is_embedded = self._model_sha256 == sha256_of(embedded_model(ENCODER))
        self.contract_path = self._contract_path()
        contract = read_contract(self.contract_path, read_tensors(self.target))
        self.contract: Contract = contract.with_constants(settings.constants)
        backend = require_backend(settings.backend, self.target.suffix, say)
        self.backend = backend.name
        for precision in settings.precision:
            backend.check_precision(precision)
        settings.backend_options(backend, is_plan=self.target.suffix != MODEL_SUFFIX)  # refuses what it cannot take
        if DEVICE in settings.mode:
            self._check_device_mode(backend.state)
        self.recorded = self._record()
        self.marks: list[Mark] = []
        self._sessions: dict[tuple[str, Path, bool], Session] = {}
        self._reference_parts: dict[Path, Session] = {}
        self._records: dict[int, dict[str, Any]] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._reference = None if self.recorded else self._open_reference()

    @property
    def reference_file(self) -> Path:
        """The ONNX model that the reference runs, or the target where there is none."""
        return self._graph_path or self.target

    @property
    def _graph_path(self) -> Path | None:
        return self._graph.path if self._graph else None

    @property
    def is_compared_with_itself(self) -> bool:
        """Whether the reference is the same file on the same backend."""
        return self.settings.reference == self.backend and self._graph_path == self.target

    def introduce(self) -> None:
        """Say which model runs where, and by which contract."""
        if self.settings.target is None:
            self._say(f"Model: the embedded streaming encoder {self.target}")
        chosen = " (chosen by auto)" if self.settings.backend != self.backend else ""
        self._say(f"Backend: {self.backend}{chosen}; contract: {self.contract.name}")

    def session(self, precision: str, *, on_device: bool = False) -> Session:
        """Return the target's session of a precision; with its state on the device if requested.

        Raises:
            CheckFailed: its engine is known to be wrong.
        """
        return self._session(precision, self._loaded(), on_device=on_device)

    def joined_session(self, precision: str) -> Session:
        """Return the target's session for many streams; the same as `session` unless that has sizes for one stream.

        Raises:
            CheckFailed: its engine is known to be wrong.
        """
        return self._session(precision, self.target) if DEVICE in self.settings.mode else self.session(precision)

    def part(self, precision: str) -> Callable[[Path, Profile | None], Session]:
        """Return what opens a decoder or joiner on the target's backend.

        Raises:
            CheckFailed: its engine is known to be wrong.
        """

        def load(path: Path, profile: Profile | None) -> Session:
            return self._session(precision, path, profiles=[profile] if profile else [])

        return load

    def reference_session(self) -> Session:
        """Return the reference's session, where it is no record."""
        assert self._reference is not None
        return self._reference

    def reference_part(self, path: Path, _: Profile | None) -> Session:
        """Open a decoder or joiner on the reference's backend."""
        if path not in self._reference_parts:
            self._reference_parts[path] = open_reference(self.settings.reference, path)
        return self._reference_parts[path]

    def _session(
        self, precision: str, path: Path, *, on_device: bool = False, profiles: list[Profile] | None = None
    ) -> Session:
        key = (precision, path, on_device)
        if key not in self._sessions:
            backend = require_backend(self.backend, path.suffix)
            profiles = self._profiles(path, by_rows=backend.plans) if profiles is None else profiles
            extra = self.settings.backend_options(backend, is_plan=path.suffix != MODEL_SUFFIX)
            if backend.plans and len(profiles) > 1:
                extra.setdefault("profiles", [str(one) for one in profiles])
            if on_device:
                extra["state"] = {pair.output: pair.input for pair in self.contract.state}
            shapes = profiles[0] if len(profiles) == 1 else None
            options = SessionOptions(precision=precision, extra=extra, shapes=shapes, note=self._say)
            self._sessions[key] = session = backend.load(path, options)
            marks = refuse_wrong(session.provenance, allow_unverified=self.settings.allow_unverified)
            self.marks += [mark for mark in marks if mark not in self.marks]
        return self._sessions[key]

    def reference(self, initial: dict[str, NDArray[Any]]) -> LiveStreamReference | RecordedReference:
        """Return the reference at the start of a stream."""
        if self.recorded:
            return self.recorded.begin(self.contract, initial)
        assert self._reference is not None
        return LiveStreamReference(self._reference, self.contract, initial)

    def record(self, session: Session) -> dict[str, Any]:
        """Return what a session of the target is, as JSON values."""
        return self._records.setdefault(id(session), session.record())

    def model_record(self) -> dict[str, Any]:
        """Return which model it is."""
        model = {"path": str(self.target), "sha256": sha256_of(self.target), "size_bytes": self.target.stat().st_size}
        return {**model, "graph_sha256": self._model_sha256, "embedded": self.is_embedded}

    def facts(self, settings: StreamedModel, failures: list[str], notes: Sequence[str]) -> dict[str, Any]:
        """Return the fields of `ComparedStream`, given what was asked for, what failed, and further notes."""
        name, path = self.contract.name, str(self.contract_path)
        return {
            "status": "complete",
            "passed": not failures,
            "compared_with_itself": self.is_compared_with_itself,
            "failures": failures,
            "notes": [*let_through(self.marks), *notes],
            "model": self.model_record(),
            "contract": {"name": name, "path": path, "sha256": contract_hash(self.contract)},
            "backend": self.backend,
            "backend_requested": settings.backend,
            "reference": self.reference_record(),
            "settings": json_values(asdict(settings), str),
            "verification": self.marks,
        }

    def reference_record(self) -> dict[str, Any]:
        """Return what the target was compared with."""
        if self.recorded:
            index = self.recorded.index
            return {
                "name": self.recorded.name,
                "graph_sha256": index.model_sha256,
                "provenance": index.provenance,
                "record_sha256": index.sha256,
            }
        assert self._reference is not None
        provenance = self._reference.record()
        return {"name": self.settings.reference, "graph_sha256": self._model_sha256, "provenance": provenance}

    def record_facts(self, stream: StreamInput) -> dict[str, Any]:
        """Return what a record of the reference says of itself."""
        made_by = self.reference_record()
        return {
            "model_sha256": made_by["graph_sha256"],
            "contract_sha256": contract_hash(self.contract),
            "reference": made_by["name"],
            "provenance": made_by["provenance"],
            "input": dict(stream.record),
            "chunk": self.settings.chunk,
        }

    def close(self) -> None:
        """Close every session."""
        while self._sessions:
            self._sessions.popitem()[1].close()
        while self._reference_parts:
            self._reference_parts.popitem()[1].close()
        if self._reference:
            self._reference.close()
        if self._folder:
            self._folder.cleanup()

    def __exit__(self, *_: object) -> None:
        """Close them."""
        self.close()

    def _loaded(self) -> Path:
        """Return the file that sessions load: where state stays on the device, a copy with its sizes as numbers."""
        if DEVICE not in self.settings.mode or self.target.suffix != MODEL_SUFFIX:
            return self.target
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="trtw-stream-")
            write_fixed(Model.open(self.target), self.contract, Path(self._folder.name))
        return Path(self._folder.name) / self.target.name

    def _contract_path(self) -> Path:
        if self.settings.contract:
            return self.settings.contract
        if not self.is_embedded:
            raise UsageProblem(
                f"A streaming model needs its contract (--contract); {task('make-contract')} writes a first one "
                f"for {self.target}"
            )
        return embedded_contract()

    def _check_device_mode(self, keeps_state: bool) -> None:
        if not keeps_state:
            raise UsageProblem(
                f"Backend {self.backend} keeps no state on a device, so it has no mode device; leave it out of "
                "--mode, or use trt or ort-cuda."
            )
        if not self.contract.state:
            raise UsageProblem(f"The contract has no state that could stay on the device: {self.contract_path}")
        if not all(pair.starts_from_zeros for pair in self.contract.state):
            raise UsageProblem(
                "State on a device starts from zeros, but the contract gives another initial value; leave device out "
                f"of --mode: {self.contract_path}"
            )

    def _record(self) -> RecordedReference | None:
        given = {"--input": self.settings.input is not None, "--record": self.settings.record}
        folder = record_folder(self.settings.reference, next((name for name, there in given.items() if there), ""))
        if folder is None:
            return None
        record = RecordedReference(folder)
        record.require_model(self._model_sha256, self._graph_path or self.target)
        if contract_hash(self.contract) != record.index.contract_sha256:
            raise UsageProblem(
                "The record was made by a contract with other tensors, states or chunks; record it again, or pass that "
                f"contract: {self.contract_path}"
            )
        if record.index.chunk != self.settings.chunk:
            said = "the contract's" if record.index.chunk is None else f"--chunk {record.index.chunk}"
            raise UsageProblem(f"The record has chunks of a different size ({said}): {folder}")
        record.require_fits(self.contract)
        return record

    def _open_reference(self) -> Session:
        if self._graph is None:
            raise UsageProblem(
                f"The model of the plan was not found; name it with --model, or pass a record: {self.target}"
            )
        there = read_tensors(self._graph.path)
        inputs, outputs = (
            self.contract.inputs.keys() ^ there.inputs.keys(),
            self.contract.outputs.keys() - there.outputs,
        )
        if other := sorted(inputs | outputs):
            raise UsageProblem(
                f"The reference's model has other tensors than the contract ({', '.join(other[:5])}); name the model "
                f"that the target was made from with --model: {self._graph.path}"
            )
        return open_reference(self.settings.reference, self._graph.path)

    def _profiles(self, path: Path, *, by_rows: bool = False) -> list[Profile]:
        """Return the ranges that an engine is built for: one profile that takes all chunks, else one for each size.

        Of several it is the contract's first; for many streams the one that takes the largest batches, or where an
        engine is built, `by_rows`, so many for each number of rows that a pool runs: at one size TensorRT is fastest,
        and 8.6 captures graphs that it cannot capture while the size is free.
        """
        if self.target.suffix != MODEL_SUFFIX:
            return []
        sizes = (
            [self.settings.chunk]
            if self.settings.chunk
            else [self.contract.chunking.first.size, self.contract.chunking.later.size]
        )
        batch, profiles = self.contract.batch_symbol, list(self.contract.profiles)
        if self.settings.streams and batch:
            profiles.sort(key=lambda one: -one.symbols[batch][2])
        if self.settings.streams and batch and by_rows:
            each_rows = [
                [one.at(batch, rows) for one in profiles if one.covers({batch: rows})] for rows in self._rows()
            ]
            chosen = [one for fitting in each_rows for one in self._covering(fitting, sizes)]
        else:
            chosen = self._covering(profiles, sizes)
        tensors = read_tensors(path).inputs
        # an engine has ranges only of what is dynamic in its model
        dynamic = {
            name for name, one in tensors.items() if not all(isinstance(dim, int) for dim in one.shape or (None,))
        }
        ranges = [self.contract.engine_profile(one).shapes for one in chosen]
        found = [{name: shape for name, shape in one.items() if name in dynamic} for one in ranges]
        return [Profile(shapes=one) for place, one in enumerate(found) if one and one not in found[:place]]

    def _covering(self, profiles: Sequence[SymbolProfile], sizes: Sequence[int]) -> list[SymbolProfile]:
        """Return the first profile that takes chunks of all sizes, else the first for each of them."""
        time = self.contract.time_symbol
        whole = next((one for one in profiles if all(one.covers({time: size}) for size in sizes)), None)
        each = [next((one for one in profiles if one.covers({time: size})), None) for size in sizes]
        return [one for one in ([whole] if whole else each) if one]

    def _rows(self) -> list[int]:
        """Return the numbers of rows that a pool runs for the streams that are asked for."""
        ranges = [one.symbols[self.contract.batch_symbol or ""] for one in self.contract.profiles]
        least, most = min(one[0] for one in ranges), max(one[2] for one in ranges)
        return sorted(numbers_of_rows(least, max(least, min(most, max(self.settings.streams)))))
