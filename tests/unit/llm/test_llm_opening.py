"""Opened language models on PyTorch and ONNX Runtime generate the same tokens."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.core.errors import ComponentMissing, DeviceFailure, UsageProblem
from trt_workbench.model.llm_directory import examine_llm_directory

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.texts import refused

from trt_workbench.backends.ort.bound import BoundSession
from trt_workbench.backends.ort.common import CPU_PROVIDER
from trt_workbench.backends.ort.cuda import OrtCudaBackend
from trt_workbench.backends.ort.gpu import load_gpu_session
from trt_workbench.backends.ort.trt import OrtTrtBackend
from trt_workbench.backends.registry import get_backend
from trt_workbench.backends.state_session import StateSession
from trt_workbench.backends.torch.llm import load_torch_llm
from trt_workbench.backends.trt.backend import split_options
from trt_workbench.llm.export import ExportSettings, exported_graph
from trt_workbench.llm.generation import generate_cached, generate_uncached
from trt_workbench.llm.models import SessionCache, SessionSlots
from trt_workbench.llm.opening import ModelSource, open_cached, open_logits
from trt_workbench.llm.settings import BackendChoice

pytestmark = pytest.mark.usefixtures("llm_output")

Folders = Callable[[str], Path]
TOKENS = np.random.default_rng(0).integers(0, 300, 200)
BACKENDS = (BackendChoice("torch"), BackendChoice("ort-cpu"))


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
    with refused(UsageProblem):
        model.prefill(prompts, 27)
    model.close()


def test_compiled_code_is_not_to_be_had_where_compiling_is_switched_off(
    llm_folder: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model would run uncompiled, and say nothing."""
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    compiled = BackendChoice("torch-compile")
    with refused(ComponentMissing):
        open_cached(compiled, source(llm_folder("llama")), 2, 6, 26)
    with refused(ComponentMissing):
        open_logits(compiled, source(llm_folder("llama")), 2, 6)


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
    from trt_workbench.llm import opening

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
        with refused(UsageProblem):
            session.run({})


@pytest.mark.parametrize(("prompt", "slots"), [(1, 12), (3, 12), (6, 7)])
def test_a_step_beyond_the_last_slot(
    llm_folder: Folders, monkeypatch: pytest.MonkeyPatch, prompt: int, slots: int
) -> None:
    """The graph itself would write no slot and give logits of something else."""
    from trt_workbench.llm import opening

    class Double:
        def load(self, path: Path, options: SessionOptions) -> DeviceSession:
            return DeviceSession(get_backend("ort-cpu").load(path, SessionOptions()), options)

    monkeypatch.setattr(opening, "require_backend", lambda _: Double())
    folder, tokens = llm_folder("mistral"), TOKENS[: 2 * slots].reshape(2, slots)  # its window is of 8 tokens
    expected = load_torch_llm(examine_llm_directory(folder), device="cpu").logits(tokens)[:, prompt - 1 :]
    model = open_cached(BackendChoice("trt"), source(folder), 2, 6, slots)
    found = [model.prefill(tokens[:, :prompt], slots), *(model.step(token) for token in tokens.T[prompt:])]
    np.testing.assert_allclose(np.stack(found, axis=1), expected, atol=1e-4)
    with refused(UsageProblem):
        model.step(tokens[:, 0])
    # a prompt that is refused leaves nothing to append to
    with refused(UsageProblem):
        model.prefill(np.zeros((2, slots + 1), np.int64), slots)
    with refused(UsageProblem):
        model.step(tokens[:, 0])
    model.close()


def test_profiles_that_are_asked_for_are_those_of_prompts(
    llm_folder: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trt_workbench.llm import opening

    config, asked = tmp_path / "build.yaml", ["input_ids:2x1/2x4/2x6"]
    config.write_text(json.dumps({"profiles": asked}))
    profiles: list[list[str]] = []

    class Double:
        def load(self, path: Path, options: SessionOptions) -> DeviceSession:
            profiles.append([str(profile) for profile in split_options(options)[1].profiles])
            return DeviceSession(get_backend("ort-cpu").load(path, SessionOptions()), options)

    monkeypatch.setattr(opening, "require_backend", lambda _: Double())
    wanted = replace(source(llm_folder("llama")), options={"trt": {"profiles": asked, "config": config}})
    open_cached(BackendChoice("trt"), wanted, 2, 6, 26).close()
    assert profiles == [asked, []]


def test_a_second_engine_that_cannot_be_loaded_closes_the_first(
    llm_folder: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trt_workbench.llm import opening

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
    with refused(UsageProblem):
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
    from trt_workbench.llm import opening

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


def test_a_step_without_a_prompt(llm_folder: Folders) -> None:
    model = open_cached(BACKENDS[1], source(llm_folder("llama")), 1, 6, 26)
    assert isinstance(model, SessionCache)
    for broken in (model, load_torch_llm(examine_llm_directory(llm_folder("llama")), device="cpu")):
        with refused(UsageProblem):
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
    with refused(UsageProblem):
        model.step(further)
    model.close()


def test_a_closed_model_says_so(llm_folder: Folders) -> None:
    model = load_torch_llm(examine_llm_directory(llm_folder("gpt2")), device="cpu")
    model.close()
    with refused(UsageProblem):
        model.logits(np.zeros((1, 2), np.int64))
