"""Prefill and generation of a language model as scenarios of a bench."""

import io
import itertools
import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.faulty_llm import Faulty, rows_after_the_first

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.texts import refused

from trt_workbench.backends.measuring import SamplingLimits
from trt_workbench.backends.preparation import AS_THE_MODEL_SAYS
from trt_workbench.backends.registry import backend_names
from trt_workbench.bench import llm
from trt_workbench.bench.config import load_config
from trt_workbench.bench.matrix import Point, Work, expand
from trt_workbench.bench.model_files import model_files
from trt_workbench.bench.scenarios import load_model, make_scenario
from trt_workbench.bench.worker import Worker
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.serving import serve
from trt_workbench.llm.opening import check_precision
from trt_workbench.llm.settings import BackendChoice
from trt_workbench.model.opened import sha256_of

pytestmark = pytest.mark.usefixtures("llm_output")

Folders = Callable[[str], Path]
PLAN = SamplingLimits(warmup_ms=0, duration_s=0.0, min_iterations=3)


@pytest.fixture(autouse=True)
def _reference_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute references in this process: another one loads PyTorch for seconds."""
    monkeypatch.setattr(llm, "ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(1))


def point(kind: str, backend: str, dims: dict[str, int], **changes: Any) -> Point:
    work = Work("s", kind, "lm", batch=2, dims=dims)
    settings: dict[str, Any] = {"precision": "fp32", "tf32": False, "threads": None, "concurrency": 1, "options": {}}
    return Point(work=work, runtime="r", entry="r", swept={}, backend=backend, **{**settings, **changes})


@pytest.mark.parametrize("backend", ["torch", "ort-cpu"])
@pytest.mark.parametrize(
    ("kind", "dims", "items"),
    [
        ("prefill", {"prompt": 8}, 16),
        ("generate", {"prompt": 8, "new_tokens": 4}, 8),
        ("generate-cached", {"prompt": 8, "new_tokens": 4}, 8),
    ],
)
def test_tokens_are_the_items(
    llm_folder: Folders, monkeypatch: pytest.MonkeyPatch, backend: str, kind: str, dims: dict[str, int], items: int
) -> None:
    folder, one = llm_folder("llama"), point(kind, backend, dims)
    model = load_model(one, folder, {})
    try:
        scenario = make_scenario(model, folder, AS_THE_MODEL_SAYS, one.work, seed=1)
        scenario.once()
        with monkeypatch.context() as patch:  # a clock that moves by 1 ms whenever it is read
            reads = itertools.count()
            patch.setattr("time.perf_counter_ns", lambda: next(reads) * 1_000_000)
            patch.setattr("time.perf_counter", lambda: next(reads) / 1000)
            samples = scenario.measure(PLAN)
    finally:
        model.close()
    assert scenario.items == items
    assert len(samples.latency_ms) == 3
    assert model.provenance["memory_bytes"].keys() <= {"state"}
    agreement = model.provenance["agreement"]
    assert (agreement["reference"], agreement["sequences"], agreement["failure"]) == ("torch:fp32", 2, None)
    assert agreement["tokens"] == dims.get("new_tokens", 1)
    assert agreement["max_logit_difference"] < 1e-4 < agreement["logit_difference_limit"]
    if kind == "prefill":
        assert samples.split_ms == {}
    else:
        whole = samples.split_ms["time_to_first_token"] + 3 * samples.split_ms["time_per_token"]
        assert whole == pytest.approx(samples.latency_ms - 2)  # but for a read at each end


def test_the_reference_is_computed_in_a_process_of_its_own(
    llm_folder: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path))
    monkeypatch.setattr(llm, "ProcessPoolExecutor", ProcessPoolExecutor)
    monkeypatch.setattr(llm, "reference_trace", None)  # here
    folder, one = llm_folder("llama"), point("prefill", "torch", {"prompt": 8})
    model = load_model(one, folder, {})
    make_scenario(model, folder, AS_THE_MODEL_SAYS, one.work, seed=1).once()
    assert model.provenance["agreement"]["failure"] is None
    model.close()


@pytest.mark.usefixtures("doubled_core")
@pytest.mark.parametrize(
    ("kind", "dims", "graphs"),
    [
        ("prefill", {"prompt": 8}, 1),
        ("generate", {"prompt": 8, "new_tokens": 6}, 6),
        ("generate", {"prompt": 8, "new_tokens": 40}, 0),  # more lengths than the core remembers
        ("generate-cached", {"prompt": 8, "new_tokens": 1}, 2),
        ("generate-cached", {"prompt": 8, "new_tokens": 2}, 4),
        ("generate-cached", {"prompt": 8, "new_tokens": 20}, 4),
    ],
)
def test_no_cuda_graph_is_captured_while_it_is_timed(
    llm_folder: Folders,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gpus: Callable[..., None],
    kind: str,
    dims: dict[str, int],
    graphs: int,
) -> None:
    """The core captures a call at its second use, with a state for each of its two buffers; a prompt is one call."""
    gpus("9.0")
    captured = tmp_path / "graphs"
    captured.touch()
    monkeypatch.setenv("TRTW_DOUBLE_GRAPHS", str(captured))
    folder, one = llm_folder("llama"), point(kind, "trt", dims)
    model = load_model(one, folder, {})
    try:
        scenario = make_scenario(model, folder, AS_THE_MODEL_SAYS, one.work, seed=1)
        scenario.once()
        for warmup_ms in (0, 50):
            ready = captured.read_text()
            samples = scenario.measure(replace(PLAN, warmup_ms=warmup_ms))
            assert len(samples.latency_ms) == 3
            assert captured.read_text() == ready
    finally:
        model.close()
    assert len(ready.splitlines()) == graphs


@pytest.mark.parametrize(
    ("kind", "new_tokens", "begun"), [("generate-cached", 20, 4), ("generate", 40, 32), ("generate-cached", 3, 3)]
)
def test_generations_warm_up_by_their_first_tokens(llm_folder: Folders, kind: str, new_tokens: int, begun: int) -> None:
    """A whole one takes seconds, and all that it runs is run by its first tokens."""
    folder, one = llm_folder("llama"), point(kind, "torch", {"prompt": 8, "new_tokens": new_tokens})
    calls: list[int] = []

    def counted(logits: Any, number: int) -> Any:
        calls.append(number)
        return logits

    model = load_model(one, folder, {})
    model.model = Faulty(model.model, counted)
    scenario = make_scenario(model, folder, AS_THE_MODEL_SAYS, one.work, seed=1)
    scenario.once()
    before = len(calls)
    samples = scenario.measure(SamplingLimits(warmup_ms=1, duration_s=0.0, min_iterations=2))
    assert len(samples.latency_ms) == 2
    rounds, rest = divmod(len(calls) - before - 2 * new_tokens, begun)
    assert rest == 0
    assert rounds >= 1
    model.close()


@pytest.mark.parametrize("changes", [{"tf32": True}, {"concurrency": 2}, {"options": {"mode": "default"}}])
def test_what_language_models_do_not_take(llm_folder: Folders, changes: dict[str, Any]) -> None:
    with refused(UsageProblem):
        load_model(point("prefill", "torch", {"prompt": 8}, **changes), llm_folder("llama"), {})


def test_pytorch_on_a_device_of_choice(llm_folder: Folders) -> None:
    one = point("prefill", "torch", {"prompt": 8}, options={"device": "cpu"})
    load_model(one, llm_folder("llama"), {}).close()
    with refused(UsageProblem):
        load_model(replace(one, options={"device": "tpu"}), llm_folder("llama"), {})


def test_graphs_that_were_exported_before(llm_folder: Folders, tmp_path: Path) -> None:
    text = f"models: {{lm: {{path: {llm_folder('llama')}, graphs: exported}}}}\nruntimes: [{{backend: ort-cpu}}]\n"
    (tmp_path / "bench.yaml").write_text(text + "scenarios: {s: {kind: generate-cached}}\n")
    graphs = load_config(tmp_path / "bench.yaml").models["lm"].graphs
    assert graphs == tmp_path / "exported"
    graphs.mkdir()
    with refused(UsageProblem):
        load_model(point("generate-cached", "ort-cpu", {"prompt": 5, "new_tokens": 4}), llm_folder("llama"), {}, graphs)


def test_a_precision_is_refused_before_the_export(
    llm_folder: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "tmp"))
    for kind, dims in (("prefill", {"prompt": 8}), ("generate-cached", {"prompt": 8, "new_tokens": 4})):
        with refused(UsageProblem):
            load_model(point(kind, "ort-cpu", dims, precision="fp16"), llm_folder("llama"), {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", backend_names())
def test_every_backend_runs_language_models_in_fp32(name: str) -> None:
    check_precision(BackendChoice(name))


def test_too_long_for_the_model(llm_folder: Folders) -> None:
    with refused(UsageProblem):
        load_model(point("generate", "torch", {"prompt": 40, "new_tokens": 30}), llm_folder("llama"), {})


def test_configuration_of_a_language_model(llm_folder: Folders, tmp_path: Path) -> None:
    path = tmp_path / "bench.yaml"
    text = f"models: {{lm: {{path: {llm_folder('llama')}}}}}\nruntimes: [{{backend: torch}}]\n"
    path.write_text(text + "scenarios: {s: {kind: generate-cached, dims: {prompt: [8, 16]}}}\n")
    config = load_config(path)
    assert [one.work.dims for one in expand(config)] == [{"prompt": size, "new_tokens": 32} for size in (8, 16)]
    assert len(sha256_of(model_files(config)["lm"])) == 64
    for scenario in [
        "{kind: prefill, dims: {sequence: 8}}",
        "{kind: prefill, imgsz: [8, 8]}",
    ]:
        path.write_text(text + f"scenarios: {{s: {scenario}}}\n")
        with refused(UsageProblem):
            load_config(path)
    path.write_text(text + "scenarios: {s: {kind: arrays}}\n")
    with refused(UsageProblem):
        model_files(load_config(path))
    (tmp_path / "m.onnx").touch()
    path.write_text("models: {m: {path: m.onnx}}\nruntimes: [{backend: torch}]\nscenarios: {s: {kind: prefill}}\n")
    with refused(UsageProblem):
        model_files(load_config(path))
    path.write_text("models: {m: {path: .}}\nruntimes: [{backend: torch}]\nscenarios: {s: {kind: prefill}}\n")
    with refused(UsageProblem):
        model_files(load_config(path))


def one_wrong_token(logits: Any, calls: int) -> Any:
    """Negated once the logits have been compared, and the worker has warmed up and generated once."""
    return -logits if calls == (2 + 4) * 4 + 4 else logits


@pytest.mark.parametrize(
    ("fault", "batch", "fails"),
    [
        (rows_after_the_first, 1, None),
        (rows_after_the_first, 2, "load"),
        (lambda logits, _: logits * np.float32("nan"), 1, "load"),
        (one_wrong_token, 2, "measure"),
    ],
)
def test_what_is_wrong_is_a_failure_of_the_worker(
    llm_folder: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Any, batch: int, fails: str | None
) -> None:
    real = llm.open_cached
    monkeypatch.setattr(llm, "open_cached", lambda *given: Faulty(real(*given), fault))
    one = point("generate-cached", "ort-cpu", {"prompt": 5, "new_tokens": 4})
    document = asdict(one)
    document["work"]["batch"] = batch
    plan = {"warmup_ms": 0, "duration_s": 0.0, "min_iterations": 2}
    load = {"verb": "load", "point": document, "model": str(llm_folder("llama"))}
    load |= {"ranges": {}, "preparation": {}, "graphs": None, "contract": None, "seed": 1}
    measure = {"verb": "measure", "limits": plan, "samples": str(tmp_path / "samples.npz")}
    answers = io.StringIO()
    serve(Worker(), io.StringIO("".join(json.dumps(request) + "\n" for request in (load, measure))), answers)
    loaded, measured = map(json.loads, answers.getvalue().splitlines())
    if fails is None:
        assert loaded["ok"]
        assert measured["provenance"]["agreement"]["failure"] is None
        return
    failed = loaded if fails == "load" else measured
    assert (failed["ok"], failed["kind"], failed["exit_code"]) == (False, "Disagreement", 1)
    assert "from those of torch:fp32" in failed["error"]
    assert not (tmp_path / "samples.npz").exists()
