"""Evaluations of small models."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.streaming_models import (
    MODELS,
    contract_of,
    write_contract,
)

from trt_workbench.backends.base import Session
from trt_workbench.stream.document import LaneMetrics, StreamMetrics
from trt_workbench.stream.gate_result import GateResult
from trt_workbench.stream.opening import OpenedStream
from trt_workbench.stream.run import StreamEvaluation
from trt_workbench.stream.settings import StreamSettings


def settings(folder: Path, name: str = "attention", **more: Any) -> StreamSettings:
    path = MODELS[name][0](folder) if "target" not in more else more.pop("target")
    contract = write_contract(folder / f"{name}.json", more.pop("document", None) or contract_of(name))
    given = {"target": path, "contract": contract, "backend": "ort-cpu", "chunks": 40, **more}
    return StreamSettings(**given)


def evaluated(asked: StreamSettings, folder: Path) -> StreamMetrics:
    folder.mkdir(exist_ok=True)
    (folder / "run.json").touch()  # only a run's folder is written to again
    with OpenedStream(asked, lambda _: None) as opened:
        return StreamEvaluation(opened).run(folder, lambda *_: None)


def failing(lane: LaneMetrics) -> dict[str, GateResult]:
    return {gate.gate: gate for gate in lane.gates if gate.verdict == "failed"}


class Spoilt(Session):
    """ort-cpu, of whose outputs one is spoiled from a chunk on."""

    def __init__(self, inner: Session, spoil: Callable[[int, dict[str, NDArray[Any]]], None]) -> None:
        self._inner, self._spoil, self._calls = inner, spoil, 0
        self.inputs, self.outputs, self.metadata, self.provenance = inner.inputs, inner.outputs, {}, {}

    def _infer(self, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        found = {name: array.copy() for name, array in self._inner.run(inputs).items()}
        self._spoil(self._calls, found)
        self._calls += 1
        return found

    def _close(self) -> None:
        self._inner.close()


def spoiled(
    asked: StreamSettings,
    folder: Path,
    spoil: Callable[[int, dict[str, NDArray[Any]]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> LaneMetrics:
    """The closed loop of a target that `spoil` changes the outputs of."""
    plain = OpenedStream.session
    made: dict[int, Spoilt] = {}

    def session(self: OpenedStream, precision: str, *, on_device: bool = False) -> Session:
        inner = plain(self, precision, on_device=on_device)
        return made.setdefault(id(inner), Spoilt(inner, spoil))

    monkeypatch.setattr(OpenedStream, "session", session)
    return evaluated(replace(asked, mode=("closed-loop",)), folder).lanes[0]


def add(name: str, amount: float, since: int) -> Callable[[int, dict[str, NDArray[Any]]], None]:
    def spoil(chunk: int, outputs: dict[str, NDArray[Any]]) -> None:
        if chunk >= since:
            outputs[name] += np.asarray(amount).astype(outputs[name].dtype)

    return spoil
