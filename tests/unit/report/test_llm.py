"""What an eval-llm report says in words."""

from typing import Any

from trt_workbench.report.llm import generation_failures, sameness, summarise


def generated(first_difference: int | None = None, *, failure: str | None = None, compared: bool = True) -> Any:
    row = {"mode": "generate-cached", "backend": "trt", "precision": "fp16", "batch": 2, "prompt_tokens": 6}
    agreement = {"first_difference": first_difference, "logit_gap": 0.0125, "logit_gap_limit": 0.05}
    return {**row, "failure": failure, "agreement": agreement if compared else None}


def test_what_was_generated() -> None:
    wrong, failed = generated(0, failure="Sequence 1 differs."), generated(failure="No room.", compared=False)
    rows = [generated(), generated(3), wrong, failed]
    assert [sameness(row) for row in rows] == [
        "all",
        "the first 3, then a near tie (gap 0.013 of at most 0.05)",
        "wrong",
        "not compared",
    ]
    metrics: Any = {"model": {"path": "models/lm"}, "backends": [], "generation": rows}
    assert summarise(metrics) == ["What 2 of 4 generate is what PyTorch in fp32 generates."]
    assert generation_failures(metrics) == [
        f"trt:fp16, generate-cached (batch 2, prompt of 6 tokens): {why}" for why in ("Sequence 1 differs.", "No room.")
    ]
