"""Which of several builds is kept, and how far they are apart in words."""

import pytest
from tests.texts import held

from trt_workbench.core.builds import Builds, OneBuild


def builds(*latencies: float | None, wrong: tuple[int, ...] = ()) -> list[OneBuild]:
    return [
        OneBuild(number=number, latency_ms=ms, verdict="wrong" if number in wrong else "right")
        for number, ms in enumerate(latencies, start=1)
    ]


@pytest.mark.parametrize(
    ("latencies", "wrong", "median", "fastest"),
    [
        ((1.2, 1.0, 1.4), (), 1, 2),
        ((1.2, 1.0, 1.4, 1.3), (), 4, 2),  # never the luckier of the two in the middle
        ((1.2, 1.0, 1.4), (2,), 3, 1),
        ((None, 1.0), (), 2, 2),
        ((1.0, 1.1), (1, 2), None, None),
        ((None,), (), None, None),
    ],
)
def test_choice(
    latencies: tuple[float | None, ...], wrong: tuple[int, ...], median: int | None, fastest: int | None
) -> None:
    found = builds(*latencies, wrong=wrong)
    assert (Builds.chosen(found).kept, Builds.chosen(found, "fastest").kept) == (median, fastest)


def test_words() -> None:
    one = OneBuild(number=1, engine_sha256="a", latency_ms=0.53, relative_l2=1e-3, verdict="right", score=0.61)
    other = OneBuild(number=2, engine_sha256="a", latency_ms=0.552, relative_l2=1.2e-3, verdict="wrong", score=0.6)
    held(Builds.chosen([one, other]).words)
    held(Builds.chosen(builds(None, None)).words)
    held(Builds.chosen([one, OneBuild(number=2)]).words)
    assert Builds.chosen([one, other]).spread == pytest.approx(0.0415, abs=1e-3)
    assert Builds.chosen(builds(None)).spread is None
    alone = Builds.chosen(builds(0.53, None))
    assert (alone.kept, alone.spread, alone.is_choice) == (1, None, False)  # of one nothing is known of how far apart
    assert "apart" not in alone.words
    assert Builds.chosen(builds(0.53, 0.53)).is_choice


def test_builds_without_figures_are_named_with_their_reasons() -> None:
    failed = {2: "trt computes it in fp32, not fp16", 4: "trt computes it in fp32, not fp16", 5: "it crashed."}
    found = Builds.chosen([*builds(0.53, None, 0.55, None, None)])
    assert found.missing == ""
    rows = tuple(one.model_copy(update={"reason": failed.get(one.number)}) for one in found.builds)
    found = found.model_copy(update={"builds": rows})
    wanted = "no results of 2, 4 (trt computes it in fp32, not fp16); no results of 5 (it crashed)"
    assert found.missing == wanted
    scored = tuple(one.model_copy(update={"score": 0.5}) if one.number == 5 else one for one in found.builds)
    assert found.model_copy(update={"builds": scored}).missing == wanted.replace("no results of 5", "no latency of 5")
    held(found.words)
    long = Builds(builds=(OneBuild(number=2, reason=f"cannot read {'x ' * 400}"),))
    assert len(long.missing) < 200
    assert long.missing.endswith("x …)")


@pytest.mark.parametrize(
    ("labels", "alike"), [((), True), (("fp16", None), True), (("fp16", "fp16"), True), (("fp16", "fp32", None), False)]
)
def test_what_builds_compute_in_is_shown_where_they_differ(labels: tuple[str | None, ...], *, alike: bool) -> None:
    numbered = [OneBuild(number=number, computes_in=label) for number, label in enumerate(labels, start=1)]
    assert Builds.chosen(numbered).compute_alike is alike
