"""The page of a decision, from rows of every kind."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.texts import held, refused

from trt_workbench.core.documents import write_json
from trt_workbench.core.errors import UsageProblem
from trt_workbench.decide.chart import _Scales, draw_decision
from trt_workbench.decide.document import Decision, DecisionRow, Recommendation, RowSpeed, SpeedAnswer
from trt_workbench.decide.report import answer, class_losses, looked_at
from trt_workbench.decide.words import accuracies
from trt_workbench.model.low_precision.evidence import SearchEvidence, SearchPoint
from trt_workbench.quantize.document import ClassLoss, GroupLoss, RowScore, SearchDocument, Sensitivity
from trt_workbench.report.reports import write_report
from trt_workbench.report.style import NARROW, WIDE

RUN = {
    "schema_version": 1,
    "command": "decide",
    "run_id": "r",
    "started_at": "2026-11-23T07:35:49+00:00",
    "status": "complete",
}
NAMESPACE = "{http://www.w3.org/2000/svg}"


def speed(ms: float, spread: float = 0.05) -> RowSpeed:
    return RowSpeed(
        latency_ms=ms, latency_low_ms=ms * (1 - spread), latency_high_ms=ms * (1 + spread), coverage=0.96,
        items_per_s=1000 / ms, speed_up=10 / ms, speed_up_low=9 / ms, speed_up_high=11 / ms, rank=1, load_s=1.0,
        memory_bytes=2**28, repetitions=9, outputs="matched",
    )  # fmt: skip


def row(precision: str, loss: float, ms: float | None, backend: str = "ort-cpu", **changes: Any) -> DecisionRow:
    ends = None if precision == "fp32" else (loss - 0.002, loss + 0.002)
    classes = [
        ClassLoss(name="<b>cat", annotations=50, value=0.4 - 2 * loss, baseline=0.4, loss_ci95=(0.0, 0.1)),
        ClassLoss(name="dog", annotations=30, value=0.4, baseline=0.4, loss_ci95=None),
        ClassLoss(name="rare", annotations=3, value=0.0, baseline=1.0, loss_ci95=None),
    ]
    score = RowScore(value=0.4 - loss, ci95=(0.3, 0.5), loss=loss, loss_ci95=ends, classes=classes)
    values: dict[str, Any] = {"state": "measured" if ms else "scored", "size_bytes": 4_000_000, **changes}
    return DecisionRow(precision=precision, backend=backend, score=score, speed=speed(ms) if ms else None, **values)


def decision(*rows: DecisionRow, chosen: tuple[str, str] = ("fp16", "ort-cpu"), **changes: Any) -> Decision:
    values: dict[str, Any] = {
        "model": "/models/<i>m.onnx", "model_sha256": "0" * 64, "task": "detection", "figure": "AP", "unit": "images",
        "data": "/data/a.json", "samples": 80, "max_loss": 0.005, "batch": 1, "baseline": ("fp32", "ort-cpu"),
        "wall_s": 12.0, **changes,
    }  # fmt: skip
    said = Recommendation(precision=chosen[0], backend=chosen[1], sentence="Ship it.", doubts=["But <b>no"])
    values.setdefault("recommendation", said)
    return Decision(rows=list(rows), **values)


ROWS = (
    row("fp32", 0.0, 10),
    row("fp16", 0.001, 6, meets=True, certain=True, size_bytes=2_000_000),
    row("int8", 0.3, 4, meets=False, certain=False, calibrated=False),
    row("fp8", 0.002, None, simulated=True, meets=True, reason="imitated"),
    DecisionRow(precision="nvfp4", backend="ort-cpu", state="failed", reason="nothing in the model can be made nvfp4"),
    DecisionRow(precision="fp16", backend="trt", state="unavailable", reason="there is no GPU"),
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_json(tmp_path / "decision.json", decision(*ROWS))
    write_json(tmp_path / "run.json", RUN)
    (tmp_path / "env.json").write_text(json.dumps({"schema_version": 1, "command_line": ["trtw", "decide", "m.onnx"]}))
    return tmp_path


@pytest.mark.long
def test_latencies_that_cannot_be_told_apart_have_no_frontier(run: Path) -> None:
    for rank, drawn in ((1, True), (None, False)):
        rows = [
            one.model_copy(update={"speed": one.speed and one.speed.model_copy(update={"rank": rank})}) for one in ROWS
        ]
        write_json(run / "decision.json", decision(*rows))
        page = write_report(run).read_text(encoding="utf-8")
        assert ("stroke-width: 1.2; stroke-linecap: square" in page) is drawn
        assert ("The line joins the rows that no other row beats" in page) is drawn


def test_a_recommendation_is_green_only_where_a_lower_precision_was_scored() -> None:
    said = Recommendation(precision="fp32", backend="ort-cpu", sentence="Stay.", doubts=[])
    rows = {1: "nothing to compare", 2: "recommended"}
    assert {count: answer(decision(*ROWS[:count], recommendation=said)).verdict for count in rows} == rows
    assert answer(decision(*ROWS)).verdict == "recommended, with doubts"


def test_the_page_says_what_ran_and_what_did_not(run: Path) -> None:
    page = write_report(run).read_text(encoding="utf-8")
    for text in (
        "Ship it.",
        "But &lt;b&gt;no",
        "&lt;i&gt;m.onnx: which precision, on which runtime?",
        "Did not run: nothing in the model can be made nvfp4",
        "Did not run: there is no GPU",
        ">simulated</span>",
        ">not calibrated</span>",
        "Loss of fp16 on ort-cpu by class",
        "Not shown: 1 class with fewer than 20 annotations",
        "prefers-color-scheme: dark",
    ):
        assert text in page
    assert page.count('class="best"') == 1
    assert "<i>m" not in page
    assert "<b>cat" not in page


def test_a_candidate_that_several_runtimes_ran_is_listed_once_and_what_is_unknown_of_the_machine_is_not(
    run: Path,
) -> None:
    rows = [row("int8", 0.001, 5, name, file="c/m.int8.onnx") for name in ("ort-cpu", "torch")]
    write_json(run / "decision.json", decision(*ROWS, *rows))
    page = write_report(run).read_text(encoding="utf-8")
    assert page.count("int8: c/m.int8.onnx") == 1
    assert "None" not in page[page.index("How it was made") : page.index("The whole environment")]


def test_the_search_for_the_mixed_model_has_its_curve_on_the_page(run: Path) -> None:
    points = [
        SearchPoint(
            kept=kept, low_macs=1 - kept / 10, value=0.4 - loss, loss=loss, loss_ci95=(loss - 0.01, loss + 0.01)
        )
        for kept, loss in ((0, 0.2), (1, 0.01), (2, 0.004))
    ]
    evidence = SearchEvidence(
        bound=0.005, figure="AP", unit="images", samples=64, baseline=0.4, is_error=False, weighed_by="arithmetic",
        chosen=points[2], curve=tuple(points), seed=0,
    )  # fmt: skip
    groups = [
        GroupLoss(name=name, op_type="Conv", macs_share=0.1, weights_share=0.1, noise=0.1, sqnr_db=10.0)
        for name in ("first", "<b>second", "third")
    ]
    noise = Sensitivity(
        model="m.onnx", model_sha256="0", to="int8", method="mse", calibrated=True, data_sha256="0", samples=4, seed=0,
        tensors=["y"], noise=0.1, sqnr_db=10.0, groups=groups,
    )  # fmt: skip
    order = [group.name for group in groups]
    found = SearchDocument(sensitivity=noise, order=order, evidence=evidence, candidate="m.int8.onnx", wall_s=9.0)
    write_json(run / "decision.json", decision(*ROWS, search=found))
    page = write_report(run).read_text(encoding="utf-8")
    assert "How much int8 the score allows" in page
    assert "on 64 images of the calibration data" in " ".join(page.split())
    assert "first, &lt;b&gt;second" in page
    assert page.index("Every precision on every runtime") < page.index("arithmetic in the format")
    assert (run / "plots" / "search-groups.svg").is_file()


def test_several_cards_are_named_with_their_one_driver(run: Path) -> None:
    cards = [{"name": "NVIDIA L4"}, {"name": "NVIDIA T4"}]
    environment = {"schema_version": 1, "command_line": ["trtw"], "driver": {"driver_version": "580.1", "gpus": cards}}
    (run / "env.json").write_text(json.dumps(environment))
    assert ">NVIDIA L4; NVIDIA T4; driver 580.1<" in write_report(run).read_text(encoding="utf-8")


def test_classes_are_those_of_the_recommended_row_or_of_the_best_lower_one() -> None:
    assert looked_at(decision(*ROWS)) == ROWS[1]
    stay = decision(*ROWS, chosen=("fp32", "ort-cpu"))
    assert looked_at(stay) == ROWS[1]
    assert [one.name for one in class_losses(stay).rows] == ["<b>cat", "dog"]
    assert not class_losses(decision(ROWS[0])).rows


def drawn(made: Decision, path: Path, width: float) -> ET.Element:
    return ET.fromstring(draw_decision(made, path, width).read_text(encoding="utf-8"))


def texts(picture: ET.Element) -> list[str]:
    return [one.text or "" for one in picture.iter(f"{NAMESPACE}text")]


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_picture(tmp_path: Path, width: float) -> None:
    picture = drawn(decision(*ROWS), tmp_path / "p.svg", width)
    words = texts(picture)
    assert {"fp32", "fp16", "fp8", "allowed: 0.005", "simulated"} <= set(words)
    assert "int8 \N{UPWARDS ARROW}0.30" in words  # far beyond the bound: at the edge, with its figure
    held(*[one.text for one in picture.iter(f"{NAMESPACE}title")])
    assert picture.get("class") == ("plot wide" if width == WIDE else "plot")


def test_latencies_far_apart_are_on_a_marked_logarithmic_axis(tmp_path: Path) -> None:
    for name, ms, marked in (("near", 6.0, False), ("far", 0.1, True)):
        words = texts(drawn(decision(ROWS[0], row("fp16", 0.001, ms, "trt")), tmp_path / f"{name}.svg", WIDE))
        assert any("logarithmic" in one for one in words) is marked
        assert {"ort-cpu", "trt"} <= set(words)  # the legend


LOSS = st.floats(-1, 1).map(lambda value: round(value, 4))


@pytest.mark.long
@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.tuples(LOSS, st.none() | st.floats(0.01, 1000)), max_size=8),
    st.sampled_from([NARROW, WIDE]),
    st.sampled_from([0.0, 0.005, 0.5]),
)
def test_whatever_there_is_to_draw_is_drawn_inside(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], width: float, bound: float
) -> None:
    made = [row(f"p{place}", loss, ms) for place, (loss, ms) in enumerate(rows)]
    picture = drawn(decision(*made, max_loss=bound), tmp_path_factory.getbasetemp() / "drawn.svg", width)
    left, top, right, bottom = map(float, (picture.get("viewBox") or "").split())
    circles = list(picture.iter(f"{NAMESPACE}circle"))
    assert len(circles) == len(made)
    places = [(one.get("cx"), one.get("cy")) for one in circles]
    places += [(one.get("x"), one.get("y")) for one in picture.iter(f"{NAMESPACE}text") if one.get("x")]
    assert all(left <= float(x or -9) <= right and top <= float(y or -9) <= bottom for x, y in places)
    assert {f"p{place}" for place in range(len(made))} <= {one.split()[0] for one in texts(picture) if one.strip()}


def test_damage_is_named(run: Path) -> None:
    document = json.loads((run / "decision.json").read_text())
    document["rows"][0]["score"]["value"] = "much"
    (run / "decision.json").write_text(json.dumps(document))
    with refused(UsageProblem):
        write_report(run)


def test_the_command_that_measures_on_a_card_can_be_copied(run: Path) -> None:
    for command, shown in (("trtw decide m.onnx --precisions fp32,fp16", True), (None, False)):
        answered = SpeedAnswer(measured=not shown, sentence="no latency of fp16 here", command=command)
        said = decision(*ROWS, speed=answered, accuracy=accuracies(ROWS, ["AP"], "images", 0.005, 80))
        write_json(run / "decision.json", said)
        page = write_report(run).read_text(encoding="utf-8")
        assert (f'<div class="copied"><pre>{command}</pre></div>' in page) is shown
        assert "fp16: yes, AP loses 0.0010, at most 0.0030" in page
        assert "Speed: no latency of fp16 here" in page


def test_where_nothing_lower_was_timed_there_is_no_axis_of_latencies(tmp_path: Path) -> None:
    base, rows = row("fp32", 0.0, 10), [row("fp16", 0.001, None, simulated=True), row("int8", 0.01, None)]
    for timed in (False, True):
        made = decision(base, *rows, *([row("bf16", 0.001, 9)] if timed else []))
        text = draw_decision(made, tmp_path / "plot.svg", WIDE).read_text(encoding="utf-8")
        assert (">latency, ms (left is faster)</text>" in text) is timed
        places = {one.row.precision: one.x for one in _Scales(made, WIDE).points(made)}
        assert (places["fp16"] > _Scales(made, WIDE).slowest) is timed
        assert len({*places.values()}) == len(places)


def test_precisions_of_one_runtime_have_shapes_of_their_own(tmp_path: Path) -> None:
    made = decision(*ROWS[:3], row("fp16", 0.001, 3, "trt"))
    shapes = {(one.row.precision, one.row.backend): one.shape for one in _Scales(made, WIDE).points(made)}
    assert len({shapes[name, "ort-cpu"] for name in ("fp32", "fp16", "int8")}) == 3
    assert shapes["fp16", "trt"] == shapes["fp16", "ort-cpu"]
    text = draw_decision(made, tmp_path / "plot.svg", WIDE).read_text(encoding="utf-8")
    assert ">int8</text>" in text
