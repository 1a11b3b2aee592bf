"""Which row is recommended, and what is said of it."""

from pathlib import Path
from typing import Any

import pytest
from tests.texts import held

from trt_workbench.decide.document import DecisionRow, Recommendation, RowSpeed, Shown, SpeedAnswer
from trt_workbench.decide.judge import _row
from trt_workbench.decide.settings import DecideSettings
from trt_workbench.decide.tried import DraftRow
from trt_workbench.decide.words import _doubts, accuracies, excluded, recommendation, strange
from trt_workbench.decide.words import speed as speed_answer
from trt_workbench.model.low_precision.evidence import Evidence
from trt_workbench.quantize.document import RowScore
from trt_workbench.quantize.task import Detection
from trt_workbench_speech.scoring import Spoken, WordsTask


def task(*, overlap: bool = False) -> Detection:
    return Detection(Path("images"), Path("a.json"), overlap=overlap)


def speed(ms: float, rank: int | None, **changes: Any) -> RowSpeed:
    values: dict[str, Any] = {
        "latency_ms": ms, "latency_low_ms": 0.9 * ms, "latency_high_ms": 1.1 * ms, "coverage": 0.95,
        "items_per_s": 1000 / ms, "speed_up": 10 / ms, "speed_up_low": 9 / ms, "speed_up_high": 11 / ms, "rank": rank,
        "load_s": 1.0, "memory_bytes": 1, "repetitions": 9, "outputs": "matched",
    }  # fmt: skip
    return RowSpeed(**{**values, **changes})


def row(
    precision: str, loss: float, half: float, latency: RowSpeed | None, backend: str = "trt", **changes: Any
) -> DecisionRow:
    ends = None if precision == "fp32" else (loss - half, loss + half)
    score = RowScore(value=0.3 - loss, ci95=(0.2, 0.4), loss=loss, loss_ci95=ends)
    values: dict[str, Any] = {"state": "measured", "meets": loss <= 0.005, "certain": loss + half <= 0.005}
    return DecisionRow(precision=precision, backend=backend, score=score, speed=latency, **{**values, **changes})


BASE = row("fp32", 0, 0, speed(10, 4), size_bytes=4_000_000)
FP16 = row("fp16", 0.0001, 0.001, speed(5, 3), size_bytes=2_000_000)
INT8 = row("int8", 0.02, 0.004, speed(3, 1), size_bytes=1_000_000)
MIXED = row("int8-mixed", 0.003, 0.004, speed(4, 2), size_bytes=1_500_000)


def test_the_fastest_that_keeps_the_score_is_recommended_with_what_it_brings() -> None:
    found = recommendation([BASE, FP16, INT8, MIXED], task(), 0.005, 100)
    assert (found.precision, found.backend) == ("int8-mixed", "trt")
    held(found.sentence)
    # the half width of 0.004 has to become 0.002: four times as many
    held(*found.doubts)


def test_what_has_hardly_anything_in_it_is_not_recommended() -> None:
    hardly = row("int8", 0, 0.001, speed(3, 1), low_macs=0.004)
    assert recommendation([BASE, FP16, hardly], task(), 0.005, 100).precision == "fp16"
    (said,) = accuracies([BASE, hardly], ["AP"], "images", 0.005, 100)
    assert (said.keeps, said.sentence.rpartition("; ")[2]) == ("not shown", "only 0.4 % of the arithmetic in it")
    stay = recommendation([BASE, hardly], task(), 0.005, 100)
    held(stay.sentence)
    noise = row("int8", 0, 0.001, speed(3, 1), calibrated=False)
    stay = recommendation([BASE, noise], task(), 0.005, 100)
    held(stay.sentence)
    few = row("int4-weights", 0, 0.001, speed(3, 1), low_weights=0.004)
    assert "only 0.4 % of the weights in it" in accuracies([BASE, few], ["AP"], "images", 0.005, 9)[0].sentence


@pytest.mark.parametrize(
    ("part", "keeps"), [({}, "no"), ({"low_macs": 0.004}, "no"), ({"calibrated": False}, "not shown")]
)
def test_what_has_hardly_anything_in_it_can_lose_the_score(part: dict[str, Any], keeps: str) -> None:
    lost = row("int8", 0.2, 0.05, None, state="scored", **part)
    (said,) = accuracies([BASE, lost], ["AP"], "images", 0.005, 100)
    assert said.keeps == keeps
    assert lost.judged(["AP"], 0.005) == ("regression" if keeps == "no" else "not shown")


def test_scores_that_are_a_gate_are_doubted_where_ranges_were_found_on_what_was_scored() -> None:
    scored = [row(name, 0, 0.001, None, state="scored") for name in ("fp32", "int8")]
    found = [recommendation(rows, task(overlap=True), 0.005, 100) for rows in (scored, scored[:1])]
    assert ["were also scored" in " ".join(one.doubts) for one in found] == [True, False]


@pytest.mark.parametrize(("ranged", "doubted"), [({}, True), ({"calibrated": False}, False), ({"score": None}, False)])
@pytest.mark.parametrize("name", ["int8", "int8-mixed", "fp8"])
def test_ranges_of_scored_samples_are_a_doubt_wherever_there_are_any(
    name: str, ranged: dict[str, Any], doubted: bool
) -> None:
    """Also where fp32 is the fastest, and not where no format with ranges was scored."""
    base = row("fp32", 0, 0, speed(1, 1))
    lower = row(name, 0.001, 0.001, speed(5, 2)).model_copy(update=ranged)
    found = recommendation([base, FP16, lower], task(overlap=True), 0.005, 100)
    assert found.precision == "fp32"
    assert ("were also scored" in " ".join(found.doubts)) is doubted


@pytest.mark.parametrize("name", ["fp16", "bf16", "nvfp4", "mxfp8", "int4-weights"])
def test_formats_without_ranges_are_not_doubted_for_them(name: str) -> None:
    assert "ranges" not in " ".join(recommendation([BASE, row(name, 0, 0.01, None)], task(overlap=True), 1, 9).doubts)


@pytest.mark.parametrize("samples", [3, 20, 100])
def test_a_loss_that_few_samples_show_is_not_shown_and_fails_where_certainty_is_asked_for(samples: int) -> None:
    loose = row("int8", 0.002, 0.123, speed(5, 1))
    (found,) = accuracies([BASE, loose], ["AP"], "images", 0.005, samples)
    assert (found.keeps, found.backend, found.loss_high) == ("not shown", "trt", 0.125)
    held(found.sentence)
    assert loose.may_ship(certain=False)
    assert not loose.may_ship(certain=True)
    held(recommendation([BASE, loose], task(), 0.005, samples, certain=True).sentence)


@pytest.mark.parametrize(("margin", "why"), [(0.001, ": an interval needs 30"), (0.123, ", about 21,000 would")])
def test_an_interval_of_few_samples_says_why_it_shows_nothing(margin: float, why: str) -> None:
    near = row("int8", 0.002, margin, speed(5, 1), certain=False)
    (found,) = accuracies([BASE, near], ["AP"], "samples", 0.005, 12)
    assert found.sentence.endswith(f"; 12 samples cannot settle it{why}")
    assert found.keeps == "not shown"


@pytest.mark.parametrize(("name", "value", "guess"), [("AP", 0.0, 0.0), ("WER", 1.2, 1.0), ("WER", 0.0, None)])
def test_on_a_baseline_that_is_a_guess_nothing_is_decided(name: str, value: float, guess: float | None) -> None:
    rows = [row("fp32", 0, 0, speed(10, 1)), row("int8", 0, 0, speed(5, 2))]
    changes = {"value": value, "guess": guess}
    rows = [one.model_copy(update={"score": one.score and one.score.model_copy(update=changes)}) for one in rows]
    useful = guess is None
    assert ("there is nothing to lose; check model and data" in strange(rows, [name], {}, 0.005, 5000)) is not useful
    asked = task() if name == "AP" else WordsTask(Spoken(Path("c.json"), "m.jsonl"))
    said = recommendation(rows, asked, 0.005, 5000)
    assert (said.precision is None, "as good as guessing" in said.sentence) == (not useful, not useful)


def test_each_precision_is_kept_lost_or_not_shown() -> None:
    found = accuracies([BASE, FP16, MIXED, INT8], ["AP"], "images", 0.005, 500)
    assert [(one.precision, one.keeps) for one in found] == [
        ("fp16", "yes"), ("int8-mixed", "not shown"), ("int8", "no"),
    ]  # fmt: skip
    held(*(one.sentence for one in found))


def test_a_simulated_row_speaks_only_where_nothing_computes_in_its_precision() -> None:
    imitated = row("int8", 0.0, 0.001, None, "ort-cpu", state="scored", simulated=True)
    (real,) = accuracies([BASE, INT8, imitated], ["AP"], "images", 0.005, 500)
    assert (real.keeps, real.backend, real.simulated) == ("no", "trt", False)
    (alone,) = accuracies([BASE, imitated], ["AP"], "images", 0.005, 500)
    assert (alone.keeps, alone.backend, alone.simulated) == ("yes", "ort-cpu", True)


def on_a_cpu(*rows: DecisionRow) -> tuple[SpeedAnswer, Recommendation]:
    base = BASE.model_copy(update={"backend": "ort-cpu"})
    answer = speed_answer([base, *rows], certain=False, processor=True, command=" ".join)
    return answer, recommendation([base, *rows], task(), 0.005, 100, processor=True)


def simulated(name: str, loss: float, half: float) -> DecisionRow:
    return row(name, loss, half, None, "ort-cpu", state="scored", simulated=True, reason="ort-cpu simulates it")


def test_what_keeps_the_score_on_a_cpu_waits_for_its_speed() -> None:
    lost, open_ = simulated("int8", 0.02, 0.004), simulated("fp8", 0.003, 0.004)
    answer, said = on_a_cpu(simulated("fp16", 0.0001, 0.001), lost, open_)
    assert (answer.measured, answer.command) == (False, "fp16")
    assert (said.precision, said.backend, said.doubts) == ("fp16", None, [])
    held(answer.sentence, said.sentence)
    answer, said = on_a_cpu(open_, lost)
    assert (answer.command, said.precision) == ("fp8", "fp8")
    held(said.sentence)
    answer, said = on_a_cpu(simulated("fp16", 0.0001, 0.001), simulated("nvfp4", 0, 0.001))
    assert (answer.command, said.precision) == ("fp16 nvfp4", None)
    held(said.sentence)
    answer, said = on_a_cpu(lost)
    assert (answer.command, said.precision, said.backend) == (None, "fp32", "ort-cpu")
    held(answer.sentence, said.sentence)


def test_a_latency_of_a_cpu_is_of_a_cpu() -> None:
    fast = row("int8", 0.0, 0.001, speed(5, 1), "ort-cpu")
    answer, said = on_a_cpu(simulated("fp16", 0.0001, 0.001), fast)
    assert (answer.measured, answer.command, said.precision) == (False, "fp16 int8", "int8")
    held(answer.sentence)
    answer = speed_answer([BASE, FP16], certain=False, processor=False, command=" ".join)
    assert (answer.measured, answer.command) == (True, None)
    held(answer.sentence)


def limited(one: DecisionRow, **limits: Shown) -> DecisionRow:
    found = one.model_copy(update={"limits": limits})
    return found.model_copy(update={"verdict": found.judged(["AP"], 0.005)})


def test_the_best_within_all_limits_is_shipped_and_what_they_exclude_is_said() -> None:
    rows = [
        limited(BASE, max_latency_ms="no", max_memory_bytes="yes"),
        limited(FP16, max_latency_ms="yes", max_memory_bytes="yes"),
        limited(row("int8-mixed", 0.001, 0.001, speed(4, 2)), max_latency_ms="yes", max_memory_bytes="no"),
        limited(INT8, max_latency_ms="yes", max_memory_bytes="yes"),
        limited(simulated("fp8", 0, 0.001), max_latency_ms="not shown", max_memory_bytes="not shown"),
    ]
    assert [one.verdict for one in rows] == ["infeasible", "accepted", "infeasible", "regression", "not shown"]
    assert recommendation(rows, task(), 0.005, 100).precision == "fp16"
    held(*excluded(rows, {"max_latency_ms": 6.0, "max_memory_bytes": 2.0**29}))
    nothing = recommendation([rows[0], rows[2]], task(), 0.005, 100)
    assert (nothing.precision, nothing.backend) == (None, None)
    held(nothing.sentence)


def test_a_limit_that_was_not_measured_is_no_pass() -> None:
    waits = limited(simulated("fp16", 0, 0.001), max_latency_ms="not shown")
    assert (waits.verdict, waits.may_ship(certain=False)) == ("not shown", False)
    assert not limited(FP16, max_latency_ms="not shown").may_ship(certain=False)
    held(on_a_cpu(waits)[1].sentence)


def test_what_is_better_by_more_than_chance_and_the_bound_is_not_shipped() -> None:
    better = limited(row("nvfp4", -0.08, 0.02, speed(3, 1)))
    assert (better.verdict, better.may_ship(certain=False)) == ("anomalous", False)
    assert limited(row("nvfp4", -0.004, 0.001, speed(3, 1))).verdict == "accepted"
    found = recommendation([BASE, better], task(), 0.005, 100)
    assert found.precision == "fp32"
    held(found.sentence)


@pytest.mark.parametrize(
    ("published", "samples", "far"),
    [(0.3, 100, False), (0.391, 100, False), (0.5, 100, True), (0.1, 100, True), (0.5, 20, False)],
)
def test_a_baseline_far_from_its_published_score_decides_nothing(published: float, samples: int, *, far: bool) -> None:
    found = recommendation([BASE, FP16], task(), 0.005, samples, expect={"AP": published})
    assert found.sentence.startswith("Nothing is decided: ") is far
    if published == 0.5 and far:
        held(found.sentence)


@pytest.mark.parametrize("loss", [0.001, 0.1])
def test_without_latencies_the_accuracy_is_answered(loss: float) -> None:
    reason = "--repetitions is 0"
    rows = [
        row(name, change, 0.001, None, state="scored", reason=reason) for name, change in (("fp32", 0), ("int8", loss))
    ]
    found = recommendation(rows, task(), 0.005, 100)
    assert (found.precision, found.backend) == ("int8" if loss < 0.005 else "fp32", None)
    held(found.sentence)


def test_weights_alone_are_no_arithmetic_and_count() -> None:
    made = [
        Evidence.model_construct(to=to, low_macs=0.0, low_weights=weights, calibrated=True)
        for to, weights in (("int4-weights", 1.0), ("int4-weights", 0.004), ("int8", 1.0))
    ]
    tried = [DraftRow("any name", "trt", evidence=evidence) for evidence in made]
    found = [_row(one, None, None, None, DecideSettings(), Path(), ["AP"]) for one in tried]
    assert [(one.low_macs, one.low_weights, one.tells) for one in found] == [
        (None, 1.0, True), (None, 0.004, False), (0.0, None, False),
    ]  # fmt: skip


def test_a_loss_that_rounds_to_nothing_has_no_sign() -> None:
    found = recommendation([BASE, row("fp16", -0.00001, 0.00003, speed(5, 1))], task(), 0.005, 100)
    held(found.sentence)


def test_sizes_of_small_models_are_told_apart() -> None:
    rows = [BASE.model_copy(update={"size_bytes": 24_181}), FP16.model_copy(update={"size_bytes": 13_100})]
    assert "; 12.8 KiB instead of 23.6 KiB; " in recommendation(rows, task(), 0.005, 100).sentence


def test_samples_that_all_agree_certify_a_share_by_their_number() -> None:
    fp16 = row("fp16", 0.0, 0.0, speed(5, 1), certain=False)
    assert fp16.score is not None
    score = fp16.score.model_copy(update={"loss_ci95": (0.0, 0.0284), "counted": True, "alike": True, "loss_sd": 0.0})
    found = recommendation([BASE, fp16.model_copy(update={"score": score})], task(), 0.005, 128)
    held(*found.doubts)


def test_of_those_that_cannot_be_told_apart_the_certain_one() -> None:
    tied = [BASE, row("fp16", 0.001, 0.001, speed(5, 1)), row("int8", 0.0005, 0.01, speed(4.9, 1))]
    assert recommendation(tied, task(), 0.005, 100).precision == "fp16"
    as_fast = BASE.model_copy(update={"speed": speed(5.1, 1)})
    untold = [
        row("fp16", 0.001, 0.001, speed(5, 1, speed_up_low=0.98)),
        row("int8", 0.0005, 0.01, speed(4.9, 1, speed_up_low=0.9)),
    ]
    assert recommendation([as_fast, *untold], task(), 0.005, 100).precision == "fp32"


def test_the_ends_of_one_rank_may_be_told_apart() -> None:
    """fp16 ties with int8 and int8 with fp32, so all share a rank; fp16 is faster than fp32 all the same."""
    base = BASE.model_copy(update={"speed": speed(1.1, 1)})
    fp16, int8 = speed(1.0, 1, speed_up=1.1, speed_up_low=1.05), speed(1.05, 1, speed_up=1.05, speed_up_low=0.99)
    rows = [base, row("fp16", 0.001, 0.001, fp16), row("int8", 0.0005, 0.001, int8)]
    found = recommendation(rows, task(), 0.005, 100)
    assert (found.precision, found.doubts) == ("fp16", [])
    untold = [
        one.model_copy(update={"speed": one.speed.model_copy(update={"rank": None})}) for one in rows if one.speed
    ]
    assert recommendation(untold, task(), 0.005, 100).precision == "fp32"


@pytest.mark.parametrize("why", [{"simulated": True}, {"calibrated": False}, {"speed": None, "state": "scored"}])
def test_what_is_simulated_not_calibrated_or_not_measured_is_not_recommended(why: dict[str, Any]) -> None:
    other = row("fp8", 0.0, 0.0, why.get("speed", speed(1, 1)), **{k: v for k, v in why.items() if k != "speed"})
    found = recommendation([BASE, other], task(), 0.005, 100)
    assert found.precision == "fp32"
    held(found.sentence)


def test_nothing_faster_keeps_the_score() -> None:
    found = recommendation([BASE, INT8], task(), 0.005, 100)
    held(found.sentence)
    slow = row("fp16", 0.0, 0.0, speed(20, 5))
    found = recommendation([BASE, slow, INT8], task(), 0.005, 100)
    held(found.sentence)


def of_three_runtimes(ranks: list[int | None], repetitions: int) -> list[DecisionRow]:
    """Rows as YOLOX-Nano had them on an H200: milliseconds, loss and megabytes of fp32 and fp16."""
    found = (
        ("fp32", "trt", 1.440, 0.0, 5.6), ("fp32", "ort-cuda", 2.283, 0.0, 3.7), ("fp32", "torch", 4.508, 1e-9, 3.7),
        ("fp16", "trt", 0.893, -0.0014, 4.3), ("fp16", "ort-cuda", 2.391, -0.002, 3.7),
        ("fp16", "torch", 4.815, 0.0005, 3.7),
    )  # fmt: skip
    told = {"speed_up_low": 0.9} if len({*ranks}) == 1 else {}
    return [
        row(name, loss, 0.001, speed(ms, rank, repetitions=repetitions, **told), backend, size_bytes=int(size * 1e6))
        for (name, backend, ms, loss, size), rank in zip(found, ranks, strict=True)
    ]


def test_of_tied_rows_of_one_precision_the_fastest_whatever_their_sizes() -> None:
    found = recommendation(of_three_runtimes([1] * 6, 5), task(), 0.01, 40)
    assert (found.precision, found.backend) == ("fp32", "trt")
    held(found.sentence)
    lower = [one for one in of_three_runtimes([1] * 6, 5) if one.precision != "fp32"]
    base = BASE.model_copy(update={"speed": speed(10, 4)})
    assert recommendation([base, *lower], task(), 0.01, 40).backend == "trt"  # not ort-cuda, which loses least


def test_latencies_that_can_be_told_apart_decide() -> None:
    found = recommendation(of_three_runtimes([2, 3, 5, 1, 3, 5], 5), task(), 0.01, 40)
    assert (found.precision, found.backend) == ("fp16", "trt")
    assert found.doubts == []


def test_too_few_repetitions_are_said_and_are_no_finding() -> None:
    found = recommendation(of_three_runtimes([None] * 6, 3), task(), 0.01, 40)
    assert (found.precision, found.backend) == ("fp32", "trt")
    held(found.sentence)
    held(*found.doubts)


def test_the_repetitions_that_are_needed_are_more_than_were_measured() -> None:
    """Nine are tested by signed ranks, which cannot tell 14 rows apart, though six could; one row may have one more."""
    latencies = [speed(10 + number, None, repetitions=9 + (number == 0)) for number in range(13)]
    many = [BASE.model_copy(update={"speed": speed(9, None)})]
    many += [row("fp16", 0.0, 0.001, one) for one in latencies]
    (doubt,) = _doubts(many[0], many, task(), 0.005, 100)
    held(doubt)


def test_of_one_precision_the_fastest_runtime_even_where_another_is_certain() -> None:
    """How certain a loss is differs between runtimes by chance, too."""
    base = BASE.model_copy(update={"speed": speed(10, 4)})
    tied = [row("fp16", 0.0, 0.006, speed(0.9, 1)), row("fp16", 0.0, 0.001, speed(2.4, 1), "ort-cuda")]
    assert recommendation([base, *tied], task(), 0.005, 100).backend == "trt"


def test_doubts() -> None:
    doubtful = row("fp16", 0.0, 0.0, speed(5, 1, unstable=["clocks fell"], outputs="far", speed_up_low=0.9), "ort-cpu")
    base = BASE.model_copy(update={"backend": "ort-cpu"})
    rows = [base, doubtful, simulated("nvfp4", 0.001, 0.001)]
    assert "ranges" not in " ".join(recommendation(rows, task(overlap=True), 0.005, 100).doubts), "none was found"
    rows.append(row("int8", 0.02, 0.001, None, state="scored"))
    doubts = " ".join(recommendation(rows, task(overlap=True), 0.005, 100).doubts)
    for text in (
        "calibration images were also scored",
        "is unreliable: clocks fell",
        "differ from those of the same file",
        "not proven faster than fp32",
    ):
        assert text in doubts


def test_a_gain_with_a_wide_interval_is_a_doubt_like_any_other() -> None:
    gain = row("fp16", -0.05, 0.2, speed(5, 1))
    held(recommendation([BASE, gain], task(), 0.005, 100).doubts[0])


def test_samples_of_which_none_differs_certify_little() -> None:
    same = row("fp16", 0.0, 0.048, speed(5, 1), certain=False)
    assert same.score is not None
    same = same.model_copy(update={"score": same.score.model_copy(update={"alike": True, "loss_sd": 0.0})})
    held(recommendation([BASE, same], task(), 0.005, 80).doubts[0])
    assert (
        recommendation([BASE, same], task(), 0.005, 1).doubts[0].endswith("1 image cannot settle it, about 30 would.")
    )


def test_without_a_baseline_nothing_is_recommended() -> None:
    failed = DecisionRow(precision="fp32", backend="trt", state="failed", reason="the process was killed")
    found = recommendation([failed, FP16], task(), 0.005, 100)
    assert found.precision is None
    held(found.sentence)


def test_outputs_that_nothing_was_compared_with_are_a_doubt() -> None:
    alone = row("fp16", 0.0001, 0.001, speed(5, 1, outputs="not compared"))
    doubts = recommendation([BASE, alone], task(), 0.005, 100).doubts
    assert "Its outputs were not compared with those of the same file on the reference." in doubts
