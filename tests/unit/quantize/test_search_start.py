"""A search never returns less int8 than where it began at the same loss, on random models, judged by hand."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.model.low_precision.evidence import SearchPoint
from trt_workbench.model.opened import Model
from trt_workbench.quantize.calibrate import calibrate
from trt_workbench.quantize.candidates import make_candidate
from trt_workbench.quantize.data import calibration_data
from trt_workbench.quantize.search import Search, SearchResult
from trt_workbench.quantize.settings import CalibrationSettings, PlacementSettings, SearchSettings


def random_model(path: Path, seed: int) -> Model:
    """Write a few convolutions, some of them depthwise, whose channels have ranges up to a thousand times apart."""
    draw = np.random.default_rng(seed)
    nodes, weights, tensor, channels = [], [], "x", 6
    for number in range(int(draw.integers(3, 6))):
        group = channels if number and draw.random() < 0.5 else 1
        spread = 10 ** draw.uniform(0, draw.choice([0.2, 3.0]), (channels, 1, 1, 1))
        values = draw.standard_normal((channels, channels // group, 3, 3)) * spread / 3
        weights.append(onnx.numpy_helper.from_array(values.astype(np.float32), f"w{number}"))
        made = f"t{number}"
        nodes.append(
            onnx.helper.make_node(
                "Conv", [tensor, f"w{number}"], [f"{made}c"], f"conv{number}", group=group, pads=[1, 1, 1, 1]
            )
        )
        nodes.append(onnx.helper.make_node("Tanh" if draw.random() < 0.3 else "Relu", [f"{made}c"], [made]))
        tensor = made
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", channels, 5, 5])
        for name in ("x", tensor)
    ]
    graph = onnx.helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    return Model.open(path)


def searched(folder: Path, model: Model, bound: float, budget: float | None = None) -> tuple[Search, SearchResult]:
    arrays = np.random.default_rng(5).standard_normal((40, 6, 5, 5)).astype(np.float32)
    np.save(folder / "data.npy", arrays)
    one = Search(
        model, "int8", folder / "out" / "m.int8.onnx", CalibrationSettings(str(folder / "data.npy")),
        PlacementSettings(), SearchSettings(score="cosine", keep_score=bound, budget=budget),
        lambda _: None, lambda _: lambda *_: None,
    )  # fmt: skip
    return one, one.run()


def losses(one: Search, path: Path) -> list[np.ndarray]:
    """Return the loss of every sample of both halves."""
    found = []
    for half in (0, 1):
        data = np.stack([sample["x"] for sample in calibration_data(one.model, one.calibration, half).read()])
        outputs = []
        for file in (one.model.path, path):
            with OrtCpuBackend().load(file, SessionOptions()) as session:
                outputs.append(next(iter(session.run({"x": data}).values())).reshape(len(data), -1).astype(np.float64))
        before, after = outputs
        length = np.linalg.norm(before, axis=1)
        cosine = (before * after).sum(axis=1) / length / np.linalg.norm(after, axis=1)
        apart = np.linalg.norm(after - before, axis=1) / length
        found.append(1 - np.minimum(cosine, 1 - apart**2 / 2))
    return found


@pytest.mark.long(but=1)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("below", [-1.0, 0.5, 4.0])
def test_it_never_returns_less_int8_than_where_it_began_at_the_same_loss(
    tmp_path: Path, seed: int, below: float
) -> None:
    """The bound is so many standard errors below what the model loses that quantize makes."""
    model = random_model(tmp_path / "m.onnx", seed)
    one, _ = searched(tmp_path, model, 0.9, budget=0.0)
    half = calibrate(model, one.calibration, half=0)
    start = make_candidate(model, "int8", tmp_path / "start.int8.onnx", calibration=half)
    ours = losses(one, start.path)
    mean, noise = (
        np.mean([each.mean() for each in ours]),
        np.hypot(*(each.std() / len(each) ** 0.5 for each in ours)) / 2,
    )
    bound = float(max(mean - below * noise, mean / 3))
    one, found = searched(tmp_path, model, bound)
    evidence = found.document.evidence
    assert evidence.began.low_macs == start.evidence.low_macs
    assert evidence.began.mean_loss == pytest.approx(mean, rel=0.02)
    assert evidence.began.loss_sd == pytest.approx(noise, rel=0.2)
    if below < 0:
        assert found.candidate.evidence.low_macs >= start.evidence.low_macs
        return
    if found.candidate is None:
        return
    theirs = losses(one, found.candidate.path)
    result = np.mean([each.mean() for each in theirs])
    assert result <= bound * 1.02
    assert found.candidate.evidence.low_macs >= start.evidence.low_macs or mean - result > 0.8 * noise


def test_without_time_it_is_where_it_began(tmp_path: Path) -> None:
    model = random_model(tmp_path / "m.onnx", 0)
    _, found = searched(tmp_path, model, 0.9, budget=0.0)
    assert found.document.stopped
    assert found.document.evidence.curve == (found.document.evidence.began,)
    assert found.document.evidence.chosen == found.document.evidence.began
    _, whole = searched(tmp_path, model, 0.9)
    assert not whole.document.stopped
    assert whole.document.evidence.chosen.low_macs == 1


@pytest.mark.parametrize(("loss", "seen", "near"), [(0.004, 0.001, True), (0.008, 0.001, True), (0.008, 0.004, False)])
def test_of_two_halves_the_mean_has_to_be_within_the_bound(loss: float, seen: float, near: bool) -> None:
    """However large the noise is: a loss of 0.006 is not said to be within 0.005."""
    found = SearchPoint(kept=1, low_macs=0.9, value=0.4, loss=loss, loss_ci95=None, seen_loss=seen, loss_sd=0.02)
    assert (found.mean_loss <= 0.005) == near
