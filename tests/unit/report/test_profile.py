"""The page of a profile, from files alone."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trt_workbench.backends.profiling import Operation
from trt_workbench.core.documents import append_lines
from trt_workbench.core.environment import collect_environment
from trt_workbench.profile.document import Kernel, ProfileLine
from trt_workbench.profile.view import precision_of, role_rows, side_views, summary, totals
from trt_workbench.report.reports import write_report

FACTS = {
    "path": "/models/<b>.plan",
    "plan": "b",
    "backend": "trt",
    "precision": "fp16",
    "own_ms": 0.4,
    "commands": ["ncu --x"],
}


def layer(name: str, ms: float | None, side: str = "target", **more: Any) -> Operation:
    values = {"kind": "layer", "index": 0, "name": name, "side": side, "median_ms": ms, "mean_ms": ms, **more}
    return Operation.model_validate(values)


@pytest.fixture
def records() -> list[ProfileLine]:
    return [
        layer("conv", 0.3, onnx_nodes=["a", "b"], share=0.75, output_types=["fp16"]),
        layer("Reformatting <x> [y]", 0.1, role="reformat", serves="conv", input_types=["fp32"], output_types=["fp16"]),
        layer("constant", None, role="other"),
        layer("conv", 0.5, side="against", onnx_nodes=["a", "b"], share=1.0),
        Kernel(tool="ncu", name="k<1>", layer="conv", launches=2, total_ms=0.2, mean_ms=0.1, share=1.0,
               metrics={"dram__bytes_read.sum": 3 * 2.0**20}),
    ]  # fmt: skip


@pytest.fixture
def make_run(records: list[ProfileLine], tmp_path: Path) -> Callable[..., Path]:
    def make() -> Path:
        sides = {"target": FACTS, "against": {**FACTS, "precision": "fp32", "commands": []}}
        run = {
            "schema_version": 1,
            "command": "profile",
            "run_id": "r",
            "started_at": "2026-11-23T07:35:49+00:00",
            "status": "complete",
        }
        run["sides"] = sides
        (tmp_path / "run.json").write_text(json.dumps(run))
        (tmp_path / "env.json").write_text(json.dumps(collect_environment(["trtw", "profile", "a b.plan"])))
        append_lines(tmp_path / "records.jsonl", records)
        return tmp_path

    return make


def test_the_page_shows_layers_kernels_and_the_difference_with_names_escaped(make_run: Callable[..., Path]) -> None:
    page = write_report(make_run()).read_text()
    for text in (
        "Differences", "By role", "Reformatting &lt;x&gt; [y]", "fp32 to fp16", "k&lt;1&gt;", "3.00", "DRAM read, MiB",
        "1 without a time of their own", "ncu --x", "trtw profile &#39;a b.plan&#39;",
    ):  # fmt: skip
        assert text in page
    assert "<b>.plan" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_sentences_name_the_longest_the_overhead_and_the_difference(records: list[ProfileLine]) -> None:
    sides = side_views({"target": FACTS, "against": {**FACTS, "precision": "fp32"}}, records)
    from trt_workbench.profile.difference import difference

    text = " ".join(summary(sides, difference(sides[0].operations, sides[1].operations)))
    assert "with the profiler its 2 layers take 0.400 ms; the longest" in text
    assert "1 reformat layer: 0.100 ms (25.0 %): " in text
    assert "take 0.400 ms in total, the layers of" in text
    assert "a, b: 0.300 ms against 0.500 ms." in text
    assert "has the reformat Reformatting <x> [y] (0.100 ms)" in text
    assert "ncu recorded 1 kernel; layers known by NVTX range for 1" in text
    assert role_rows(sides) == [
        ("compute", [(1, 0.3), (1, 0.5)]), ("reformat", [(1, 0.1), (0, 0)]), ("other", [(1, 0.0), (0, 0)]),
    ]  # fmt: skip


def facts(name: str, own: tuple[float, float, float], profiled: tuple[float, float, float]) -> dict[str, Any]:
    times = {"own": own, "profiled": profiled}
    return {
        "path": f"/models/{name}.onnx", "backend": "ort-cpu", "precision": "as exported",
        **{f"{which}_ms": time[0] for which, time in times.items()},
        **{f"{which}_interval_ms": time[1:] for which, time in times.items()},
        **{f"{which}_interval_coverage": 0.978 for which in times},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        # the profiled sums claim the opposite of the times without the profiler
        (((16.6, 16.5, 16.7), (20.0, 19.8, 20.2)), ((17.2, 17.1, 17.3), (18.0, 17.9, 18.1)), "cannot answer which"),
        # the same direction, but three times as much
        (
            ((10.0, 9.9, 10.1), (12.0, 11.9, 12.1)),
            ((11.0, 10.9, 11.1), (18.0, 17.9, 18.1)),
            "cannot answer by how much one is faster:",
        ),
        (((10.0, 9.9, 10.1), (12.0, 11.0, 12.4)), ((11.0, 10.9, 11.1), (13.2, 12.9, 13.5)), "a.onnx (ort-cpu, as expo"),
        # neither: the intervals meet
        (((16.6, 15.9, 17.7), (20.0, 17.8, 20.2)), ((17.2, 16.1, 17.9), (20.5, 17.9, 21.1)), "neither is faster"),
    ],
)
def test_the_times_without_the_profiler_say_who_is_faster(first: Any, second: Any, said: str) -> None:
    text = summary(side_views({"target": facts("a", *first), "against": facts("b", *second)}, []), [])[0]
    assert said in text
    assert ("cannot answer" in text) is ("cannot answer" in said)
    if said != "neither is faster":
        assert "Without the profiler a.onnx (ort-cpu, as exported) is faster" in text
    assert f"{first[0][0]:.3f} ms (97 % interval {first[0][1]:.3f} to {first[0][2]:.3f})" in text


def test_without_a_time_of_its_own_nothing_is_claimed() -> None:
    sides = {
        "target": facts("a", (1, 1, 1), (1, 1, 1)),
        "against": {"path": "b", "backend": "torch", "precision": "fp32"},
    }
    assert "is not known" in summary(side_views(sides, []), [])[0]
    elsewhere = {"target": facts("a", (1, 1, 1), (1, 1, 1)), "against": facts("b", (2, 2, 2), (2, 2, 2))}
    elsewhere["against"]["other_machine"] = ["GPU: NVIDIA L4 against NVIDIA H200"]
    assert "from another machine (GPU: NVIDIA L4 against" in summary(side_views(elsewhere, []), [])[0]


def test_the_page_begins_with_totals_by_operator_and_precision(make_run: Callable[..., Path]) -> None:
    page = write_report(make_run()).read_text()
    assert page.index("by operator and precision") < page.index("Summary")
    assert page.count('<i style="width: 100.00%" title="') == 1


def test_totals_put_small_kinds_together() -> None:
    large = [layer(f"c{place}", 1.0, operator="Conv", output_types=["fp16"], share=0.099) for place in range(10)]
    small = [layer(f"s{place}", 0.001, operator=f"Tiny{place}", share=0.0001) for place in range(30)]
    cast = layer("cast", 0.5, operator="Cast", role="cast", input_types=["fp32"], output_types=["fp16"], share=0.05)
    other = [layer("c", 20.0, side="against", operator="Conv", output_types=["fp32"], share=1.0)]
    sides = side_views({"target": FACTS, "against": FACTS}, [*large, *small, cast, *other])
    rows = totals(sides)
    assert [(row.operator, row.precision, row.number) for row in rows] == [
        ("Conv", "fp32", [None, 1]),
        ("Conv", "fp16", [10, None]),
        ("Cast", "fp32 to fp16", [1, None]),
        ("all others", "30 kinds", [30, 0]),
    ]
    assert rows[1].time_ms[0] == pytest.approx(10)
    assert [round(width) for width in rows[1].widths] == [50, 0]
    assert len(sides[0].telling_of(sides[0].longest)) == 11
    assert precision_of(cast) == "fp32 to fp16"


def test_what_a_run_takes_without_the_profiler_comes_first() -> None:
    records = [layer("conv", 119.0, share=1.0)]
    timed = facts("a", (20.6, 20.1, 21.0), (119.0, 118.0, 120.0))
    (text,) = summary(side_views({"target": timed}, records), [])
    own = "one run takes 20.600 ms (97 % interval 20.100 to 21.000); "
    assert text.startswith(f"a.onnx (ort-cpu, as exported): {own}with the profiler its 1 nodes take 119.000 ms; ")
    unknown = {name: value for name, value in timed.items() if not name.startswith("own_")}
    (text,) = summary(side_views({"target": unknown}, records), [])
    assert text.startswith("a.onnx (ort-cpu, as exported): with the profiler its 1 nodes take 119.000 ms; ")
    (text,) = summary(side_views({"target": {**unknown, "own_ms": 20.6}}, records), [])  # of an earlier release
    assert "one run takes 20.600 ms (no interval); with" in text
