"""Timing modes on PyTorch and ONNX Runtime: the same tokens everywhere, one record a repetition."""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.errors import DeviceFailure, UsageProblem
from trt_workbench.onnxtools.llm_directory import examine_llm_directory

pytest.importorskip("torch")
pytest.importorskip("transformers")

from trt_workbench.backends.ort_bound import BoundSession
from trt_workbench.backends.ort_common import CPU_PROVIDER
from trt_workbench.backends.ort_cuda import OrtCudaBackend
from trt_workbench.backends.ort_gpu import load_gpu_session
from trt_workbench.backends.ort_trt import OrtTrtBackend
from trt_workbench.backends.registry import get_backend
from trt_workbench.backends.state_session import StateSession
from trt_workbench.backends.torch_llm import load_torch_llm
from trt_workbench.backends.trt_options import split_options
from trt_workbench.evaluate.llm_files import RecordWriter
from trt_workbench.evaluate.llm_timing import (
    TIMING_MODES,
    Timing,
    TimingRequest,
    check_timing,
    time_models,
)
from trt_workbench.pipeline.llm.export import ExportSettings, exported_graph
from trt_workbench.pipeline.llm.generation import generate_cached, generate_uncached
from trt_workbench.pipeline.llm.models import SessionCache, SessionSlots
from trt_workbench.pipeline.llm.opening import BackendChoice, ModelSource, open_cached

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


class DeviceSession(StateSession):
    """Keeps state between calls, as a session on a device does, and takes what its profile allows."""

    def __init__(self, session: Session, options: SessionOptions) -> None:
        self._session, self._into = session, dict(options.extra["state"])
        self._longest = 6 if options.shapes else 1
        self.inputs = tuple(spec for spec in session.inputs if spec.name not in self._into.values())
        self.outputs = tuple(spec for spec in session.outputs if spec.name not in self._into)
        self.held: dict[str, Any] = {
            spec.name: np.zeros(spec.shape, spec.dtype) for spec in session.inputs if spec not in self.inputs
        }
        self.provenance = {"longest": self._longest}
        self.memory = {"device_state": self._longest, "pinned": 1}

    def memory_bytes(self) -> dict[str, int]:
        return self.memory

    def take_state(self, other: DeviceSession) -> None:
        self.held = other.held

    def _infer(self, inputs: dict[str, Any]) -> dict[str, Any]:
        assert inputs["input_ids"].shape[1] <= self._longest
        outputs = self._session.run({**inputs, **self.held})
        self.held = {old: outputs.pop(new) for new, old in self._into.items()}
        return outputs

    def _close(self) -> None:
        self._session.close()


def test_state_that_stays_on_the_device(llm_folder: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of `trt`, from a double of its backend that runs the graph on ONNX Runtime."""
    from trt_workbench.pipeline.llm import opening

    seen: list[SessionOptions] = []
    loaded: list[DeviceSession] = []

    class Double:
        def load(self, path: Path, options: SessionOptions) -> DeviceSession:
            seen.append(options)
            split_options(options)  # the backend itself knows every option
            loaded.append(DeviceSession(get_backend("ort-cpu").load(path, SessionOptions()), options))
            return loaded[-1]

    monkeypatch.setattr(opening, "require_backend", lambda _: Double())
    directory, prompts = examine_llm_directory(llm_folder("llama")), TOKENS[:12].reshape(2, 6)
    model = open_cached(BackendChoice("trt", "fp16"), source(llm_folder("llama")), 2, 6, 26)
    # one for prompts, and one whose every shape is fixed
    assert [str(options.shapes) for options in seen] == ["input_ids:2x1/2x6/2x6", "None"]
    assert [[spec.shape for spec in session.inputs] for session in loaded] == [[(2, None), (1,)], [(2, 1), (1,)]]
    for options in seen:
        assert options.extra["state"]["present.1.value"] == "past_key_values.1.value"
        assert len(options.extra["state"]) == 4
    expected = generate_cached(load_torch_llm(directory, device="cpu"), prompts, 20).tokens
    for _ in range(2):
        assert (generate_cached(model, prompts, 20).tokens == expected).all()
    assert model.provenance["longest"] == 1
    assert model.provenance["prompts"]["longest"] == 6
    assert model.memory_bytes() == {"device_state": 7, "pinned": 2}
    assert loaded[1].memory == {"device_state": 1, "pinned": 1}
    model.close()
    for session in loaded:
        with pytest.raises(UsageProblem, match="closed"):
            session.run({})


@pytest.mark.parametrize(("prompt", "slots"), [(1, 12), (3, 12), (6, 7)])
def test_a_step_beyond_the_last_slot(
    llm_folder: Folders, monkeypatch: pytest.MonkeyPatch, prompt: int, slots: int
) -> None:
    """The graph itself would write no slot and give logits of something else."""
    from trt_workbench.pipeline.llm import opening

    class Double:
        def load(self, path: Path, options: SessionOptions) -> DeviceSession:
            return DeviceSession(get_backend("ort-cpu").load(path, SessionOptions()), options)

    monkeypatch.setattr(opening, "require_backend", lambda _: Double())
    folder, tokens = llm_folder("mistral"), TOKENS[: 2 * slots].reshape(2, slots)  # its window is of 8 tokens
    expected = load_torch_llm(examine_llm_directory(folder), device="cpu").logits(tokens)[:, prompt - 1 :]
    model = open_cached(BackendChoice("trt"), source(folder), 2, 6, slots)
    found = [model.prefill(tokens[:, :prompt], slots), *(model.step(token) for token in tokens.T[prompt:])]
    np.testing.assert_allclose(np.stack(found, axis=1), expected, atol=1e-4)
    with pytest.raises(UsageProblem, match=f"has {slots} slots; {slots + 1} tokens need one exported with a longer"):
        model.step(tokens[:, 0])
    # a prompt that is refused leaves nothing to append to
    with pytest.raises(UsageProblem, match=f"has {slots} slots; {slots + 1} tokens"):
        model.prefill(np.zeros((2, slots + 1), np.int64), slots)
    with pytest.raises(UsageProblem, match="starts with prefill"):
        model.step(tokens[:, 0])
    model.close()


def test_profiles_that_are_asked_for_are_those_of_prompts(
    llm_folder: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trt_workbench.pipeline.llm import opening

    config, asked = tmp_path / "build.yaml", ["input_ids:2x1/2x4/2x6"]
    config.write_text(json.dumps({"profiles": asked}))
    profiles: list[list[str]] = []

    class Double:
        def load(self, path: Path, options: SessionOptions) -> DeviceSession:
            profiles.append([str(profile) for profile in split_options(options)[1].profiles])
            return DeviceSession(get_backend("ort-cpu").load(path, SessionOptions()), options)

    monkeypatch.setattr(opening, "require_backend", lambda _: Double())
    wanted = replace(source(llm_folder("llama")), options={"profiles": asked, "config": config})
    open_cached(BackendChoice("trt"), wanted, 2, 6, 26).close()
    assert profiles == [asked, []]


def test_a_second_engine_that_cannot_be_loaded_closes_the_first(
    llm_folder: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trt_workbench.pipeline.llm import opening

    loaded: list[DeviceSession] = []

    class Double:
        def load(self, path: Path, options: SessionOptions) -> DeviceSession:
            if loaded:
                raise DeviceFailure("Out of memory.")
            loaded.append(DeviceSession(get_backend("ort-cpu").load(path, SessionOptions()), options))
            return loaded[-1]

    monkeypatch.setattr(opening, "require_backend", lambda _: Double())
    with pytest.raises(DeviceFailure):
        open_cached(BackendChoice("trt"), source(llm_folder("llama")), 2, 6, 26)
    with pytest.raises(UsageProblem, match="closed"):
        loaded[0].run({})


class OnTheCpu:
    """A backend of a GPU, with its options and its session, whose nodes the CPU executes."""

    def __init__(self, backend: OrtCudaBackend | OrtTrtBackend) -> None:
        self._backend = backend

    def load(self, path: Path, options: SessionOptions) -> BoundSession:
        plan = self._backend.request(path, options)
        return load_gpu_session(replace(plan, providers=((CPU_PROVIDER, {}),), accepted=(CPU_PROVIDER,)), options)


@pytest.mark.parametrize("backend", [OrtCudaBackend(), OrtTrtBackend()])
@pytest.mark.parametrize(("family", "batch"), [("gpt2", 1), ("gpt2", 2), ("llama", 2), ("opt", 1)])
def test_onnx_runtime_keeps_state_on_a_gpu(
    llm_folder: Folders,
    monkeypatch: pytest.MonkeyPatch,
    backend: OrtCudaBackend | OrtTrtBackend,
    family: str,
    batch: int,
) -> None:
    from trt_workbench.pipeline.llm import opening

    monkeypatch.setattr(opening, "require_backend", lambda _: OnTheCpu(backend))
    model = open_cached(BackendChoice(backend.name), source(llm_folder(family)), batch, 6, 26)
    assert isinstance(model, SessionSlots)
    assert {spec.name for spec in model.session.inputs} == {"input_ids", "start"}
    assert [spec.name for spec in model.session.outputs] == ["logits"]
    prompts = TOKENS[: 6 * batch].reshape(batch, 6)
    expected = generate_cached(load_torch_llm(examine_llm_directory(llm_folder(family)), device="cpu"), prompts, 20)
    for _ in range(2):  # slots still hold the first sequences the second time
        assert (generate_cached(model, prompts, 20).tokens == expected.tokens).all()
    heads = 2 if family == "llama" else 4
    # keys and values of two layers, twice: one set is read while the other is written
    assert model.memory_bytes() == {"device_state": 2 * 2 * 2 * (batch * heads * 26 * 8) * 4, "host_state": 0}
    model.close()


def timed(
    request: TimingRequest, choices: Any, folder: Path, out: Path, timing: Timing, on_progress: Any = None
) -> list[dict[str, Any]]:
    """Fill `timing`; return the records."""
    records = RecordWriter(out / "records.jsonl")
    time_models(request, choices, source(folder), TOKENS, records, timing, on_progress)
    return [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]


def test_records_and_summaries(llm_folder: Folders, tmp_path: Path) -> None:
    request = TimingRequest(TIMING_MODES, prompts=(8, 3), new_tokens=5, batch=2, warmup=1, repetitions=3)
    progress: list[tuple[int, int]] = []
    timing = Timing()
    lines = timed(request, BACKENDS, llm_folder("llama"), tmp_path, timing, lambda *counts: progress.append(counts))
    assert progress == [(done, 36) for done in range(1, 37)]
    assert len(lines) == 36
    assert (timing.failures, timing.error) == ([], None)
    assert [(row["mode"], row["backend"], row["prompt_tokens"]) for row in timing.rows] == [
        (mode, choice.name, size) for mode in TIMING_MODES for choice in BACKENDS for size in (8, 3)
    ]
    for row in timing.rows:
        key = (row["mode"], row["backend"], row["prompt_tokens"])
        mine = [line for line in lines if (line["kind"], line["backend"], line["prompt_tokens"]) == key]
        assert [line["repetition"] for line in mine] == [0, 1, 2]
        assert row["agreement"]["failure"] is row["agreement"]["first_difference"] is None
        assert row["agreement"]["tokens"] == row["new_tokens"]
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


def test_a_backend_that_fails_does_not_keep_the_others_from_being_timed(llm_folder: Folders, tmp_path: Path) -> None:
    request = TimingRequest(("prefill", "generate-cached"), prompts=(8, 3), new_tokens=5, warmup=0, repetitions=2)
    choices = (BackendChoice("torch", "int8"), *BACKENDS, BackendChoice("ort-cpu", "int3"))
    timing, progress = Timing(), []
    lines = timed(request, choices, llm_folder("llama"), tmp_path, timing, lambda *counts: progress.append(counts))
    assert len(lines) == 16
    # the share of the one that failed counts as done
    assert progress == [(done, 32) for done in range(9, 25)]
    assert [(row["mode"], row["backend"], row["prompt_tokens"]) for row in timing.rows] == [
        (mode, choice.name, size) for mode in request.modes for choice in BACKENDS for size in (8, 3)
    ]
    assert isinstance(timing.error, UsageProblem)
    assert timing.failures[0] == {
        "mode": "prefill",
        "backend": "torch",
        "precision": "int8",
        "batch": 1,
        "missing_prompts": [8, 3],
        "error": str(timing.error),
        "error_kind": "UsageProblem",
    }
    assert [(row["backend"], row["mode"]) for row in timing.failures] == [
        (name, mode) for name in ("torch", "ort-cpu") for mode in request.modes
    ]
    assert "int3" in timing.failures[-1]["error"]


def test_a_full_disk_is_no_failure_of_a_backend(llm_folder: Folders, tmp_path: Path) -> None:
    request, timing = TimingRequest(("prefill",), prompts=(8,), new_tokens=5, warmup=0, repetitions=2), Timing()
    (tmp_path / "records.jsonl").symlink_to("/dev/full")
    with pytest.raises(UsageProblem, match=r"cannot be written \(No space left on device\)"):
        timed(request, BACKENDS, llm_folder("llama"), tmp_path, timing)
    assert timing == Timing()


def test_a_prompt_that_is_too_long_for_a_backend(
    llm_folder: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was done before stays; what the failure held is released, and the next mode has room again."""
    from trt_workbench.evaluate import llm_timing

    real, calls, held = llm_timing.generate_cached, [], []

    def limited(model: Any, prompt: np.ndarray, *sizes: int) -> Any:
        if isinstance(model, SessionCache) and prompt.shape[1] == 8:
            calls.append(prompt)
            if len(calls) == 2:
                activations = np.zeros(1)
                held.append(weakref.ref(activations))
                raise DeviceFailure("Out of memory.") from MemoryError()
        return real(model, prompt, *sizes)

    monkeypatch.setattr(llm_timing, "generate_cached", limited)
    request = TimingRequest(("generate", "generate-cached"), prompts=(3, 8, 5), new_tokens=5, warmup=0, repetitions=2)
    timing = Timing()
    lines = timed(request, BACKENDS[1:], llm_folder("llama"), tmp_path, timing)
    assert isinstance(timing.error, DeviceFailure)
    assert held[0]() is None
    (failure,) = timing.failures
    assert (failure["mode"], failure["missing_prompts"]) == ("generate-cached", [8, 5])
    assert failure["error_kind"] == "DeviceFailure"
    done = [(row["mode"], row["prompt_tokens"]) for row in timing.rows]
    assert done == [("generate", 3), ("generate", 8), ("generate", 5), ("generate-cached", 3)]
    # the repetition before the failure has its record, though no summary
    cached = [(line["prompt_tokens"], line["repetition"]) for line in lines if line["kind"] == "generate-cached"]
    assert cached == [(3, 0), (3, 1), (8, 0)]


def test_without_tokens_to_compare_with_nothing_is_timed(llm_folder: Folders, tmp_path: Path) -> None:
    request, timing = TimingRequest(("prefill", "generate-cached"), prompts=(8,), new_tokens=5), Timing()
    with pytest.raises(UsageProblem, match="cache"):
        timed(request, BACKENDS, llm_folder("mamba"), tmp_path, timing)
    assert timing == Timing()


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (TimingRequest(("generate",), prompts=(7, 60), new_tokens=5), "64 positions; 65 tokens do not fit"),
        (TimingRequest(("prefill",), prompts=(65,)), "64 positions; 65 tokens do not fit"),
        (TimingRequest(("prefill",), prompts=(7, 60), batch=4), "too few for 4 prompts of 60"),
    ],
)
def test_what_does_not_fit(llm_folder: Folders, request_: TimingRequest, message: str) -> None:
    positions = examine_llm_directory(llm_folder("llama")).positions
    with pytest.raises(UsageProblem, match=message):
        check_timing(request_, positions, len(TOKENS))


def test_a_step_without_a_prompt(llm_folder: Folders) -> None:
    model = open_cached(BACKENDS[1], source(llm_folder("llama")), 1, 6, 26)
    assert isinstance(model, SessionCache)
    for broken in (model, load_torch_llm(examine_llm_directory(llm_folder("llama")), device="cpu")):
        with pytest.raises(UsageProblem, match="starts with prefill"):
            broken.step(np.array([1]))
        broken.close()


def test_a_failed_call_leaves_a_growing_cache_as_it_was(llm_folder: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    model = open_cached(BACKENDS[1], source(llm_folder("llama")), 1, 6, 26)
    assert isinstance(model, SessionCache)
    prompt, further = TOKENS[None, :6], TOKENS[6:7]
    model.prefill(prompt, 26)
    expected = model.step(further)

    def fail(_: object) -> None:
        raise DeviceFailure("The device failed.")

    def refuse(call: Callable[[], object]) -> None:
        with monkeypatch.context() as broken:
            broken.setattr(model.session, "run", fail)
            with pytest.raises(DeviceFailure):
                call()

    model.prefill(prompt, 26)
    refuse(lambda: model.step(further))
    np.testing.assert_array_equal(model.step(further), expected)
    refuse(lambda: model.prefill(prompt, 26))
    with pytest.raises(UsageProblem, match="starts with prefill"):
        model.step(further)
    model.close()


def test_a_closed_model_says_so(llm_folder: Folders) -> None:
    model = load_torch_llm(examine_llm_directory(llm_folder("gpt2")), device="cpu")
    model.close()
    with pytest.raises(UsageProblem, match="closed"):
        model.logits(np.zeros((1, 2), np.int64))
