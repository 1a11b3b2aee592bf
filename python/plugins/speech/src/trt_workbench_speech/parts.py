"""Decoder and joiner as sessions: which tensor is what, and their calls for many streams at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Session, TensorSpec
from trt_workbench.backends.pooling import PooledState, PoolingSession, StatePool
from trt_workbench.core.array_files import numpy_dtype
from trt_workbench.core.errors import UsageProblem
from trt_workbench.stream.contract.decoding import Decoding
from trt_workbench.stream.host_pool import HostPool

_Floats = NDArray[np.float32]


class TextPredictor:
    """The decoder: features after the tokens of each stream. States stay on the device where the session keeps them.

    A decoder without states takes the last tokens of a stream, as many as its input has places.
    """

    def __init__(self, session: Session, said: Decoding, capacity: int) -> None:
        """Make room for streams.

        Raises:
            UsageProblem: the session's tensors are not those of a decoder.
        """
        specs = {spec.name: spec for spec in session.inputs}
        there = {spec.name: spec for spec in session.outputs}
        for pair in said.state:
            if pair.input not in specs or pair.output not in there:
                raise UsageProblem(
                    f"The decoder has no state pair {pair.input}, {pair.output}; it has {_all(session)}."
                )
        states = {name for pair in said.state for name in (pair.input, pair.output)}
        others = [spec for name, spec in specs.items() if name not in states]
        tokens = [spec for spec in others if _is_whole(spec) and len(spec.shape) == 2]
        lengths = [spec for spec in others if _is_whole(spec) and len(spec.shape) == 1]
        features = [spec for name, spec in there.items() if name not in states and spec.dtype.startswith("float")]
        if len(tokens) != 1 or len(tokens) + len(lengths) != len(others) or len(features) != 1:
            raise UsageProblem(
                "A decoder takes tokens [streams, places], states that decoding.state names and perhaps lengths "
                f"[streams], and gives features; this one has {_all(session)}."
            )
        self._tokens, self._lengths, self._features = tokens[0], lengths, features[0].name
        known = tokens[0].below
        for token in (said.blank, *said.start):
            if known is not None and token >= known:
                raise UsageProblem(f"decoding names token {token}, but the decoder knows {known} tokens, from 0 on.")
        self._places, self._start = tokens[0].shape[1] or 1, said.start or (said.blank,)
        self._session = session
        self._last: dict[int, tuple[int, ...]] = {}
        self._pool: StatePool | None = _pool(session, said, specs, others, there, capacity) if said.state else None
        self._numbers = 0

    @property
    def on_device(self) -> bool:
        """Whether states stay on the device."""
        return self._pool is not None and not isinstance(self._pool, HostPool)

    def open(self) -> int:
        """Return the number of a new stream."""
        if self._pool:
            return self._pool.open()
        self._numbers += 1
        padded = (self._start[0],) * self._places + tuple(self._start)
        self._last[self._numbers] = padded[len(padded) - self._places :]
        return self._numbers

    def start(self, stream: int) -> _Floats:
        """Return the features of a stream before its first token, [D]."""
        if not self._pool:
            return self._run([self._last[stream]], None).ravel()
        for token in self._start:
            found = self.push([stream], [token])
        return found.ravel()

    def push(self, streams: Sequence[int], tokens: Sequence[int]) -> _Floats:
        """Take the next token of each of several streams; return the features after it, [streams, D]."""
        if self._pool:
            return self._run([(token,) for token in tokens], streams)
        for stream, token in zip(streams, tokens, strict=True):
            self._last[stream] = (*self._last[stream][1:], token)
        return self._run([self._last[stream] for stream in streams], None)

    def close(self, stream: int) -> None:
        """Release a stream."""
        if self._pool:
            self._pool.close(stream)
        self._last.pop(stream, None)

    def release(self) -> None:
        """Release all streams; before the session is closed."""
        if self._pool:
            self._pool.release()

    def _run(self, rows: Sequence[tuple[int, ...]], streams: Sequence[int] | None) -> _Floats:
        feed: dict[str, NDArray[Any]] = {self._tokens.name: np.array(rows, numpy_dtype(self._tokens.dtype))}
        for spec in self._lengths:
            feed[spec.name] = np.full(len(rows), len(rows[0]), numpy_dtype(spec.dtype))
        found = self._session.run(feed) if streams is None or not self._pool else self._pool.push(streams, feed)
        return found[self._features].reshape(len(rows), -1).astype(np.float32, copy=False)


def _pool(
    session: Session,
    said: Decoding,
    specs: dict[str, TensorSpec],
    others: Sequence[TensorSpec],
    there: dict[str, TensorSpec],
    capacity: int,
) -> StatePool:
    """Return where states are kept: zeros at the start, of extent 1 along the dimension that is not fixed."""
    pairs = []
    for pair in said.state:
        spec = specs[pair.input]
        free = [axis for axis, size in enumerate(spec.shape) if size is None]
        if len(free) > 1:
            raise UsageProblem(f"State {spec} of the decoder has several dynamic dimensions, not only the streams'.")
        zeros = np.zeros([size or 1 for size in spec.shape], numpy_dtype(spec.dtype))
        pairs.append(PooledState(pair.input, pair.output, free[0] if free else None, zeros))
    states = {pair.output for pair in said.state}
    axes = {spec.name: 0 for spec in others} | {name: 0 for name in there if name not in states}
    if any(pair.axis is None for pair in pairs):
        return HostPool(session, pairs, axes, capacity, [1])
    if isinstance(session, PoolingSession):
        powers = [1 << power for power in range(capacity.bit_length()) if 1 << power < capacity]
        return session.stream_pool(pairs, axes, capacity, [*powers, capacity], timing=False)
    return HostPool(session, pairs, axes, capacity, range(1, capacity + 1))


class Joiner:
    """Scores of tokens for a frame and the features of a text."""

    def __init__(self, session: Session) -> None:
        """Take an open session.

        Raises:
            UsageProblem: it does not take two tensors of floats and give one.
        """
        floats = [spec for spec in session.inputs if spec.dtype.startswith("float")]
        if len(floats) != len(session.inputs) or len(floats) != 2 or len(session.outputs) != 1:
            raise UsageProblem(f"A joiner takes a frame and features and gives scores; this one has {_all(session)}.")
        by_name = [spec for spec in floats if "dec" in spec.name.lower() or "pred" in spec.name.lower()]
        self._text = by_name[0] if len(by_name) == 1 else floats[1]
        self._frame = next(spec for spec in floats if spec is not self._text)
        self._session, self._scores = session, session.outputs[0].name

    def scores(self, frames: _Floats, features: _Floats) -> _Floats:
        """Take frames [streams, E] and features [streams, D]; return scores [streams, tokens and durations].

        Raises:
            UsageProblem: the joiner takes other sizes.
        """
        feed = {self._frame.name: _as(self._frame, frames), self._text.name: _as(self._text, features)}
        return self._session.run(feed)[self._scores].reshape(len(frames), -1).astype(np.float32, copy=False)


def _as(spec: TensorSpec, rows: _Floats) -> NDArray[Any]:
    """Return rows in the shape of an input: [streams, D], [streams, D, 1] or [streams, 1, D]."""
    shape = [1] * len(spec.shape)
    fixed = [axis for axis, size in enumerate(spec.shape) if axis and size not in (None, 1)]
    shape[0], shape[fixed[0] if fixed else -1] = rows.shape
    return rows.reshape(shape).astype(numpy_dtype(spec.dtype), copy=False)


def _is_whole(spec: TensorSpec) -> bool:
    return spec.dtype in ("int32", "int64")


def _all(session: Session) -> str:
    return ", ".join(map(str, (*session.inputs, *session.outputs)))
