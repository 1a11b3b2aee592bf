"""Chunks of streams as a scenario of a bench: what is timed, what is compared, and what is refused."""

import itertools
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from tests.onnx_text import write_onnx
from tests.streaming_models import MODELS, C, contract_of, counted, counted_contract, write_contract
from tests.texts import refused

from trt_workbench.backends.base import Session
from trt_workbench.backends.measuring import SamplingLimits
from trt_workbench.backends.preparation import AS_THE_MODEL_SAYS
from trt_workbench.backends.registry import get_backend
from trt_workbench.bench.bench_run import prepare_bench
from trt_workbench.bench.config import load_config
from trt_workbench.bench.matrix import Point, Work, expand
from trt_workbench.bench.model_files import contract_file
from trt_workbench.bench.options import session_options
from trt_workbench.bench.output_check import compare_outputs, of_format
from trt_workbench.bench.scenarios import make_scenario
from trt_workbench.bench.streams import StreamWork, stream_profile
from trt_workbench.bench.worker import Worker
from trt_workbench.core.array_files import load_arrays
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.workspace import embedded_contract
from trt_workbench.stream.contract.contract import Contract

Arrays = dict[str, NDArray[Any]]
FEW = SamplingLimits(warmup_ms=0, duration_s=0.0, min_iterations=3)


def work(batch: int = 2, **dims: int) -> Work:
    return Work("chunks", "stream", "m", batch=batch, dims=dims)


def opened(folder: Path, name: str = "attention") -> tuple[Session, Path]:
    return get_backend("ort-cpu").load(MODELS[name][0](folder)), write_contract(folder / "c.json", contract_of(name))


def scenario(session: Session, contract: Path, one: Work, seed: int = 0) -> StreamWork:
    found = make_scenario(session, Path("m.onnx"), AS_THE_MODEL_SAYS, one, seed, contract)
    assert isinstance(found, StreamWork)
    return found


@pytest.mark.parametrize("name", ["attention", "lstm", "convolution"])
def test_a_call_is_a_chunk_of_every_stream(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session, contract = opened(tmp_path, name)
    with session:
        found = scenario(session, contract, work(2))
        with monkeypatch.context() as patch:  # a clock that moves by 1 ms whenever it is read
            reads = itertools.count()
            patch.setattr("time.perf_counter_ns", lambda: next(reads) * 1_000_000)
            patch.setattr("time.perf_counter", lambda: next(reads) / 1000)
            samples = found.measure(FEW)
        assert found.items == 2
        assert len(samples.latency_ms) == 3
        assert samples.split_ms.keys() == {"inference", "state", "host"}
        assert all(len(times) == 3 for times in samples.split_ms.values())
        assert samples.split_ms["inference"].tolist() == pytest.approx([1, 1, 1])
        np.testing.assert_allclose(sum(samples.split_ms.values()), samples.latency_ms - 2)  # but for a read at each end


def test_outputs_are_the_same_whatever_was_measured_before(tmp_path: Path) -> None:
    session, contract = opened(tmp_path)
    with session:
        first = scenario(session, contract, work(3))
        first.measure(FEW)
        again, other = first.outputs(), scenario(session, contract, work(3), seed=1).outputs()
        fresh = scenario(session, contract, work(3)).outputs()
    assert again.keys() == {"encoded", "encoded_len", "cache", "cache_len"}
    assert again["encoded"].shape == (3, 12, 1, 4, 4)
    assert again["cache"].shape == (3, 1, 6, 4)
    for name, array in again.items():
        assert np.array_equal(array, fresh[name])
    assert not np.array_equal(again["encoded"], other["encoded"])
    assert not np.array_equal(again["encoded"][0], again["encoded"][1])


def test_a_stream_that_its_caller_counts_does_not_run_out_of_positions(tmp_path: Path) -> None:
    """It is measured for thousands of chunks, and a table of positions has some hundred."""
    path = counted(tmp_path, ("place = Cast <to = 1> (offset)", "place = Gather(table, offset)"))
    model = onnx.load(path)
    table = onnx.numpy_helper.from_array(np.arange(C + 3 + 2 * 128, dtype=np.float32), "table")
    model.graph.initializer.append(table)
    onnx.save(model, path)
    contract = write_contract(tmp_path / "c.json", counted_contract())
    with get_backend("ort-cpu").load(path) as session:
        found = scenario(session, contract, work(2))
        assert len(found.measure(replace(FEW, min_iterations=400)).latency_ms) == 400
        assert found.outputs()["y"].shape == (2, 12, 1, 2, 3)


@pytest.mark.parametrize("row", [0, 1])
def test_a_state_that_is_lost_is_found_in_its_row(row: int, tmp_path: Path) -> None:
    session, contract = opened(tmp_path)
    with session:
        expected = scenario(session, contract, work(2)).outputs()
        infer = session._infer

        def wrong(inputs: Arrays) -> Arrays:
            found = {name: array.copy() for name, array in infer(inputs).items()}
            found["cache_next"][row] = inputs["cache"][row]
            return found

        session._infer = wrong  # type: ignore[method-assign]
        found = compare_outputs(
            scenario(session, contract, work(2)).outputs(), expected, of_format("fp16"), 2, any_order=False
        )
    assert found["state"] == "wrong"
    assert found["tensors"]["encoded"]["row"] == row


def test_a_worker_measures_and_compares_with_the_reference(tmp_path: Path) -> None:
    model, contract = MODELS["attention"][0](tmp_path), write_contract(tmp_path / "c.json", contract_of("attention"))
    path = config(tmp_path, "path: attention.onnx, contract: c.json", "kind: stream, batch: 3")
    (point,) = expand(load_config(path))
    request = {"point": asdict(point), "model": str(model), "contract": str(contract), "preparation": {}, "seed": 0}
    worker, reference, expected = Worker(), Worker(), str(tmp_path / "expected.npz")
    try:
        loaded = worker.load({**request, "graphs": None, "ranges": {}})
        assert (loaded["items"], loaded["shapes"]) == (3, None)
        limits = {"warmup_ms": 0, "duration_s": 0.0, "min_iterations": 2}
        worker.measure({"limits": limits, "samples": str(tmp_path / "samples.npz")})
        assert load_arrays(tmp_path / "samples.npz").keys() == {"latency_ms", "inference_ms", "state_ms", "host_ms"}
        reference.reference({**request, "outputs": expected})
        found = worker.check({**request, "reference": expected})["outputs"]
    finally:
        worker.close()
        reference.close()
    assert found["state"] == "matched"
    assert found["tensors"].keys() == {"encoded", "encoded_len", "cache", "cache_len"}


def test_more_streams_than_a_call_takes_are_refused(tmp_path: Path) -> None:
    session, contract = opened(tmp_path)
    with session, refused(UsageProblem):
        scenario(session, contract, work(4))


def test_an_engine_gets_the_shapes_of_both_kinds_of_chunks() -> None:
    contract = Contract.model_validate(contract_of("attention"))
    plain = stream_profile(contract, work(2), {}).shapes
    assert (plain["x"].min, plain["x"].opt, plain["x"].max) == ((2, 3, 5), (2, 3, 9), (2, 3, 9))
    assert plain["cache"].min == plain["cache"].max == (2, 6, 4)
    swept = stream_profile(contract, work(2, chunk=11), {"batch": (1, 3), "chunk": (7, 15)}).shapes
    assert (swept["x"].min, swept["x"].opt, swept["x"].max) == ((1, 3, 7), (2, 3, 11), (3, 3, 15))


def config(folder: Path, model: str, kind: str = "kind: stream, batch: [1, 2]", more: str = "") -> Path:
    path = folder / "bench.yaml"
    path.write_text(
        f"models: {{m: {{{model}}}}}\nruntimes: [{{backend: ort-cpu{more}}}]\nscenarios: {{s: {{{kind}}}}}\n"
    )
    return path


def test_the_embedded_encoder_has_its_contract_and_others_name_theirs(tmp_path: Path) -> None:
    ours = load_config(config(tmp_path, "embedded: streaming-encoder"))
    assert contract_file(ours.models["m"]) == embedded_contract()
    assert [point.work.label for point in expand(ours)] == ["m b1", "m b2"]
    MODELS["attention"][0](tmp_path)
    write_contract(tmp_path / "c.json", contract_of("attention"))
    theirs = prepare_bench(str(config(tmp_path, "path: attention.onnx, contract: c.json")), [])
    assert contract_file(theirs.config.models["m"]) == tmp_path / "c.json"


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("path: attention.onnx", "kind: stream"),
        ("path: attention.onnx, contract: none.json", "kind: stream"),
        ("path: attention.onnx, contract: c.json", "kind: stream"),
        ("embedded: streaming-encoder", "kind: stream, dims: {prompt: 3}"),
        ("embedded: streaming-encoder", "kind: stream, imgsz: [3, 3]"),
    ],
)
def test_what_cannot_be_streamed_is_refused_before_anything_runs(model: str, kind: str, tmp_path: Path) -> None:
    MODELS["attention"][0](tmp_path)
    document = contract_of("attention")
    document["profiles"] = document["profiles"][:1]  # no profile takes a later chunk
    write_contract(tmp_path / "c.json", document)
    with refused(UsageProblem):
        prepare_bench(str(config(tmp_path, model, kind)), [])


def test_another_model_in_place_of_the_embedded_one_needs_its_own_contract(tmp_path: Path) -> None:
    model = MODELS["attention"][0](tmp_path)
    with refused(UsageProblem):
        prepare_bench("stream", [], [f"encoder={model}"])


def test_calls_at_once_are_refused(tmp_path: Path) -> None:
    (point,) = expand(load_config(config(tmp_path, "embedded: streaming-encoder", "kind: stream", ", concurrency: 2")))
    assert isinstance(point, Point)
    with refused(UsageProblem):
        session_options(point, tmp_path / "m.onnx", {}, embedded_contract())


def test_tokens_are_drawn_within_the_table(tmp_path: Path) -> None:
    """A predictor of a transducer, say: its signal is one of integers."""
    graph = """g (int64[B, T] tokens, float[B, 2] h) => (float[B, T, 2] y, float[B, 2] h_next) {
        y = Gather(table, tokens) mean = ReduceMean<axes = [1], keepdims = 0>(y) half = Mul(h, k)
        h_next = Add(half, mean) }"""
    table = np.arange(14, dtype=np.float32).reshape(7, 2)
    weights = {"table": table, "k": np.float32(0.5)}
    model = write_onnx(tmp_path / "predictor.onnx", graph, weights)
    rows = {"dtype": "float32", "batch_axis": 0}
    document = {
        "schema_version": 1,
        "name": "predictor",
        "symbols": {"B": None, "T": None, "D": 2},
        "inputs": {
            "tokens": {"dtype": "int64", "shape": ["B", "T"], "batch_axis": 0, "role": "signal", "time_axis": 1},
            "h": {**rows, "shape": ["B", "D"], "role": "state"},
        },
        "outputs": {"y": {**rows, "shape": ["B", "T", "D"]}, "h_next": {**rows, "shape": ["B", "D"]}},
        "state": [{"output": "h_next", "input": "h"}],
        "chunking": {"first": {"size": 3}, "later": {"size": 3}},
        "profiles": [{"name": "all", "symbols": {"B": [1, 2, 4], "T": [3, 3, 3]}}],
    }
    contract = write_contract(tmp_path / "c.json", document)
    with get_backend("ort-cpu").load(model) as session:
        found = make_scenario(session, model, AS_THE_MODEL_SAYS, work(2), 0, contract)
        assert isinstance(found, StreamWork)
        outputs = found.outputs()
    assert set(outputs["y"].reshape(-1, 2)[:, 0] / 2) == set(range(7))
