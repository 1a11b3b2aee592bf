"""Language models on PyTorch: what an architecture cannot do is said, not computed wrongly."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trt_workbench.backends.torch.backend import compiler
from trt_workbench.core.errors import DeviceFailure, UsageProblem
from trt_workbench.model.llm_directory import examine_llm_directory

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.texts import refused

from trt_workbench.backends.torch.llm import TorchLlm, load_torch_llm
from trt_workbench.backends.torch.llm_model import quiet_transformers
from trt_workbench.llm.agreement import trace
from trt_workbench.llm.generation import generate_cached, generate_uncached

Folders = Callable[[str], Path]
TOKENS = np.arange(24)


def load(folder: Path, **more: Any) -> TorchLlm:
    return load_torch_llm(examine_llm_directory(folder), device="cpu", **more)


def test_attention_is_the_fused_one_where_the_architecture_has_it(llm_folder: Folders) -> None:
    assert load(llm_folder("llama")).provenance["attention"] == "sdpa"
    assert load(llm_folder("gemma2")).provenance["attention"] == "eager"


def test_a_model_that_ignores_the_cache_is_refused(llm_folder: Folders) -> None:
    """It would generate from each token alone."""
    with refused(UsageProblem):
        load(llm_folder("mamba")).prefill(TOKENS[None], 30)


def test_what_the_architecture_refuses_is_an_error_of_the_user(
    llm_folder: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(llm_folder("llama"))

    def refuse(**_: object) -> None:
        raise ValueError("it uses a cache of its own")

    monkeypatch.setattr(model._model, "forward", refuse)
    with refused(UsageProblem):
        model.prefill(TOKENS[None], 30)


@pytest.mark.parametrize("device", ["mps", "gpu", "cuda:", "cuda:x"])
def test_devices_that_do_not_exist(device: str, llm_folder: Folders) -> None:
    with refused(UsageProblem):
        load_torch_llm(examine_llm_directory(llm_folder("llama")), device=device)


@pytest.mark.parametrize(("precision", "dtype"), [("fp16", "float16"), ("bf16", "bfloat16")])
def test_what_transformers_keeps_in_fp32_stays_so(llm_folder: Folders, precision: str, dtype: str) -> None:
    """A cast of the loaded model would round the frequencies of rotary positions, too: the later, the more wrong."""
    import torch
    from transformers import AutoModelForCausalLM

    folder = llm_folder("llama")
    with torch.no_grad(), quiet_transformers():
        loaded = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()
        expected = loaded(input_ids=torch.from_numpy(TOKENS[None])).logits.float().numpy()
    model = load_torch_llm(examine_llm_directory(folder), device="cpu", precision=precision)
    assert model._model.model.rotary_emb.inv_freq.dtype == torch.float32
    np.testing.assert_array_equal(model.logits(TOKENS[None]), expected)


@pytest.mark.parametrize("error", [IndexError, RuntimeError])
def test_what_fails_within_the_architecture_is_said(
    llm_folder: Folders, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    model = load(llm_folder("llama"))

    def fail(**_: object) -> None:
        raise error("index 64 is out of bounds")

    monkeypatch.setattr(model._model, "forward", fail)
    with refused(UsageProblem):
        model.logits(TOKENS[None])


def test_memory_that_runs_out_within_the_architecture(llm_folder: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(llm_folder("llama"))

    def fail(**_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(model._model, "forward", fail)
    with refused(DeviceFailure):
        model.logits(TOKENS[None])


@pytest.mark.parametrize(
    ("family", "batch"),
    [("llama", 1), ("llama", 2), ("opt", 1), ("mistral", 1), ("gemma2", 2), ("gpt_oss", 2), ("mixtral", 1)],
)
def test_a_step_is_compiled_once(
    llm_folder: Folders, compiled_graphs: Callable[[], int], family: str, batch: int
) -> None:
    """However the tokens lie in memory: PyTorch compiles anew for other strides, and after eight times no more.

    Three of the families have a sliding window.
    """
    model, plain = load(llm_folder(family), compiled=True), load(llm_folder(family))
    prompts = np.random.default_rng(0).integers(0, 300, (batch, 4))
    expected = generate_uncached(plain, prompts, 24).tokens
    for _ in range(2):
        assert trace(model, prompts, 24, cached=True, capacity=64).tokens.tolist() == expected.tolist()
        assert generate_cached(model, prompts, 24, 64).tokens.tolist() == expected.tolist()
    model.prefill(prompts, 64)
    for position in range(20):
        model.step(expected[:, position])  # a column, whose strides no other column of this length has
        wider = np.zeros((batch, 70 + position), np.int64)
        model.step(wider[:, -1])
    assert compiled_graphs() == 1


@pytest.mark.usefixtures("compiled_graphs")
@pytest.mark.parametrize("suppress", [False, True])
def test_where_pytorch_gives_up_on_compiling_the_model_does_not_run_uncompiled(
    llm_folder: Folders, suppress: bool
) -> None:
    from torch._dynamo import config

    model = load(llm_folder("llama"), compiled=True)
    with config.patch(recompile_limit=2, suppress_errors=suppress):
        for batch in (1, 2):
            model.prefill(TOKENS.reshape(batch, -1), 30)
            model.step(TOKENS[:batch])
        model.prefill(TOKENS.reshape(3, -1), 30)
        for _ in range(2):  # nor at the next call
            with refused(UsageProblem):
                model.step(TOKENS[:3])
        with refused(UsageProblem):
            model.last_logits(TOKENS[None])


@pytest.mark.usefixtures("compiled_graphs")
def test_what_closed_models_compiled_does_not_count(llm_folder: Folders) -> None:
    from torch._dynamo import config

    with config.patch(recompile_limit=1):
        for precision in ("fp32", "bf16"):
            model = load(llm_folder("llama"), compiled=True, precision=precision)
            model.prefill(TOKENS[None], 30)
            model.step(TOKENS[:1])
            model.close()


@pytest.mark.usefixtures("compiled_graphs")
def test_a_model_that_is_not_compiled_as_a_whole_is_refused(
    llm_folder: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    model = load(llm_folder("llama"), compiled=True)
    real = model._model.forward

    def in_two_parts(**inputs: Any) -> Any:
        torch._dynamo.graph_break()
        return real(**inputs)

    monkeypatch.setattr(model._model, "forward", in_two_parts)
    with refused(UsageProblem):
        model.last_logits(TOKENS[None])


@pytest.mark.long
@pytest.mark.skipif(compiler() is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.filterwarnings("ignore")  # of the compiler's own parts
def test_sixty_tokens_by_compiled_code(llm_folder: Folders) -> None:
    import torch
    from torch._dynamo.utils import counters

    torch.compiler.reset()
    counters.clear()
    model, prompts = load(llm_folder("llama"), compiled=True), TOKENS[None, :4]
    assert {name: bool(asked) for name, asked in model.provenance["compile"].items()} == {
        "sequences": True,
        "steps": True,
        "prompts": False,
    }
    expected = generate_uncached(load(llm_folder("llama")), prompts, 60).tokens
    assert trace(model, prompts, 60, cached=True, capacity=64).tokens.tolist() == expected.tolist()
    assert generate_cached(model, prompts, 60, 64).tokens.tolist() == expected.tolist()
    assert counters["stats"]["unique_graphs"] == 1
