"""`eval-stream` on a GPU: the embedded encoder passes, and state on the device equals state through the host."""

from pathlib import Path

import pytest

from trt_workbench.backends.registry import availability
from trt_workbench.evaluate.stream import StreamEvaluation
from trt_workbench.evaluate.stream_opening import OpenedStream
from trt_workbench.evaluate.stream_settings import MODES, StreamSettings
from trt_workbench.runs.stream import StreamMetrics

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("own_output")]


def evaluated(folder: Path, backend: str, *precisions: str, faults: bool = False) -> StreamMetrics:
    found = availability(backend)
    if not found.ok:
        pytest.skip(f"{found.reason} {found.fix}")
    asked = StreamSettings(backend=backend, precision=precisions, mode=MODES, chunks=120, faults=faults)
    with OpenedStream(asked, lambda _: None) as opened:
        return StreamEvaluation(opened).run(folder, lambda *_: None)


@pytest.mark.parametrize(("backend", "precisions"), [("trt", ("fp32", "fp16")), ("ort-cuda", ("fp32",))])
def test_the_embedded_encoder_passes_in_every_mode(backend: str, precisions: tuple[str, ...], tmp_path: Path) -> None:
    found = evaluated(tmp_path, backend, *precisions)
    assert found.failures == []
    assert [lane.name for lane in found.lanes] == [f"{one} {mode}" for one in precisions for mode in MODES]
    assert all(lane.bit_equal for lane in found.lanes if lane.mode == "device")
    assert {lane.judged_as for lane in found.lanes if lane.precision == "fp32"} == {"fp32"}


def test_every_planted_fault_is_caught_on_tensorrt(tmp_path: Path) -> None:
    found = evaluated(tmp_path, "trt", "fp32", faults=True)
    assert found.faults is not None
    assert found.faults.missed == []
    assert len([one for one in found.faults.planted if one.caught_by]) == 9
