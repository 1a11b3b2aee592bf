"""Several builds as one row: which stands for all, the series of its latencies, and the intervals of its score."""

import pytest
from tests.records import record
from tests.texts import held

from trt_workbench.core.records import Record
from trt_workbench.decide.run import joined
from trt_workbench.decide.tried import DraftRow
from trt_workbench.quantize import RowScore


def row(value: float, ends: tuple[float, float] | None, loss: float = 0.0, **others: RowScore) -> RowScore:
    return RowScore(value=value, ci95=ends, loss=loss, loss_ci95=ends, others=others)


def drafts(*numbers: int | None, backend: str = "trt") -> list[DraftRow]:
    return [DraftRow("fp16", backend, build=number) for number in numbers]


def measured(tried: list[DraftRow], *latencies: float, repetitions: int = 4) -> list[Record]:
    return [
        record(runtime=one.runtime, repetition=turn, p50=ms + turn / 100)
        for one, ms in zip(tried, latencies, strict=True)
        for turn in range(repetitions)
    ]


def test_every_repetition_of_the_series_is_of_another_build() -> None:
    tried = drafts(1, 2, 3)
    rows, series, groups = joined(tried, measured(tried, 2.0, 1.0, 3.0))
    assert [(one.runtime, one.build) for one in rows] == [("trt-fp16", None)]
    assert [one.latency_ms["p50"] for one in series if one.latency_ms] == pytest.approx([2.0, 1.01, 3.02, 2.03])
    assert {one.runtime for one in series} == {"trt-fp16"}
    assert [one.builds.kept for one in groups] == [1]
    assert groups[0].label == "fp16 on trt"


def test_builds_that_took_no_turns_are_named_as_such() -> None:
    tried = drafts(1, 2)
    records = [
        one.model_copy(update={"group": group})
        for one in measured(tried, 2.0, 1.0)
        for group in [f"part-{1 if one.runtime == tried[0].runtime and one.repetition else 2}"]
    ]
    assert "turns" not in joined(tried, records)[2][0].note  # they did in the first repetition
    apart = [one for one in records if one.repetition]
    held(joined(tried, apart)[2][0].note)


def test_a_row_of_one_build_is_left_as_it_is() -> None:
    tried = drafts(None, backend="ort-cpu")
    records = measured(tried, 1.0)
    assert joined(tried, records) == (tried, records, [])


def test_builds_that_failed_are_left_out_of_the_turns() -> None:
    tried = drafts(1, 2)
    wrong = [record(runtime=tried[0].runtime, repetition=turn, status="wrong", error="bad") for turn in range(2)]
    rows, series, groups = joined(tried, [*wrong, *measured(tried[1:], 1.0, repetitions=2)])
    assert [one.latency_ms["p50"] for one in series if one.latency_ms] == pytest.approx([1.0, 1.01])
    assert (groups[0].builds.kept, groups[0].builds.builds[0].verdict) == (2, "wrong")
    _, series, groups = joined(tried[:1] * 2, wrong)
    assert {one.error for one in series} == {"bad"}  # the row says why
    assert groups[0].builds.kept is None
    assert len(rows) == 1


def test_intervals_reach_from_the_lowest_end_to_the_highest() -> None:
    scores = [row(0.6, (0.5, 0.7), 0.1), row(0.62, (0.55, 0.72), 0.08), row(0.58, None, 0.12)]
    found = scores[0].among(scores)
    assert (found.value, found.loss, found.ci95, found.loss_ci95) == (0.6, 0.1, (0.5, 0.72), (0.5, 0.72))
    assert row(1.0, None).among([row(1.0, None)]).loss_ci95 is None
    inner = [row(0.6, (0.5, 0.7), f1=row(0.4, (0.3, 0.5))), row(0.6, (0.5, 0.7), f1=row(0.4, (0.2, 0.4)))]
    assert inner[0].among(inner).others["f1"].ci95 == (0.2, 0.5)
