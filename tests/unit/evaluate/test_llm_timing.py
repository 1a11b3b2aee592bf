"""Timing modes on PyTorch and ONNX Runtime: the same tokens everywhere, one record a repetition."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trt_workbench.backends.base import SessionOptions
from trt_workbench.errors import UsageProblem
from trt_workbench.onnxtools.llm_directory import examine_llm_directory

pytest.importorskip("torch")
pytest.importorskip("transformers")

from trt_workbench.backends.ort_bound import BoundSession
from trt_workbench.backends.ort_common import CPU_PROVIDER
from trt_workbench.backends.ort_cuda import OrtCudaBackend
from trt_workbench.backends.ort_gpu import load_gpu_session
from trt_workbench.backends.ort_trt import OrtTrtBackend
from trt_workbench.backends.registry import get_backend
from trt_workbench.backends.torch_llm import load_torch_llm
from trt_workbench.backends.trt_options import split_options
from trt_workbench.evaluate.llm_files import RecordWriter
from trt_workbench.evaluate.llm_timing import (
    TIMING_MODES,
    TimingRequest,
    first_difference,
    time_models,
)
from trt_workbench.pipeline.language.export import ExportSettings, exported_graph
from trt_workbench.pipeline.language.generation import generate_cached, generate_uncached
from trt_workbench.pipeline.language.models import SessionCache, SessionSlots
from trt_workbench.pipeline.language.opening import BackendChoice, ModelSource, open_cached

Folders = Callable[[str], Path]
TOKENS = np.random.default_rng(0).integers(0, 300, 200)
BACKENDS = (BackendChoice("torch"), BackendChoice("ort-cpu"))


@pytest.fixture(autouse=True)
def _output(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path_factory.getbasetemp() / "llm"))


def source(folder: Path) -> ModelSource:
    return ModelSource(examine_llm_directory(folder), "cpu", 17, None, lambda _: None)


@pytest.mark.parametrize("family", ["gpt2", "llama", "opt"])
def test_greedy_tokens_are_those_of_transformers(llm_folder: Folders, family: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    prompts = TOKENS[:12].reshape(2, 6)
    model = AutoModelForCausalLM.from_pretrained(llm_folder(family)).eval()
    inputs = torch.from_numpy(prompts)
    settings = {"max_new_tokens": 20, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    whole = model.generate(inputs, attention_mask=torch.ones_like(inputs), **settings)
    expected = whole[:, 6:].tolist()
    with_torch = load_torch_llm(examine_llm_directory(llm_folder(family)), device="cpu")
    assert generate_uncached(with_torch, prompts, 20).tokens.tolist() == expected
    assert generate_cached(with_torch, prompts, 20).tokens.tolist() == expected
    with_ort = open_cached(BACKENDS[1], source(llm_folder(family)), 2, 6, 26)
    assert generate_cached(with_ort, prompts, 20).tokens.tolist() == expected
    # again on the same model: what the first sequences left behind does no harm
    assert generate_cached(with_ort, prompts, 20).tokens.tolist() == expected
    with_ort.close()


@pytest.mark.parametrize("batch", [None, 2])
def test_the_static_graph_generates_the_same(llm_folder: Folders, batch: int | None) -> None:
    directory = examine_llm_directory(llm_folder("llama"))
    prompts = TOKENS[:12].reshape(2, 6)
    graph = exported_graph(directory, "static", ExportSettings(cache_length=26, batch=batch))
    expected = generate_cached(load_torch_llm(directory, device="cpu"), prompts, 20).tokens
    model = SessionSlots(get_backend("ort-cpu").load(graph.path, SessionOptions()), graph)
    for _ in range(2):  # slots still hold the first sequences the second time
        assert (generate_cached(model, prompts, 20).tokens == expected).all()
    assert model.memory_bytes() == {"state": 2 * 2 * (2 * 2 * 26 * 8) * 4}
    with pytest.raises(UsageProblem, match="has 26 slots; 27 tokens"):
        model.prefill(prompts, 27)
    model.close()


class DeviceSession:
    """A session that keeps the state itself, as TensorRT's does."""

    def __init__(self, session: Any, state: dict[str, str]) -> None:
        self._session, self._into = session, state
        self.inputs = tuple(spec for spec in session.inputs if spec.name not in state.values())
        self.outputs = tuple(spec for spec in session.outputs if spec.name not in state)
        self._held = {
            spec.name: np.zeros(spec.shape, spec.dtype) for spec in session.inputs if spec.name in state.values()
        }
        self.provenance: dict[str, Any] = {}

    def run(self, inputs: dict[str, Any]) -> dict[str, Any]:
        assert set(inputs) == {"input_ids", "start"}
        outputs = self._session.run({**inputs, **self._held})
        self._held = {old: outputs.pop(new) for new, old in self._into.items()}
        return outputs

    def memory_bytes(self) -> dict[str, int]:
        return {"device_state": 1}

    def close(self) -> None:
        self._session.close()


def test_state_that_stays_on_the_device(llm_folder: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of `trt`, from a double of its backend that runs the graph on ONNX Runtime."""
    from trt_workbench.pipeline.language import opening

    seen: dict[str, Any] = {}

    class Double:
        def load(self, path: Path, options: SessionOptions) -> DeviceSession:
            seen.update(options.extra)
            split_options(options)  # the backend itself knows every option and can read the profiles
            return DeviceSession(get_backend("ort-cpu").load(path, SessionOptions()), dict(options.extra["state"]))

    monkeypatch.setattr(opening, "require_backend", lambda _: Double())
    directory, prompts = examine_llm_directory(llm_folder("llama")), TOKENS[:12].reshape(2, 6)
    model = open_cached(BackendChoice("trt", "fp16"), source(llm_folder("llama")), 2, 6, 26)
    assert seen["profiles"] == ["input_ids:2x1", "input_ids:2x1/2x6/2x6"]
    assert seen["state"]["present.1.value"] == "past_key_values.1.value"
    assert len(seen["state"]) == 4
    expected = generate_cached(load_torch_llm(directory, device="cpu"), prompts, 20).tokens
    for _ in range(2):
        assert (generate_cached(model, prompts, 20).tokens == expected).all()
    assert model.memory_bytes() == {"device_state": 1}
    model.close()


class OnTheCpu:
    """A backend of a GPU, with its options and its session, whose nodes the CPU executes."""

    def __init__(self, backend: OrtCudaBackend | OrtTrtBackend) -> None:
        self._backend = backend

    def load(self, path: Path, options: SessionOptions) -> BoundSession:
        plan = self._backend.plan(path, options)
        return load_gpu_session(replace(plan, providers=((CPU_PROVIDER, {}),), accepted=(CPU_PROVIDER,)), options)


@pytest.mark.parametrize("backend", [OrtCudaBackend(), OrtTrtBackend()])
@pytest.mark.parametrize("family", ["gpt2", "llama", "opt"])
def test_onnx_runtime_keeps_state_on_a_gpu(
    llm_folder: Folders, monkeypatch: pytest.MonkeyPatch, backend: OrtCudaBackend | OrtTrtBackend, family: str
) -> None:
    from trt_workbench.pipeline.language import opening

    monkeypatch.setattr(opening, "require_backend", lambda _: OnTheCpu(backend))
    model = open_cached(BackendChoice(backend.name), source(llm_folder(family)), 2, 6, 26)
    assert isinstance(model, SessionSlots)
    assert {spec.name for spec in model.session.inputs} == {"input_ids", "start"}
    assert [spec.name for spec in model.session.outputs] == ["logits"]
    prompts = TOKENS[:12].reshape(2, 6)
    expected = generate_cached(load_torch_llm(examine_llm_directory(llm_folder(family)), device="cpu"), prompts, 20)
    for _ in range(2):  # slots still hold the first sequences the second time
        assert (generate_cached(model, prompts, 20).tokens == expected.tokens).all()
    heads = 2 if family == "llama" else 4
    # keys and values of two layers, twice: one set is read while the other is written
    assert model.memory_bytes() == {"device_state": 2 * 2 * 2 * (2 * heads * 26 * 8) * 4, "host_state": 0}
    model.close()


def test_records_and_summaries(llm_folder: Folders, tmp_path: Path) -> None:
    request = TimingRequest(TIMING_MODES, prompts=(8, 3), new_tokens=5, batch=2, warmup=1, repetitions=3)
    progress: list[tuple[int, int]] = []
    with RecordWriter(tmp_path / "records.jsonl") as records:
        summaries = time_models(
            request, BACKENDS, source(llm_folder("llama")), TOKENS, records, lambda *counts: progress.append(counts)
        )
    lines = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert progress[-1] == (36, 36)
    assert len(lines) == 36
    assert [(row["mode"], row["backend"], row["prompt_tokens"]) for row in summaries] == [
        (mode, choice.name, size) for mode in TIMING_MODES for choice in BACKENDS for size in (8, 3)
    ]
    for row in summaries:
        key = (row["mode"], row["backend"], row["prompt_tokens"])
        mine = [line for line in lines if (line["kind"], line["backend"], line["prompt_tokens"]) == key]
        assert [line["repetition"] for line in mine] == [0, 1, 2]
        assert row["same_tokens_as_torch"]
        assert row["tokens_per_s"]["count"] == 3
        for line in mine:
            tokens = 2 * (row["prompt_tokens"] if row["mode"] == "prefill" else 5)
            assert line["tokens_per_s"] == pytest.approx(tokens / line["total_ms"] * 1e3)
            assert 0 < line["time_to_first_token_ms"] <= line["total_ms"]
            assert line["memory_bytes"]["process_peak"] > 1e7
            assert line["first_difference"] is None
            if row["mode"] == "prefill":
                assert line["time_per_token_ms"] is None
            else:
                rest = line["total_ms"] - line["time_to_first_token_ms"]
                assert line["time_per_token_ms"] == pytest.approx(rest / 4)


def test_other_tokens_are_found() -> None:
    class Counter:
        """Picks 1, 2, 3, …"""

        def __init__(self) -> None:
            self.count = 0

        def last_logits(self, tokens: np.ndarray) -> np.ndarray:
            self.count += 1
            return np.eye(10, dtype=np.float32)[[self.count] * len(tokens)]

    run = generate_uncached(Counter(), np.zeros((2, 3), np.int64), 4)
    assert run.tokens.tolist() == [[1, 2, 3, 4]] * 2
    assert first_difference(run.tokens, np.array([[1, 2, 3, 4, 5], [1, 2, 9, 4, 5]])) == 2
    assert first_difference(run.tokens, np.array([[1, 2, 3, 4, 5], [1, 2, 3, 4, 0]])) is None


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (TimingRequest(("generate",), prompts=(7, 60), new_tokens=5), "64 positions; 65 tokens do not fit"),
        (TimingRequest(("prefill",), prompts=(65,)), "64 positions; 65 tokens do not fit"),
        (TimingRequest(("prefill",), prompts=(7, 60), batch=4), "too few for 4 prompts of 60"),
    ],
)
def test_what_does_not_fit(llm_folder: Folders, tmp_path: Path, request_: TimingRequest, message: str) -> None:
    with RecordWriter(tmp_path / "r.jsonl") as records, pytest.raises(UsageProblem, match=message):
        time_models(request_, BACKENDS, source(llm_folder("llama")), TOKENS, records)


def test_a_step_without_a_prompt(llm_folder: Folders) -> None:
    model = open_cached(BACKENDS[1], source(llm_folder("llama")), 1, 6, 26)
    assert isinstance(model, SessionCache)
    for broken in (model, load_torch_llm(examine_llm_directory(llm_folder("llama")), device="cpu")):
        with pytest.raises(UsageProblem, match="starts with prefill"):
            broken.step(np.array([1]))
        broken.close()


def test_a_closed_model_says_so(llm_folder: Folders) -> None:
    model = load_torch_llm(examine_llm_directory(llm_folder("gpt2")), device="cpu")
    model.close()
    with pytest.raises(UsageProblem, match="closed"):
        model.logits(np.zeros((1, 2), np.int64))
