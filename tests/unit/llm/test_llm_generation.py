"""What backends generate, with a cache and without, compared with PyTorch in fp32."""

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.faulty_llm import Faulty, rows_after_the_first

from trt_workbench.core.errors import CheckFailed, DeviceFailure, UsageProblem
from trt_workbench.llm.settings import LlmSettings
from trt_workbench.model.llm_directory import examine_llm_directory

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.texts import refused

from trt_workbench.llm import generation_check as llm_generation
from trt_workbench.llm.generation_check import Generation, check_generation, compare_generation
from trt_workbench.llm.opening import ModelSource
from trt_workbench.llm.settings import BackendChoice

pytestmark = pytest.mark.usefixtures("llm_output")

Folders = Callable[[str], Path]
TOKENS = np.random.default_rng(0).integers(0, 300, 200)
TORCH, ORT = BackendChoice("torch"), BackendChoice("ort-cpu")


def compared(folder: Path, settings: LlmSettings, on_progress: Any = None) -> Generation:
    source, found = ModelSource(examine_llm_directory(folder), "cpu", 17, None, lambda _: None), Generation()
    compare_generation(settings, source, TOKENS, found, on_progress)
    return found


def works(found: Generation) -> list[tuple[str, str, int]]:
    return [(row["mode"], row["backend"], row["prompt_tokens"]) for row in found.rows]


def test_every_mode_backend_and_prompt_has_a_row(llm_folder: Folders) -> None:
    modes = ("generate", "generate-cached")
    settings = LlmSettings(modes=modes, prompts=(8, 3), new_tokens=5, batch=2)
    progress: list[tuple[int, int]] = []
    found = compared(llm_folder("llama"), settings, lambda *counts: progress.append(counts))
    assert progress == [(done, 4) for done in range(1, 5)]
    assert found.error is None
    assert works(found) == [(mode, name, size) for mode in modes for name in ("torch", "ort-cpu") for size in (8, 3)]
    for row in found.rows:
        agreement = row["agreement"]
        assert (agreement["sequences"], agreement["tokens"], row["new_tokens"]) == (2, 5, 5)
        assert row["failure"] is row["error_kind"] is agreement["first_difference"] is None
        assert agreement["max_logit_difference"] < 1e-4 < agreement["logit_difference_limit"]


def test_a_backend_that_fails_does_not_keep_the_others_from_being_compared(llm_folder: Folders) -> None:
    choices = (BackendChoice("torch", "int8"), TORCH, BackendChoice("ort-cpu", "int3"))
    settings = LlmSettings(backends=choices, modes=("generate-cached",), prompts=(8, 3), new_tokens=5)
    found = compared(llm_folder("llama"), settings)
    assert [(row["precision"], row["prompt_tokens"], row["error_kind"]) for row in found.rows] == [
        ("int8", 8, "UsageProblem"),
        ("int8", 3, "UsageProblem"),
        ("fp32", 8, None),
        ("fp32", 3, None),
        ("int3", 8, "UsageProblem"),
        ("int3", 3, "UsageProblem"),
    ]
    assert isinstance(found.error, UsageProblem)
    assert found.rows[0]["failure"] == str(found.error)
    assert found.rows[0]["agreement"] is None


def test_a_prompt_that_is_too_long_for_a_backend(llm_folder: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was done before stays; what the failure held is released, and the next backend has room again."""
    real, held = llm_generation.open_cached, []

    def opened(choice: BackendChoice, *rest: Any) -> Any:
        model = real(choice, *rest)
        if choice == ORT:
            prefill = model.prefill

            def limited(prompt: np.ndarray, capacity: int) -> Any:
                if prompt.shape[1] == 8:
                    activations = np.zeros(1)
                    held.append(weakref.ref(activations))
                    raise DeviceFailure("Out of memory.") from MemoryError()
                return prefill(prompt, capacity)

            model.prefill = limited
        return model

    monkeypatch.setattr(llm_generation, "open_cached", opened)
    settings = LlmSettings(backends=(ORT, TORCH), modes=("generate-cached",), prompts=(3, 8, 5), new_tokens=5)
    found = compared(llm_folder("llama"), settings)
    assert isinstance(found.error, DeviceFailure)
    assert held[0]() is None
    assert [(row["prompt_tokens"], row["error_kind"]) for row in found.rows if row["backend"] == "ort-cpu"] == [
        (3, None),
        (8, "DeviceFailure"),
        (5, "DeviceFailure"),
    ]
    assert [row["failure"] for row in found.rows[3:]] == [None] * 3


def test_what_is_wrong_comes_before_what_failed(llm_folder: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that takes its sequences for the first one is right at batch 1 alone."""
    real = llm_generation.open_cached

    def opened(choice: BackendChoice, *rest: Any) -> Any:
        model = real(choice, *rest)
        return Faulty(model, rows_after_the_first) if choice == ORT else model

    monkeypatch.setattr(llm_generation, "open_cached", opened)
    broken = BackendChoice("torch", "int8")
    settings = {"backends": (broken, ORT), "modes": ("generate-cached",), "prompts": (6, 4), "new_tokens": 4}
    assert compared(llm_folder("llama"), LlmSettings(**settings)).rows[2]["failure"] is None
    found = compared(llm_folder("llama"), LlmSettings(**settings, batch=2))
    assert isinstance(found.error, CheckFailed)
    assert [row["error_kind"] for row in found.rows] == ["UsageProblem"] * 2 + ["Disagreement"] * 2
    for row in found.rows[2:]:
        assert "in 1 of 2 sequences, first in sequence 1 at token 0" in row["failure"]
        assert row["agreement"]["failure"] == row["failure"]


def test_models_without_a_cache(llm_folder: Folders) -> None:
    settings = {"backends": (TORCH,), "prompts": (8,), "new_tokens": 5}
    assert compared(llm_folder("mamba"), LlmSettings(**settings, modes=("generate",))).rows[0]["failure"] is None
    with refused(UsageProblem):
        compared(llm_folder("mamba"), LlmSettings(**settings, modes=("generate", "generate-cached")))


@pytest.mark.parametrize(
    "settings",
    [
        LlmSettings(prompts=(7, 60), new_tokens=5),
        LlmSettings(prompts=(7, 60), new_tokens=4, batch=4),
    ],
)
def test_what_does_not_fit(llm_folder: Folders, settings: LlmSettings) -> None:
    positions = examine_llm_directory(llm_folder("llama")).positions
    with refused(UsageProblem):
        check_generation(settings, positions, len(TOKENS))
