"""The page of a decision, from rows of every kind."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trt_workbench.engine.documents import write_json
from trt_workbench.errors import UsageProblem
from trt_workbench.onnxtools.quantize.evidence import SearchEvidence, SearchPoint
from trt_workbench.report.decide import looked_at, losers
from trt_workbench.report.decide_chart import scatter
from trt_workbench.report.reports import write_report
from trt_workbench.runs.decision import ClassLoss, Decision, Recommendation, Row, RowScore, RowSpeed
from trt_workbench.runs.search import SearchDocument
from trt_workbench.runs.sensitivity import GroupLoss, Sensitivity

RUN = {"schema_version": 1, "command": "decide", "run_id": "r", "started_at": "now", "status": "complete"}
NAMESPACE = "{http://www.w3.org/2000/svg}"


def speed(ms: float, spread: float = 0.05) -> RowSpeed:
    return RowSpeed(
        latency_ms=ms, latency_low_ms=ms * (1 - spread), latency_high_ms=ms * (1 + spread), coverage=0.96,
        items_per_s=1000 / ms, speed_up=10 / ms, speed_up_low=9 / ms, speed_up_high=11 / ms, rank=1, load_s=1.0,
        memory_bytes=2**28, repetitions=9, outputs="matched",
    )  # fmt: skip


def row(precision: str, loss: float, ms: float | None, backend: str = "ort-cpu", **changes: Any) -> Row:
    ends = None if precision == "fp32" else (loss - 0.002, loss + 0.002)
    classes = [
        ClassLoss(name="<b>cat", annotations=50, value=0.4 - 2 * loss, baseline=0.4, loss_ci95=(0.0, 0.1)),
        ClassLoss(name="dog", annotations=30, value=0.4, baseline=0.4, loss_ci95=None),
        ClassLoss(name="rare", annotations=3, value=0.0, baseline=1.0, loss_ci95=None),
    ]
    score = RowScore(value=0.4 - loss, ci95=(0.3, 0.5), loss=loss, loss_ci95=ends, classes=classes)
    values: dict[str, Any] = {"state": "measured" if ms else "scored", "size_bytes": 4_000_000, **changes}
    return Row(precision=precision, backend=backend, score=score, speed=speed(ms) if ms else None, **values)


def decision(*rows: Row, chosen: tuple[str, str] = ("fp16", "ort-cpu"), **changes: Any) -> Decision:
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
    Row(precision="nvfp4", backend="ort-cpu", state="failed", reason="nothing in the model can be made nvfp4"),
    Row(precision="fp16", backend="trt", state="unavailable", reason="there is no GPU"),
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_json(tmp_path / "decision.json", decision(*ROWS))
    write_json(tmp_path / "run.json", RUN)
    (tmp_path / "env.json").write_text(json.dumps({"schema_version": 1, "command_line": ["trtw", "decide", "m.onnx"]}))
    return tmp_path


def test_latencies_that_cannot_be_told_apart_have_no_frontier(run: Path) -> None:
    for rank, drawn in ((1, True), (None, False)):
        rows = [
            one.model_copy(update={"speed": one.speed and one.speed.model_copy(update={"rank": rank})}) for one in ROWS
        ]
        write_json(run / "decision.json", decision(*rows))
        page = write_report(run).read_text(encoding="utf-8")
        assert ('class="frontier"' in page) is drawn
        assert ("The line joins what nothing else beats" in page) is drawn


def test_the_page_says_what_ran_and_what_did_not(run: Path) -> None:
    page = write_report(run).read_text(encoding="utf-8")
    for text in (
        "Ship it.",
        "But &lt;b&gt;no",
        "&lt;i&gt;m.onnx: which precision, on which runtime?",
        "Did not run, because nothing in the model can be made nvfp4",
        "Did not run, because there is no GPU",
        ">simulated</span>",
        ">not calibrated</span>",
        "What fp16 on ort-cpu loses, by class",
        "1 classes with fewer than 20 annotations are left out",
        "prefers-color-scheme: dark",
    ):
        assert text in page
    assert page.count('class="best"') == 1
    assert "<i>m" not in page
    assert "<b>cat" not in page


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
    assert page.index("Every precision on every runtime") < page.index("Score against share of the arithmetic in int8")
    assert (run / "plots" / "search-curve.svg").is_file()


def test_several_cards_are_named_with_their_one_driver(run: Path) -> None:
    cards = [{"name": "NVIDIA L4"}, {"name": "NVIDIA T4"}]
    environment = {"schema_version": 1, "command_line": ["trtw"], "driver": {"driver_version": "580.1", "gpus": cards}}
    (run / "env.json").write_text(json.dumps(environment))
    assert ">NVIDIA L4; NVIDIA T4; driver 580.1<" in write_report(run).read_text(encoding="utf-8")


def test_classes_are_those_of_the_recommended_row_or_of_the_best_lower_one() -> None:
    assert looked_at(decision(*ROWS)) == ROWS[1]
    stay = decision(*ROWS, chosen=("fp32", "ort-cpu"))
    assert looked_at(stay) == ROWS[1]
    found = losers(stay)
    assert [one.name for one in found.classes] == ["<b>cat", "dog"]
    assert losers(decision(ROWS[0])) is None


def texts(picture: str) -> list[ET.Element]:
    return list(ET.fromstring(picture).iter("text"))


@pytest.mark.parametrize("width", [1160, 340])
def test_the_picture(width: float) -> None:
    picture = scatter(decision(*ROWS), width)
    root = ET.fromstring(picture)
    circles = {one.get("class"): one for one in root.iter("circle")}
    assert [one.get("class") for one in root.iter("circle")].count("point") == 3
    assert "point hollow" in circles
    assert "chosen" in circles
    words = [one.text or "" for one in texts(picture)]
    assert {"fp32", "fp16", "fp8", "allowed: 0.005", "simulated"} <= set(words)
    assert "int8 \N{UPWARDS ARROW}0.30" in words  # far beyond the bound: at the edge, with its figure
    # the fastest that keeps something is joined with what loses less
    assert any(one.get("class") == "frontier" for one in root.iter("path"))


def test_latencies_far_apart_are_on_a_marked_logarithmic_axis() -> None:
    near, far = decision(ROWS[0], row("fp16", 0.001, 6)), decision(ROWS[0], row("fp16", 0.001, 0.1, "trt"))
    assert "(logarithmic)" not in scatter(near, 900)
    assert "(logarithmic)" in scatter(far, 900)


LOSS = st.floats(-1, 1).map(lambda value: round(value, 4))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(LOSS, st.none() | st.floats(0.01, 1000)), max_size=8),
    st.sampled_from([340.0, 1160.0]),
    st.sampled_from([0.0, 0.005, 0.5]),
)
def test_whatever_there_is_to_draw_is_drawn_inside(rows: list[Any], width: float, bound: float) -> None:
    made = [row(f"p{place}", loss, ms) for place, (loss, ms) in enumerate(rows)]
    root = ET.fromstring(scatter(decision(*made, max_loss=bound), width))
    height = float((root.get("viewBox") or "").split()[3])
    for circle in root.iter("circle"):
        assert 0 <= float(circle.get("cx") or -1) <= width
        assert 0 <= float(circle.get("cy") or -1) <= height
    for text in root.iter("text"):
        if text.get("transform") is None:
            assert -1 <= float(text.get("x") or -9) <= width
            assert 0 <= float(text.get("y") or -9) <= height


def test_damage_is_named(run: Path) -> None:
    document = json.loads((run / "decision.json").read_text())
    document["rows"][0]["score"]["value"] = "much"
    (run / "decision.json").write_text(json.dumps(document))
    with pytest.raises(UsageProblem, match=r"decision.json is damaged at rows.0.score.value"):
        write_report(run)
