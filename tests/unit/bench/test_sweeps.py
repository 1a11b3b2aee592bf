"""What a bench report draws: every axis that was varied, panels and curves that a person can tell apart."""

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from trt_workbench.bench.plots import MOST_CURVES, MOST_PANELS, find_sweeps, write_plots
from trt_workbench.bench.view import WorkTable, tables, winners
from trt_workbench.core.artefacts import BenchArtefacts, BenchSettings, Environment, RunDocument
from trt_workbench.core.records import Record

RUNTIMES = {
    "trt-fp16": 1.0,
    "trt-fp32": 1.8,
    "ort-trt-fp16": 1.2,
    "ort-cuda-fp32 cudnn_conv_algo_search=EXHAUSTIVE": 2.6,
    "torch-fp32": 4.0,
    "torch-compile-fp32 mode=max-autotune": 2.2,
}


def records(
    work: dict[str, Any], runtime: str, milliseconds: float, swept: dict[str, Any] | None = None
) -> Iterator[Record]:
    draw = random.Random(f"{work} {runtime}")
    label = runtime + "".join(f" {name}={value}" for name, value in (swept or {}).items())
    batch, dims, imgsz = work.get("batch", 1), work.get("dims", {}), work.get("imgsz")
    for repetition in range(9):
        p50 = milliseconds * draw.gauss(1, 0.005)
        latency = {"mean": p50, "p50": p50, "p90": p50, "p95": p50, "p99": p50, "min": p50, "max": p50, "count": 1000}
        yield Record(
            key="0", scenario="s", kind="arrays", model="m", model_sha256=None, work=f"m b{batch} {dims} {imgsz}",
            batch=batch, dims=dims, imgsz=imgsz, runtime=label, entry=runtime, swept=swept or {}, backend="trt",
            precision="fp32", repetition=repetition, status="ok", latency_ms=latency, items_per_s=batch / p50,
        )  # fmt: skip


RUN = RunDocument(command="bench", run_id="r", started_at="2026-11-23T07:35:49+00:00", status="complete")


def run_of(measured: list[Record]) -> BenchArtefacts:
    return BenchArtefacts(Path(), RUN, Environment(command_line=[]), BenchSettings(title="t", repetitions=9), measured)


def made(*works: dict[str, Any], runtimes: dict[str, float] = RUNTIMES) -> list[WorkTable]:
    found = [
        one
        for work in works
        for runtime, factor in runtimes.items()
        for one in records(work, runtime, factor * (1 + 0.1 * work.get("batch", 1)))
    ]
    return tables(run_of(found))


def test_lengths_and_batches_are_two_axes_with_panels_of_the_other() -> None:
    works = [{"batch": batch, "dims": {"sequence": length}} for batch in (1, 8) for length in (16, 32, 64, 128, 512)]
    by_axis = {sweep.axis: sweep for sweep in find_sweeps(made(*works))}
    assert by_axis.keys() == {"batch", "sequence"}
    lengths = by_axis["sequence"]
    assert [panel.title for panel in lengths.panels] == ["batch=1", "batch=8"]
    assert [one.value for one in lengths.panels[0].curves["trt-fp16"]] == [16, 32, 64, 128, 512]
    assert lengths.is_numeric
    assert len(by_axis["batch"].panels) == MOST_PANELS
    assert by_axis["batch"].settings == 5
    assert by_axis["batch"].panels[-1].title == "sequence=512"


def test_image_sizes_are_numbers_where_they_are_square() -> None:
    square, wide = [(320, 320), (640, 640)], [(320, 640), (720, 1280)]
    assert find_sweeps(made(*[{"imgsz": size} for size in square]))[0].is_numeric
    (sweep,) = find_sweeps(made(*[{"imgsz": size} for size in wide]))
    assert not sweep.is_numeric
    assert [one.text for one in sweep.panels[0].curves["trt-fp16"]] == ["320x640", "720x1280"]


def test_settings_of_a_runtime_are_axes() -> None:
    found: list[Record] = []
    for level in (1, 3, 5):
        for graph in (True, False):
            found += records({}, "trt", 2.0 - 0.1 * level, {"optimization_level": level, "cuda_graph": graph})
    found += records({}, "torch", 4.0)
    by_axis = {sweep.axis: sweep for sweep in find_sweeps(tables(run_of(found)))}
    assert by_axis.keys() == {"optimization_level", "cuda_graph"}
    assert set(by_axis["optimization_level"].panels[0].curves) == {"trt cuda_graph=on", "trt cuda_graph=off"}
    assert {one.text for one in by_axis["cuda_graph"].panels[0].curves["trt optimization_level=1"]} == {"on", "off"}
    assert not by_axis["cuda_graph"].is_numeric


def test_nothing_varied_is_no_sweep() -> None:
    assert find_sweeps(made({})) == []


def test_the_fastest_of_many_curves_are_kept() -> None:
    many = {f"runtime-{index:02}": 30.0 - index for index in range(20)}
    (sweep,) = find_sweeps(made({"batch": 1}, {"batch": 2}, runtimes=many))
    assert sweep.curves == 20
    assert set(sweep.panels[0].curves) == {f"runtime-{index:02}" for index in range(20 - MOST_CURVES, 20)}


@pytest.mark.parametrize(
    ("works", "expected"),
    [
        ([{"batch": batch} for batch in (1, 2, 4)], {"throughput", "latency", "bars"}),
        ([{"dims": {"sequence": length}} for length in (16, 128)], {"latency", "bars"}),
        ([{}], {"bars"}),
        ([{"batch": batch} for batch in range(1, 9)], {"throughput", "latency"}),  # too many bars to read
    ],
)
def test_pictures(tmp_path: Path, works: list[dict[str, Any]], expected: set[str]) -> None:
    paths = write_plots(made(*works), tmp_path / "plots")
    assert {path.stem.rsplit("-", 1)[1] for path in paths.values()} == expected
    assert set(paths.values()) == set((tmp_path / "plots").iterdir())
    for path in paths.values():
        picture = ElementTree.fromstring(path.read_text(encoding="utf-8"))
        assert picture.get("width") == "374pt"  # 5.2 inches, whatever the labels: text that a phone can show
        assert {"series-1", "series-2"} <= set(re.findall(r"var\(--([a-z0-9-]+)", path.read_text(encoding="utf-8")))
        titles = [one.text or "" for one in picture.iter("{http://www.w3.org/2000/svg}title")]
        assert len(titles) >= len(works)
        assert all(" ms" in one or "items/s" in one for one in titles)


def test_who_wins_where() -> None:
    (won,) = winners(made({}, runtimes={"fast": 1.0, "same": 1.001, "slow": 1.5}))
    assert (won.fastest, won.tied, won.next) in [("fast", ["same"], "slow"), ("same", ["fast"], "slow")]
    assert won.against_next.ratio_low < 1.5 < won.against_next.ratio_high * 1.01
    (alone,) = winners(made({}, runtimes={"fast": 1.0}))
    assert (alone.tied, alone.next, alone.against_next) == ([], None, None)
