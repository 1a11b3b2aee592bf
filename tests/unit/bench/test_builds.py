"""What records say of several builds of one engine."""

import pytest
from tests.records import record

from trt_workbench.bench.builds import built_group


@pytest.mark.parametrize(
    ("mark", "state", "verdict"),
    [
        ("right within fp16", "matched", "right within fp16"),  # more than what one point compares
        ("unverified", "matched", "matched"),  # chunks of streams
        ("unverified", "far", "far"),
        ("unverified", "not compared", "unverified"),
        ("unverified", None, "unverified"),
        ("undecided", "matched", "undecided"),
        (None, "matched", None),
    ],
)
def test_an_engine_that_nothing_verified_is_judged_by_its_outputs_where_it_was_timed(
    mark: str | None, state: str | None, verdict: str | None
) -> None:
    one = record(backend="trt").model_copy(
        update={
            "verification": mark and {"verdict": mark, "allowed": False},
            "outputs": state and {"state": state, "tensors": {}},
        }
    )
    (build,) = built_group("trt", {1: [one]}).builds.builds
    assert build.verdict == verdict
    assert build.reason is None
    (wrong,) = built_group("trt", {1: [one.model_copy(update={"status": "wrong"})]}).builds.builds
    assert wrong.verdict == "wrong"


def test_a_build_says_what_it_computes_in_or_why_it_has_no_figures() -> None:
    ran = {"precision_ran": {"text": "fp16+fp32 (62 % of layers fp16, 38 % fp32)"}}
    one = record(backend="trt").model_copy(update={"provenance": ran})
    failed = record(backend="trt", p50=None, error="out of memory")
    found = built_group("trt", {1: [one], 2: [failed], 3: []}, reasons={3: "trt computes it in fp32, not fp16"}).builds
    assert [each.computes_in for each in found.builds] == [ran["precision_ran"]["text"], None, None]
    assert [each.reason for each in found.builds] == [None, "out of memory", "trt computes it in fp32, not fp16"]
