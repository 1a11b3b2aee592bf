"""The opened model: an ONNX file that is parsed, checked and hashed once a process."""

from __future__ import annotations

import functools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import onnx

from trt_workbench import __version__
from trt_workbench.core.errors import UsageProblem, WorkbenchError
from trt_workbench.core.hashing import Stamp, hash_file, hash_parts, read_hashed, settled_stamp, stamp_of
from trt_workbench.core.memory import give_back
from trt_workbench.core.workspace import cache_root
from trt_workbench.model.facts import ModelFacts, facts_of
from trt_workbench.model.index import GraphIndex
from trt_workbench.model.proto import copied
from trt_workbench.model.reading import check_model, parse_model, read_file, require_sound
from trt_workbench.model.weights import (
    OWN_FILE,
    inferred,
    is_small,
    restore,
    take_out,
    weights_of,
    write_beside,
)

Result = TypeVar("Result")
# Graphs without their weights are small; a search makes hundreds of models and looks at each for a while.
_MOST_MODELS = 64
# So much of the content of files that were read last is kept, for those who load weights several times.
_MOST_KEPT_BYTES = 1 << 26
# A file of fewer bytes is read, hashed and parsed within some ten milliseconds.
_LEAST_REMEMBERED_BYTES = 1 << 24
LARGE_BYTES = 1 << 30
"""Size from which on a model's weights are not held several times: a copy is closed before the next one is opened."""

_lock = threading.RLock()
_opened: OrderedDict[str, _Content] = OrderedDict()


@dataclass(frozen=True)
class _Known:
    """What is known of a file whose content has not changed since: it need not be read to be recognised."""

    version: str
    stamps: list[Stamp]
    facts: ModelFacts
    own_sha256: str
    sha256: str


class _Content:
    """What a file held when it was read, by this process or, where it is only recognised, by an earlier one."""

    def __init__(self, path: Path, known: _Known | None) -> None:
        self.lock = threading.RLock()
        self.worked_out: dict[Callable[..., Any], Any] = {}
        self.parts: dict[str, bytes] = {}
        self.proto: onnx.ModelProto | None = None
        self.stamps: list[Stamp | None] = []
        if known and known.stamps[:1] == [stamp_of(path)]:
            self.facts, self.own_sha256, self.stamps = known.facts, known.own_sha256, [*known.stamps]
            if self.stamps == self.stamps_now(path):
                self.worked_out[_sha256.__wrapped__] = known.sha256  # type: ignore[attr-defined]
                return
        self._read(path)

    def graph(self, path: Path) -> onnx.ModelProto:
        """Return the model without its large weights, read now if it was only recognised."""
        with self.lock:
            if self.proto is None:
                now = _Content(path, None)
                if (now.stamps, now.own_sha256) != (self.stamps, self.own_sha256):
                    raise UsageProblem(f"The model changed on disk since it was opened; start again: {path}")
                self.proto, self.parts = now.proto, now.parts
            assert self.proto
            return self.proto

    def _read(self, path: Path) -> None:
        stamp = settled_stamp(path)
        data, self.own_sha256 = read_file(path)
        model = parse_model(path, data)
        self.facts = facts_of(path, model)
        self.stamps = [stamp, *(settled_stamp(path.parent / name) for name in self.facts.external_locations)]
        try:
            restore(weights_of(model, path, partial(self.part, path), is_small))
        except (OSError, ValueError) as error:
            raise UsageProblem(f"The model's external data does not match it ({error}): {path}") from error
        if self.facts.external_locations:
            require_sound(path, model)  # once more, with what was outside
        self.proto = take_out(model, data)
        if self.stamps != self.stamps_now(path):
            raise UsageProblem(f"The model changed while it was read; wait until it is written: {path}")
        self.parts[OWN_FILE] = data

    def part(self, path: Path, location: str) -> bytes | None:
        """Return what the model's file, or a file of external data, holds; None where it is too large to be kept."""
        file = path if location == OWN_FILE else path.parent / location
        with self.lock:
            data = self.parts.get(location)
            if data is None and file.stat().st_size <= _MOST_KEPT_BYTES:
                data = self.parts[location] = read_hashed(file)[0]
        _let_go()
        return data

    def stamps_now(self, path: Path) -> list[Stamp | None]:
        """Return the stamps that the model's file and its external data have now."""
        return [stamp_of(file) for file in (path, *(path.parent / name for name in self.facts.external_locations))]


class Model:
    """An ONNX model that is valid as far as can be checked without running it.

    `open` reads and parses a file once a process; all who open it share what was read and computed. Weights are read
    when needed, once where they are small, and large ones are never kept. What changed on disk is read
    again by `open`, and refused by a model that was opened before.

    Attributes:
        path: the file, as it was named.
    """

    def __init__(self, path: Path, content: _Content) -> None:
        """Use `open`."""
        self.path, self._content = path, content

    @classmethod
    def open(cls, path: Path, *, recognise: bool = False) -> Model:
        """Return the model in a file, parsed and checked before or now.

        Args:
            path: the file.
            recognise: whether a file that `remember` knows need not be read before its graph is asked for.

        Raises:
            UsageProblem: the file is absent, no sound ONNX model, or an engine in disguise, or its external data is
                missing, too short or outside the folder.
        """
        key = _key(path)
        with _lock:
            content = _opened.pop(key, None)
            if content is None or content.stamps != content.stamps_now(path):
                content = _Content(path, _remembered(key) if recognise else None)
            _opened[key] = content
            _let_go()
        return cls(path, content)

    @property
    def facts(self) -> ModelFacts:
        """What the model asks for."""
        return self._content.facts

    @property
    def proto(self) -> onnx.ModelProto:
        """The model without its large weights, which are marked as external data; shared, so never change it."""
        return self._content.graph(self.path)

    @property
    def external_files(self) -> tuple[Path, ...]:
        """Files beside the model that hold weights, in order of first use."""
        return tuple(self.path.parent / location for location in self.facts.external_locations)

    @property
    def files(self) -> tuple[Path, ...]:
        """The model's own file, and those that hold weights."""
        return (self.path, *self.external_files)

    @property
    def size_bytes(self) -> int:
        """Size of all files."""
        return sum(stamp.size for stamp in self._content.stamps if stamp)

    @property
    def sha256(self) -> str:
        """The hash by which the model is known in records, caches and manifests.

        Without external data it is the SHA-256 of the file. With it, it is the SHA-256 over the file's hash and then,
        in alphabetical order, each location with the hash of its file, so that a renamed or changed weight file counts.

        Raises:
            UsageProblem: a file has changed since the model was opened.
        """
        return _sha256(self)

    @property
    def index(self) -> GraphIndex:
        """The main graph with its shapes inferred, as far as they can be; shared, as `proto`."""
        return _index(self)

    def load(self) -> onnx.ModelProto:
        """Return a copy with all its weights, the caller's own.

        Raises:
            UsageProblem: a file has changed since the model was opened, or the external data does not fit.
        """
        model = copied(self.proto)
        restore(self._weights(model))
        return model

    def beside(self, data: Path) -> onnx.ModelProto:
        """Return a copy, the caller's own, whose large weights are in a file that this writes, one in memory at a time.

        Args:
            data: the file, in the folder in which the copy will be.

        Raises:
            UsageProblem: as `load`.
            OSError: the file cannot be written.
        """
        model = copied(self.proto)
        write_beside(self._weights(model), data)
        return model

    def _weights(self, model: onnx.ModelProto) -> Iterator[tuple[onnx.TensorProto, bytes]]:
        """Yield the tensors of a copy that lack their values, with these; at the end the copy is checked."""
        self.require_unchanged()
        try:
            yield from weights_of(model, self.path, partial(self._content.part, self.path))
            check_model(model)
        except (OSError, ValueError, onnx.checker.ValidationError) as error:
            raise UsageProblem(f"The model's external data does not match it ({error}): {self.path}") from error
        self.require_unchanged()

    def remember(self) -> None:
        """Let later processes recognise the file without reading it, until it changes; a small one is read again."""
        content, stamps = self._content, [stamp for stamp in self._content.stamps if stamp]
        path = _place(_key(self.path))
        if self.size_bytes < _LEAST_REMEMBERED_BYTES or content.proto is None or len(stamps) < len(content.stamps):
            return
        from trt_workbench.core.kept import keep

        with suppress(OSError):  # it is only slower
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            keep(
                path,
                _Known(
                    version=__version__,
                    stamps=stamps,
                    facts=self.facts,
                    own_sha256=content.own_sha256,
                    sha256=self.sha256,
                ),
            )

    def require_unchanged(self) -> None:
        """Raise UsageProblem if a file has changed since the model was opened: after what reads the file by itself."""
        pairs = zip(self._content.stamps_now(self.path), self._content.stamps, strict=True)
        if not all(now and before and now.has_content_of(before) for now, before in pairs):
            raise UsageProblem(f"The model changed on disk since it was opened; start again: {self.path}")

    def __str__(self) -> str:
        """Return the path, which names the model in messages."""
        return str(self.path)

    def __repr__(self) -> str:
        """Name the file."""
        return f"Model({str(self.path)!r})"


def _key(path: Path) -> str:
    # external data lie beside the name that is given, wherever that links to
    return f"{os.path.realpath(path.parent)}\0{os.path.realpath(path)}"


def _place(key: str) -> Path:
    return cache_root() / "models" / f"{hash_parts([('', key)])[:32]}.json"


def _remembered(key: str) -> _Known | None:
    from trt_workbench.core.kept import recalled

    found = recalled(_place(key), _Known, lambda _: None)
    return found if found and found.version == __version__ else None


def once(work: Callable[[Model], Result]) -> Callable[[Model], Result]:
    """Compute the result of a model's function once a process, for all who open the file."""

    @functools.wraps(work)
    def known(model: Model) -> Result:
        content = model._content
        with content.lock:
            if work not in content.worked_out:
                content.worked_out[work] = work(model)
            result: Result = content.worked_out[work]
            return result

    return known


@contextmanager
def checked_on_error(model: Model) -> Iterator[None]:
    """Attribute an error of any kind, while a graph is followed, to the model where ONNX itself rejects it.

    ONNX's checker is not asked first: it refuses operators that it does not know, such as TensorRT's plugins.

    Raises:
        UsageProblem: in place of the block's error, with what ONNX says; else the error is the block's own.
    """
    try:
        yield
    except (WorkbenchError, OSError, MemoryError):
        raise
    except Exception as error:
        try:
            onnx.checker.check_model(model.path)
            inferred(model.proto, strict_mode=True, data_prop=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError, RuntimeError) as reason:
            raise UsageProblem(
                f"The file is not a valid ONNX model ({reason}); export it again: {model.path}"
            ) from error
        raise


@once
def _index(model: Model) -> GraphIndex:
    with checked_on_error(model):
        return GraphIndex(inferred(model.proto))


@once
def _sha256(model: Model) -> str:
    own, locations = model._content.own_sha256, sorted(model.facts.external_locations)
    if not locations:
        return own
    model.require_unchanged()
    parts = [("", own)]
    for location in locations:
        model._content.part(model.path, location)  # who asks for the hash may load the weights, too
        parts.append((location, hash_file(model.path.parent / location)))
    model.require_unchanged()
    return hash_parts(parts)


def _let_go() -> None:
    """Forget models that were opened long ago, and the content of files beyond what may be kept."""
    with _lock:
        while len(_opened) > _MOST_MODELS:
            _opened.popitem(last=False)
        kept = 0
        for content in reversed(_opened.values()):
            kept += sum(map(len, tuple(content.parts.values())))
            if kept > _MOST_KEPT_BYTES and content.parts:
                content.parts = {}
                give_back()


def sha256_of(path: Path) -> str:
    """Return the hash of a file or folder by its kind.

    That of an ONNX file is `Model.sha256`, that of any other file the SHA-256 of its bytes, as is that of one that
    cannot be read as ONNX: its loader reports the error. A folder of a language model has a hash over its
    configuration and weights.

    Raises:
        UsageProblem: the folder holds no language model.
        OSError: a file cannot be read.
    """
    if path.is_dir():
        from trt_workbench.model.llm_directory import examine_llm_directory

        return examine_llm_directory(path).sha256
    if path.suffix == ".onnx":
        try:
            model = Model.open(path)
        except UsageProblem:
            return hash_file(path)
        return model.sha256
    return hash_file(path)
