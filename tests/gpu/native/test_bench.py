from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from trt_nets import WIDTH, Engines, integers

SHORT: dict[str, Any] = {"duration_s": 0.05, "warmup_ms": 10.0, "iterations": 50}
COLUMNS = ("start_ms", "compute_start_ms", "end_ms", "enqueue_ms", "h2d_ms", "compute_ms", "d2h_ms", "latency_ms")


def check(result: Any, streams: int = 1) -> None:
    assert len(result) >= SHORT["iterations"]
    for name in (*COLUMNS, "host_start_ms", "end_to_end_ms"):
        column = getattr(result, name)
        assert column.dtype == np.float64
        assert column.shape == (len(result),)
        assert np.isfinite(column).all()
        assert (column >= 0).all()
    assert (result.compute_ms > 0).all()
    assert (result.enqueue_ms > 0).all()
    np.testing.assert_allclose(result.latency_ms, result.h2d_ms + result.compute_ms + result.d2h_ms)
    assert (np.diff(result.start_ms) >= 0).all()
    assert (result.end_ms > result.start_ms).all()
    assert set(result.stream) == set(range(streams))
    assert result.throughput_qps == pytest.approx(len(result) / result.wall_ms * 1000)
    assert result.wall_ms == pytest.approx(result.end_ms.max() - result.start_ms[0])
    assert result.warmup_queries > 0


@pytest.mark.parametrize("spin", [True, False])
@pytest.mark.parametrize("graph", [True, False])
@pytest.mark.parametrize("depth", [1, 2])
def test_every_sample_is_kept(native: Any, engines: Engines, spin: bool, graph: bool, depth: int) -> None:
    options = native.BenchOptions(spin=spin, cuda_graph=graph, depth=depth, **SHORT)
    result = native.bench(engines("fixed"), {"x": integers(4, WIDTH)}, options)
    check(result)
    assert result.graph == graph
    assert result.graph_fallback is None
    assert (result.h2d_ms > 0).all()
    assert (result.d2h_ms > 0).all()
    assert (result.compute_start_ms >= SHORT["warmup_ms"] * 0.99).all()


def test_without_transfers_latency_is_compute(native: Any, engines: Engines) -> None:
    options = native.BenchOptions(transfers=False, **SHORT)
    result = native.bench(engines("fixed"), {"x": integers(4, WIDTH)}, options)
    check(result)
    assert (result.h2d_ms == 0).all()
    assert (result.d2h_ms == 0).all()
    np.testing.assert_array_equal(result.latency_ms, result.compute_ms)


@pytest.mark.parametrize("threads", [True, False])
def test_several_streams(native: Any, engines: Engines, threads: bool) -> None:
    options = native.BenchOptions(streams=3, threads=threads, **SHORT)
    check(native.bench(engines("dynamic"), {"x": integers(4, WIDTH)}, options), streams=3)


def test_no_graph_for_shapes_that_depend_on_the_data(native: Any, engines: Engines) -> None:
    result = native.bench(engines("nonzero"), {"x": integers(4, 8)}, native.BenchOptions(**SHORT))
    check(result)
    assert not result.graph
    assert "depends on the data" in result.graph_fallback


def test_an_engine_with_a_shape_tensor(native: Any, engines: Engines) -> None:
    engine = engines("expand")
    dtype = next(tensor.dtype for tensor in engine.inputs if tensor.name == "shape")
    inputs = {"x": integers(1, 4), "shape": np.array([6, 4], dtype)}
    check(native.bench(engine, inputs, native.BenchOptions(**SHORT)))
    with native.Runner(engine) as runner:
        check(runner.measure(inputs, native.BenchOptions(**SHORT)))


def test_duration_counts(native: Any, engines: Engines) -> None:
    options = native.BenchOptions(duration_s=0.3, warmup_ms=20, iterations=1)
    result = native.bench(engines("fixed"), {"x": integers(4, WIDTH)}, options)
    assert 250 < result.wall_ms < 600


@pytest.mark.parametrize("graph", [True, False])
def test_single_calls(native: Any, engines: Engines, graph: bool) -> None:
    with native.Runner(engines("fixed"), native.RunnerOptions(cuda_graph=graph)) as runner:
        result = runner.measure({"x": integers(4, WIDTH)}, native.BenchOptions(**SHORT))
    check(result)
    assert result.graph == graph
    assert (result.end_to_end_ms > result.compute_ms).all()


def test_single_calls_with_state(native: Any, engines: Engines) -> None:
    with native.Runner(engines("recurrent"), native.RunnerOptions(state={"h_next": "h"})) as runner:
        result = runner.measure({"x": integers(1, 8)}, native.BenchOptions(**SHORT))
    check(result)
    assert result.graph


@pytest.mark.parametrize(
    "options", [{"iterations": 0}, {"streams": 0}, {"depth": 0}, {"duration_s": -1}, {"profile": 7}]
)
def test_senseless_options(native: Any, engines: Engines, options: dict[str, Any]) -> None:
    with pytest.raises(native.UsageProblem):
        native.bench(engines("fixed"), {"x": integers(4, WIDTH)}, native.BenchOptions(**options))


def test_inputs_are_checked(native: Any, engines: Engines) -> None:
    with native.Runner(engines("fixed")) as runner:
        for wrong in ({}, {"x": integers(5, WIDTH)}, {"x": np.zeros((4, WIDTH))}):
            for measure in (native.bench, native.profile_layers):
                with pytest.raises(native.UsageProblem):
                    measure(engines("fixed"), wrong)
            with pytest.raises(native.UsageProblem):
                runner.measure(wrong)


def test_layers_are_timed(native: Any, engines: Engines) -> None:
    layers = native.profile_layers(engines("fixed"), {"x": integers(4, WIDTH)}, iterations=7)
    assert layers
    assert all(layer.name for layer in layers)
    assert all(layer.milliseconds.shape == (7,) for layer in layers)
    assert sum(layer.milliseconds.sum() for layer in layers) > 0
