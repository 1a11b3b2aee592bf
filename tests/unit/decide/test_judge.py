"""Rows of a decision: whether a loss is certain; ranks of latencies, and where there can be none."""

from pathlib import Path

import numpy as np
import pytest
from tests.records import record

from trt_workbench.decide.judge import _speeds, judged
from trt_workbench.decide.settings import DecideSettings
from trt_workbench.decide.tried import DraftRow
from trt_workbench.decide.words import recommendation
from trt_workbench.quantize.scores import ResampledScore
from trt_workbench.quantize.task import Detection

# p50 of YOLOX-Nano on an H200, milliseconds, of the repetitions that were stable first; and how many were not.
FOUND = {
    ("fp16", "trt"): ([0.8935, 0.9073, 0.9010], 2),
    ("fp32", "trt"): ([1.440, 1.428, 1.479], 0),
    ("fp32", "ort-cuda"): ([2.214, 2.351, 2.108], 1),
    ("fp16", "ort-cuda"): ([2.391, 2.258, 2.440], 0),
    ("fp32", "torch"): ([4.508, 5.009, 4.478], 2),
    ("fp16", "torch"): ([5.156, 4.610, 4.815], 0),
}


def ranks(repetitions: int) -> dict[tuple[str, str], int | None]:
    tried = [DraftRow(precision, backend) for precision, backend in FOUND]
    records = []
    for one in tried:
        values, marked = FOUND[one.precision, one.backend]
        for number in range(repetitions):
            unstable = ["the median moved"] if number >= repetitions - marked else []
            p50 = values[number % 3] * (1 + 1e-4 * number)
            records.append(record(one.runtime, number, p50, unstable=unstable, group="0", backend=one.backend))
    speeds = _speeds(tried, records)
    assert {speed.repetitions for speed in speeds.values()} == {repetitions}
    return {(one.precision, one.backend): speeds[one.runtime].rank for one in tried}


def test_of_three_repetitions_of_six_rows_there_are_no_ranks() -> None:
    assert set(ranks(3).values()) == {None}


def test_a_repetition_that_one_row_has_alone_tells_nothing() -> None:
    """After an interruption: ranks would say that rows could have been told apart."""
    tried = [DraftRow(precision, backend) for precision, backend in FOUND]
    records = [
        record(one.runtime, number, 1.0 + place, group="0")
        for place, one in enumerate(tried)
        for number in range(5 if place == 0 else 4)
    ]
    assert {one.rank for one in _speeds(tried, records).values()} == {None}
    # of three rows five repetitions and four do
    few = [one for one in records if one.runtime in {row.runtime for row in tried[:3]}]
    assert [one.rank for one in _speeds(tried[:3], few).values()] == [1, 2, 3]


def test_unstable_repetitions_count_where_too_few_others_are_left() -> None:
    found = ranks(5)
    assert (found["fp16", "trt"], found["fp32", "trt"], found["fp32", "ort-cuda"]) == (1, 2, 3)
    assert found["fp32", "torch"] == 5


def test_reasons_that_differ_in_their_figures_are_said_once() -> None:
    waited = [f"its threads waited for a processor {share} % of the time" for share in (54, 55, 61)]
    records = [record("trt-fp32", number, unstable=[waited[number]]) for number in range(3)]
    assert _speeds([DraftRow("fp32", "trt")], records)["trt-fp32"].unstable == [f"{waited[0]} (and 2 similar)"]


@pytest.mark.parametrize("repetitions", [1, 3])
def test_a_row_alone_has_a_rank(repetitions: int) -> None:
    records = [record("trt-fp32", number) for number in range(repetitions)]
    assert _speeds([DraftRow("fp32", "trt")], records)["trt-fp32"].rank == 1


@pytest.mark.parametrize(("count", "certain"), [(20, False), (735, False), (736, True)])
def test_an_interval_without_width_is_as_certain_as_there_are_samples(
    tmp_path: Path, count: int, *, certain: bool
) -> None:
    """736 of 736 that are right or wrong in the same way leave 0.5 % that may not be."""
    same = np.full(1000, 0.3)
    tried = [
        DraftRow(name, "trt", scores=ResampledScore(0.3, values, "a", count, step=1.0))
        for name, values in {"fp32": same, "fp16": same, "int8": np.linspace(0.299, 0.301, 1000)}.items()
    ]
    found = judged(
        tried, [], model=Path("m.onnx"), model_sha256="0", task=Detection(tmp_path, tmp_path / "a.json"),
        settings=DecideSettings(max_loss=0.005), notes=(), left_out=(), wall_s=1.0, root=tmp_path, command=" ".join,
    )  # fmt: skip
    assert [row.meets for row in found.rows] == [True, True, True]
    assert [row.certain for row in found.rows] == [True, certain, False]  # int8 is no better than fp16


@pytest.mark.parametrize(("device", "told"), [("cpu", True), ("cuda:0", False)])
def test_that_latencies_are_of_the_processor_is_said_where_pytorch_ran_on_it_too(
    tmp_path: Path, device: str, *, told: bool
) -> None:
    scores = ResampledScore(0.3, np.full(100, 0.3), "a", 20)
    tried = [
        DraftRow("fp32", "ort-cpu", scores=scores),
        DraftRow("fp32", "torch", scores=scores, provenance={"device": device}),
    ]
    records = [record(one.runtime, number, backend=one.backend) for one in tried for number in range(5)]
    found = judged(
        tried, records, model=Path("m.onnx"), model_sha256="0", task=Detection(tmp_path, tmp_path / "a.json"),
        settings=DecideSettings(), notes=(), left_out=(), wall_s=1.0, root=tmp_path, command=" ".join,
    )  # fmt: skip
    assert found.speed is not None
    assert found.speed.measured is not told


def test_what_keeps_ap_and_loses_another_score_that_is_kept_is_not_recommended(tmp_path: Path) -> None:
    def scores(ap: float, f1: float | None) -> ResampledScore:
        others = {} if f1 is None else {"f1@0.5": ResampledScore(f1, np.full(100, f1), "a", 900)}
        return ResampledScore(ap, np.full(100, ap), "a", 900, others=others)

    found = {"fp32": scores(0.3, 0.6), "fp16": scores(0.3, 0.6), "int8": scores(0.3, 0.4), "fp8": scores(0.3, None)}
    tried = [DraftRow(name, "trt", scores=one) for name, one in found.items()]
    latencies = zip(tried, (4.0, 3.0, 1.0, 1.0), strict=True)
    records = [record(one.runtime, number, p50) for one, p50 in latencies for number in range(9)]
    made = judged(
        tried, records, model=Path("m.onnx"), model_sha256="0", settings=DecideSettings(), notes=(), left_out=(),
        task=Detection(tmp_path, tmp_path, keep=("AP", "f1@0.5")), wall_s=1.0, root=tmp_path, command=" ".join,
    )  # fmt: skip
    assert [(row.meets, row.certain) for row in made.rows] == [(True, True)] * 2 + [(False, False)] * 2
    assert [row.verdict for row in made.rows] == ["accepted", "accepted", "regression", "regression"]
    assert made.recommendation.precision == "fp16"
    assert "f1@0.5 0.6000 instead of 0.6000 (loss 0.0000)" in made.recommendation.sentence
    assert (made.passed, [one.keeps for one in made.accuracy]) == (True, ["yes", "no", "no"])
    both = Detection(tmp_path, tmp_path, keep=("AP", "f1@0.5"))
    lower = recommendation(made.rows[:1] + made.rows[2:], both, 0.005, 900)
    assert lower.sentence.endswith(": int8 on trt loses f1@0.5; fp8 on trt loses f1@0.5.")


@pytest.mark.parametrize("timed", [False, True])
def test_what_is_simulated_passes_only_where_no_gpu_was_timed(tmp_path: Path, *, timed: bool) -> None:
    scores = ResampledScore(0.3, np.full(100, 0.3), "a", 900)
    base = DraftRow("fp32", "trt", scores=scores)
    tried = [base, DraftRow("fp8", "ort-cpu", scores=scores, provenance={"simulated": True})]
    records = [record(base.runtime, number, backend="trt") for number in range(5 * timed)]
    found = judged(
        tried, records, model=Path("m.onnx"), model_sha256="0", task=Detection(tmp_path, tmp_path / "a.json"),
        settings=DecideSettings(), notes=(), left_out=(), wall_s=1.0, root=tmp_path, command=" ".join,
    )  # fmt: skip
    assert found.speed is not None
    assert (found.speed.measured, found.speed.command) == (timed, None if timed else "fp8")
    assert (found.passed, found.accuracy[0].keeps) == (not timed, "yes")
    assert found.recommendation.precision == ("fp32" if timed else "fp8")


@pytest.mark.parametrize(
    ("value", "limit", "measured", "badge", "said"),
    [
        (0.3, None, True, "nothing to compare", "Stay with fp32 on trt: no lower precision was requested."),
        (0.3, None, False, "nothing to compare", "Stay with fp32: no lower precision was requested."),
        (0.3, 9.0, True, "accepted", "Stay with fp32 on trt: no lower precision was requested."),
        (0.3, 0.1, True, "infeasible", "Nothing is within all limits: no lower precision was requested."),
        (0.3, 9.0, False, "not proven", "requested, and fp32 is not shown to be within all limits."),
        (0.0, None, True, "infeasible", "as good as guessing (0), so there is nothing to lose; check model and data."),
    ],
)
def test_fp32_alone_fails_only_by_a_limit_or_as_a_guess(
    tmp_path: Path, value: float, limit: float | None, *, measured: bool, badge: str, said: str
) -> None:
    guess = 0.0 if value == 0 else None
    tried = [DraftRow("fp32", "trt", scores=ResampledScore(value, np.full(100, value), "a", 900, guess=guess))]
    records = [record(tried[0].runtime, number, 4.0) for number in range(9 * measured)]
    found = judged(
        tried, records, model=Path("m.onnx"), model_sha256="0", settings=DecideSettings(max_latency_ms=limit),
        task=Detection(tmp_path, tmp_path), notes=(), left_out=(), wall_s=1.0, root=tmp_path, command=" ".join,
    )  # fmt: skip
    assert found.recommendation.sentence.endswith(said)
    assert found.reach.word("accepted", "infeasible").removesuffix(", with doubts") == badge
    assert found.reach.passed == found.passed == (badge in ("nothing to compare", "accepted"))


def test_a_precision_that_was_left_out_is_not_called_infeasible(tmp_path: Path) -> None:
    tried = [DraftRow("fp32", "trt", scores=ResampledScore(0.3, np.full(100, 0.3), "a", 900)), DraftRow("fp16", "trt")]
    tried[1].fail("left out", "the budget was used up")
    found = judged(
        tried, [], model=Path("m.onnx"), model_sha256="0", settings=DecideSettings(), notes=(), left_out=(),
        task=Detection(tmp_path, tmp_path), wall_s=1.0, root=tmp_path, command=" ".join,
    )  # fmt: skip
    assert (found.reach.word("accepted", "infeasible"), found.reach.passed) == ("not proven", False)
