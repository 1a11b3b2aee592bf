"""What an eval-llm report says in words."""

from typing import Any

from trt_workbench.report.llm import summarise


def timed(mode: str, backend: str, prompt: int, rate: float) -> dict[str, Any]:
    sizes = {"batch": 1, "prompt_tokens": prompt, "new_tokens": 1 if mode == "prefill" else 64}
    return {
        "mode": mode,
        "backend": backend,
        "precision": "fp16",
        "tokens_per_s": {"p50": rate},
        "repetitions": 20,
        **sizes,
    }


def test_only_the_same_work_is_compared() -> None:
    timing = [
        timed("prefill", "trt", 128, 900.0),
        timed("prefill", "torch", 128, 300.0),
        timed("prefill", "torch", 1024, 2000.0),
        timed("prefill", "trt", 1024, 1000.0),
        timed("generate", "trt", 32, 50.0),
    ]
    assert summarise({"model": {"path": "models/lm"}, "backends": [], "timing": timing}) == [
        "prefill, batch 1, 128 tokens: trt:fp16 is the fastest of 2 with 900.0 tokens/s (median of 20).",
        "prefill, batch 1, 1024 tokens: torch:fp16 is the fastest of 2 with 2000.0 tokens/s (median of 20).",
        "generate, batch 1, 32 tokens and 64 new: trt:fp16 is the fastest of 1 with 50.0 tokens/s (median of 20).",
    ]
