"""Language models on a GPU: perplexity and generation of TensorRT, ONNX Runtime and PyTorch against PyTorch in fp32."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trt_workbench.backends.registry import availability
from trt_workbench.model.llm_directory import examine_llm_directory

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from trt_workbench.backends.torch.llm import load_torch_llm  # noqa: E402
from trt_workbench.llm.agreement import AgreementCheck, trace  # noqa: E402
from trt_workbench.llm.generation import generate_cached, generate_uncached  # noqa: E402
from trt_workbench.llm.opening import ModelSource, open_cached, parse_backends  # noqa: E402
from trt_workbench.llm.run import LlmEvaluation, LlmRequest  # noqa: E402
from trt_workbench.llm.settings import BackendChoice  # noqa: E402

pytestmark = pytest.mark.gpu

Folders = Callable[[str], Path]
TOKENS = np.random.default_rng(0).integers(0, 300, 200)


@pytest.fixture(autouse=True)
def _output(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path_factory.getbasetemp() / "llm"))
    if not torch.cuda.is_available():
        pytest.skip("PyTorch has no GPU here")


def needs(backend: str) -> None:
    found = availability(backend)
    if not found.ok:
        pytest.skip(f"{backend}: {found.reason}")


def evaluate(folder: Path, out: Path, backends: str, **more: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {"backends": parse_backends(backends), "batch": 2, "limit": 700, **more}
    with LlmEvaluation(LlmRequest(model=folder, text=Path(__file__), **settings)) as run:
        metrics: dict[str, Any] = run.run(out).metrics
    return metrics


@pytest.mark.filterwarnings("ignore")  # of PyTorch's compiler
@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen2", "opt"])
@pytest.mark.parametrize("backend", ["trt", "ort-cuda", "torch-compile"])
def test_perplexity_in_fp32(llm_folder: Folders, tmp_path: Path, backend: str, family: str) -> None:
    needs(backend)
    row = evaluate(llm_folder(family), tmp_path, backend)["backends"][1]
    assert abs(row["relative_difference"]) < 1e-4
    assert row["top1_agreement"] > 0.999
    assert row["max_logit_difference"] < 1e-3


@pytest.mark.parametrize("backend", ["trt:fp16", "ort-cuda:fp16", "torch:fp16", "torch:bf16"])
def test_half_precision_is_near(llm_folder: Folders, tmp_path: Path, backend: str) -> None:
    needs(backend.partition(":")[0])
    row = evaluate(llm_folder("llama"), tmp_path, backend)["backends"][1]
    assert 0 < row["max_logit_difference"] < 0.3
    assert abs(row["relative_difference"]) < 0.01
    assert row["top1_agreement"] > 0.9


@pytest.mark.parametrize("backend", ["trt", "trt:fp16", "ort-cuda"])
def test_what_is_generated_is_compared(llm_folder: Folders, tmp_path: Path, backend: str) -> None:
    needs(backend.partition(":")[0])
    asked = {"modes": ("generate", "generate-cached"), "prompts": (6, 3), "new_tokens": 12}
    metrics = evaluate(llm_folder("llama"), tmp_path, backend, **asked)
    rows = metrics["generation"]
    assert [(row["mode"], row["prompt_tokens"]) for row in rows] == [
        (mode, size) for mode in ("generate", "generate-cached") for size in (6, 3)
    ]
    assert [row["failure"] for row in rows] == [None] * 4
    assert metrics["passed"]
    assert (metrics["backends"], metrics["perplexity"]) == ([], None)
    # two engines generate with a cache: one for prompts, one for single tokens
    marks = [len(row["verification"]) for row in rows]
    assert marks == ([1, 1, 2, 2] if backend.startswith("trt") else [0] * 4)


@pytest.mark.filterwarnings("ignore")  # of PyTorch's compiler
@pytest.mark.parametrize("family", ["gpt2", "llama", "opt"])
@pytest.mark.parametrize("backend", ["trt", "ort-cuda", "torch-compile"])
@pytest.mark.parametrize("batch", [1, 2])
def test_cached_generation(llm_folder: Folders, backend: str, family: str, batch: int) -> None:
    needs(backend)
    directory = examine_llm_directory(llm_folder(family))
    prompts = TOKENS[: 6 * batch].reshape(batch, 6)
    expected = generate_uncached(load_torch_llm(directory), prompts, 24).tokens
    source = ModelSource(directory, "cuda", 17, None, lambda _: None)
    model: Any = open_cached(BackendChoice(backend), source, batch, 6, 30)
    for _ in range(3):
        assert generate_cached(model, prompts, 24).tokens.tolist() == expected.tolist()
    if backend == "trt":
        assert model.session.graph_status().startswith("on")
    if backend != "torch-compile":
        memory = model.memory_bytes()
        assert memory["device_state"] > 0
        assert not memory.get("host_state")
        # nothing but tokens and positions goes in, nothing but logits comes out
        assert {spec.name for spec in model.session.inputs} == {"input_ids", "start"}
        assert [spec.name for spec in model.session.outputs] == ["logits"]
    model.close()


@pytest.mark.filterwarnings("ignore")  # of PyTorch's compiler
@pytest.mark.parametrize(("family", "batch"), [("gpt2", 1), ("llama", 2), ("mistral", 1)])
def test_steps_are_compiled_once_and_replay_cuda_graphs(llm_folder: Folders, family: str, batch: int) -> None:
    from torch._dynamo.utils import counters

    needs("torch-compile")
    directory = examine_llm_directory(llm_folder(family))
    prompts = TOKENS[: 6 * batch].reshape(batch, 6)
    expected = generate_uncached(load_torch_llm(directory), prompts, 50).tokens
    torch.compiler.reset()
    counters.clear()
    model = load_torch_llm(directory, compiled=True)
    assert trace(model, prompts, 50, cached=True, capacity=56).tokens.tolist() == expected.tolist()
    assert generate_cached(model, prompts, 50, 56).tokens.tolist() == expected.tolist()
    model.close()
    assert counters["stats"]["unique_graphs"] == 1
    assert counters["inductor"]["cudagraph_skips"] == 0


@pytest.mark.parametrize(
    ("family", "backend", "batch", "prompt"),
    [
        ("llama", "trt", 2, 1),  # an engine for prompts of one token knows that there is one query
        ("opt", "trt", 3, 6),
        ("gpt2", "trt", 3, 6),
        ("mistral", "trt", 2, 6),
        ("llama", "trt:fp16", 2, 6),
        ("llama", "ort-cuda:fp16", 2, 6),
    ],
)
def test_every_sequence_has_the_logits_of_pytorch(
    llm_folder: Folders, family: str, backend: str, batch: int, prompt: int
) -> None:
    needs(backend.partition(":")[0])
    directory = examine_llm_directory(llm_folder(family))
    prompts = TOKENS[: prompt * batch].reshape(batch, prompt)
    reference = load_torch_llm(directory)
    expected = trace(reference, prompts, 24, cached=False)
    reference.close()
    (choice,) = parse_backends(backend)
    source = ModelSource(directory, "cuda", 17, None, lambda _: None)
    capacity = prompt + 24
    model: Any = open_cached(choice, source, batch, prompt, capacity)
    comparison = AgreementCheck(expected, "torch:fp32", choice.precision)
    agreement = comparison.logits(model, prompts, cached=True, capacity=capacity)
    comparison.tokens(agreement, generate_cached(model, prompts, 24, capacity).tokens).or_raise()
    model.close()
