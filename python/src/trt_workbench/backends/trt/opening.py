"""The session of an engine with what its makers put around it: fences that are not shown, batches that are split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trt_workbench.backends.base import Session
from trt_workbench.backends.images import NOTHING, ImageTransform, Pixels
from trt_workbench.backends.trt.choice import RunnerChoice
from trt_workbench.backends.trt.pool import TrtStreamPool
from trt_workbench.backends.trt.session import TrtSession
from trt_workbench.core.errors import UsageProblem
from trt_workbench.engine.loading import LoadedEngine
from trt_workbench.model.fence_names import is_fence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trt_workbench.model.precision import Precision


def open_engine(
    loaded: LoadedEngine, choice: RunnerChoice, concurrency: int, conversion: Mapping[str, Any] | None = None
) -> Session:
    """Return the session of an engine, arguments as those of `TrtSession`.

    Raises:
        UsageProblem: the choice does not fit the engine.
        DeviceFailure: the device is out of memory or failed.
    """
    kind = FencedTrtSession if any(is_fence(tensor.name) for tensor in loaded.engine.outputs) else TrtSession
    session = kind(loaded, choice, concurrency, conversion)
    manifest = loaded.plan.manifest
    around = manifest.way_around if manifest else None
    rows = choice.rows or (around.rows if around else None)
    return RowsSession(session, rows) if rows else session


def whole_engine(session: Session) -> TrtSession:
    """Return the session that executes the engine, where `session` splits batches: calls of it are whole."""
    inner = session.inner if isinstance(session, RowsSession) else session
    assert isinstance(inner, TrtSession)
    return inner


def whole_batches(session: Session) -> TrtSession:
    """Return a session of an engine that executes batches whole; one that splits them is closed.

    Raises:
        UsageProblem: it splits batches, or is not of the native core.
    """
    if isinstance(session, TrtSession):
        return session
    session.close()
    raise UsageProblem("infer-engine times whole calls of an engine; omit --option rows, which splits them.")


class FencedTrtSession(TrtSession):
    """An engine some of whose outputs are fences (`model/fences.py`): they are neither shown nor moved."""

    def __init__(
        self, loaded: LoadedEngine, choice: RunnerChoice, concurrency: int, conversion: Mapping[str, Any] | None = None
    ) -> None:
        """Make the contexts and buffers, as `TrtSession` does."""
        super().__init__(loaded, choice, concurrency, conversion)
        self.outputs = tuple(spec for spec in self.outputs if not is_fence(spec.name))

    def run_images(
        self, images: Sequence[Pixels], transform: ImageTransform, more: Mapping[str, NDArray[Any]] = NOTHING
    ) -> dict[str, NDArray[Any]]:
        """Execute the model on images, as `ImageSession` describes."""
        found = super().run_images(images, transform, more)
        return {spec.name: found[spec.name] for spec in self.outputs}

    def _run(self, inputs: dict[str, NDArray[Any]], **selection: Any) -> dict[str, NDArray[Any]]:
        return super()._run(inputs, **{"outputs": [spec.name for spec in self.outputs], **selection})


class RowsSession(Session):
    """A session whose batches are split into calls of few rows, for an engine that is correct only at small batches.

    Attributes:
        inner: the session that executes the calls.
    """

    def __init__(self, inner: TrtSession, rows: int) -> None:
        """Take the session, which is closed with this one, and the most rows of a call.

        Raises:
            UsageProblem: the engine has no dynamic batch, or keeps state from call to call.
        """
        self._batched = [spec.name for spec in inner.inputs if spec.shape[:1] == (None,)]
        if not self._batched or inner.state_inputs:
            inner.close()
            why = "it keeps state from call to call" if self._batched else "no first dimension of its inputs is dynamic"
            raise UsageProblem(f"Option rows={rows} cannot split batches of this engine: {why}.")
        self.inner, self.loaded, self._rows = inner, inner.loaded, rows
        self.inputs, self.outputs, self.metadata = inner.inputs, inner.outputs, inner.metadata
        self.concurrency = inner.concurrency

    @property
    def provenance(self) -> Mapping[str, Any]:  # type: ignore[override]
        """What executes the model, and how many rows a call has at most."""
        return {**self.inner.provenance, "rows": self._rows}

    def most_rows(self, name: str, shape: Sequence[int], axis: int) -> int:
        """Return the most rows of a call, as `PoolingSession` describes."""
        return min(self._rows, self.inner.most_rows(name, shape, axis) or self._rows)

    def stream_pool(self, *given: Any, timing: bool) -> TrtStreamPool:
        """Return a pool of streams on the device, as `PoolingSession` describes; `most_rows` keeps its calls small."""
        return self.inner.stream_pool(*given, timing=timing)

    def _precision(self) -> Precision | None:
        return self.inner._precision()

    def _infer(self, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        sizes = {len(inputs[name]) for name in self._batched}
        if len(sizes) > 1:
            raise UsageProblem(
                f"Inputs have {' and '.join(map(str, sorted(sizes)))} rows; with rows={self._rows} all must have the "
                "same number."
            )
        parts = [
            self.inner.run({k: v[first : first + self._rows] if k in self._batched else v for k, v in inputs.items()})
            for first in range(0, sizes.pop(), self._rows)
        ]
        if len(parts) == 1:
            return parts[0]
        split = {spec.name for spec in self.outputs if spec.shape[:1] == (None,)}
        return {
            name: np.concatenate([part[name] for part in parts]) if name in split else array
            for name, array in parts[0].items()
        }

    def _close(self) -> None:
        self.inner.close()
