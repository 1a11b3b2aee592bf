"""`report FOLDER`: many runs over dates or commits."""

import json
import random
import re
import shutil
from pathlib import Path

import pytest
from tests.in_app import json_of, stderr_of
from tests.run_folders import bench_folder, run_folder, scored_folder, upgrade_folder
from tests.texts import held, refused

from trt_workbench.bench.ranking import judge, kept_records
from trt_workbench.core import extensions
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.records import read_records
from trt_workbench.core.statistics.comparison import ALPHA
from trt_workbench_history.run import History, write_history


def day(number: int) -> str:
    return f"2026-10-{number + 1:02}T12:00:00+00:00"


def times(level: float, seed: int) -> list[float]:
    draw = random.Random(seed)
    return [level * draw.gauss(1, 0.003) for _ in range(9)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten nights: `trt` is slower from the seventh on, `ort-cpu` never; a score falls on the fifth."""
    for night in range(10):
        medians = {"trt": times(1.0 if night < 6 else 1.1, night), "ort-cpu": times(5.0, 100 + night)}
        bench_folder(tmp_path / "runs/bench" / f"n{night}", medians, day(night), f"{night:x}" * 40)
        ap = 0.5 if night < 4 else 0.4
        scored_folder(
            tmp_path / "runs/eval-coco" / f"n{night}", ap, (ap - 0.02, ap + 0.02), day(night), f"{night:x}" * 40
        )
    return tmp_path / "runs"


def test_changes_are_named_and_drawn(folder: Path) -> None:
    page = write_history(folder, folder, "dates")
    text = page.read_text(encoding="utf-8")
    history = History.model_validate_json((folder / "history.json").read_text())
    changed = {series.name: series.changes for series in history.series if series.changes}
    assert set(changed) == {"arrays / m b1 / trt: latency", "arrays / m b1 / trt: throughput", "m / ort-cpu / fp32: AP"}
    latency = changed["arrays / m b1 / trt: latency"][0]
    assert (latency.started_at, latency.outcome, latency.confirmed) == (day(6), "regression", True)
    assert changed["m / ort-cpu / fp32: AP"][0].started_at == day(4)
    assert history.runs == 20
    assert len(history.series) == 5
    held(*[line for line in text.splitlines() if "the level before" in line and "From" in line])
    assert text.count('<figure class="scroll">') == 5
    assert "regression, " in text


def test_runs_without_figures_to_follow_are_listed_with_what_they_found(folder: Path) -> None:
    check = {"name": "score", "passed": False, "exit_code": 1, "text": "", "report": None, "seconds": 1}
    gate = {"schema_version": 1, "model": "m.onnx", "passed": False, "checks": [check]}
    run = run_folder(folder / "gate/night", "gate", day(11), gate=gate)
    (run / "report.html").touch()
    text = write_history(folder, folder, "dates").read_text(encoding="utf-8")
    history = History.model_validate_json((folder / "history.json").read_text())
    assert (history.runs, history.left_out) == (21, [])
    assert [(one.command, one.verdict) for one in history.answers if one.run_id == "night"] == [("gate", "failed")]
    row = text[text.index("The runs</h2>") :]
    assert row.index("2026-10-12 12:00 UTC") < row.index("2026-10-10 12:00 UTC")  # the newest first
    assert '<a href="gate/night/report.html">gate</a><span class="soft">night</span>' in row
    assert '<td class="text"><span class="pill bad">failed</span>' in row
    assert '<section class="verdict bad">\n<p><span class="pill bad">regression</span></p>' in text
    lines = text[text.index("Every metric</h2>") :]
    assert lines.count("<polyline") == len(history.series) == 5


def test_nightly_upgrades_are_followed(tmp_path: Path) -> None:
    """The first night is the record; each night's new stack is a point, its turns are its repetitions."""
    for night in range(10):
        level = 1.0 if night < 6 else 1.1
        upgrade_folder(tmp_path / f"n{night}", times(level, night), day(night), recorded=night == 0)
    write_history(tmp_path, tmp_path, "dates")
    history = History.model_validate_json((tmp_path / "history.json").read_text())
    assert {series.command for series in history.series} == {"upgrade"}
    found = {series.name: series for series in history.series}
    assert set(found) == {
        "m / arrays / m b1 / ort-cpu: latency",
        "m / arrays / m b1 / ort-cpu: throughput",
        "m / ort-cpu / fp32: AP",
    }
    latency = found["m / arrays / m b1 / ort-cpu: latency"]
    assert [point.run_id for point in latency.points] == [f"n{night}" for night in range(10)]
    assert [(change.started_at, change.outcome, change.confirmed) for change in latency.changes] == [
        (day(6), "regression", True)
    ]
    assert not found["m / ort-cpu / fp32: AP"].changes
    assert history.left_out == []


def test_a_score_of_the_users_is_followed(tmp_path: Path) -> None:
    """Alone, and in each night's upgrade; a lower one is better here, so that it improves on the fifth night."""
    for night in range(10):
        value = 0.3 if night < 4 else 0.2
        score = {"value": value, "ci95": [value - 0.01, value + 0.01], "loss": 0, "loss_ci95": None}
        metrics = {
            "schema_version": 1, "model": "m.onnx", "model_sha256": "0" * 64, "backend": "ort-cpu",
            "settings": {"precision": "fp32", "options": {}, "batch": 1, "seed": 0}, "provenance": {},
            "verification": None, "figure": "abs_rel", "better": "lower", "score": score, "data": "val.npz",
            "data_sha256": "1" * 64, "samples": 64, "available": 64,
        }  # fmt: skip
        run_folder(tmp_path / "eval" / f"n{night}", "eval-vision", day(night), metrics=metrics)
        place = upgrade_folder(tmp_path / "upgrade" / f"u{night}", [], day(night)) / "after" / "m" / "score"
        shutil.rmtree(place)
        run_folder(place, "eval-vision", day(night), metrics=metrics)
    write_history(tmp_path, tmp_path, "dates")
    history = History.model_validate_json((tmp_path / "history.json").read_text())
    assert history.left_out == []
    assert {(one.command, one.name) for one in history.series} == {
        ("eval-vision", "m / ort-cpu / fp32: abs_rel"), ("upgrade", "m / ort-cpu / fp32: abs_rel"),
    }  # fmt: skip
    changed = [(change.started_at, change.outcome) for one in history.series for change in one.changes]
    assert changed == [(day(4), "improvement")] * 2


@pytest.mark.long
def test_commits_come_together(folder: Path) -> None:
    """A commit that was measured again later stands where it was first measured."""
    bench_folder(folder / "bench" / "again", {"trt": times(1.0, 7), "ort-cpu": times(5.0, 8)}, day(11), "2" * 40)
    write_history(folder, folder, "commits")
    history = History.model_validate_json((folder / "history.json").read_text())
    latency = next(series for series in history.series if series.name.endswith("trt: latency"))
    assert [point.run_id for point in latency.points][2:5] == ["n2", "again", "n3"]
    assert [change.commit for change in latency.changes] == ["666666666666"]
    assert latency.changes[0].run_id == "n6"


def test_machines_are_never_mixed(tmp_path: Path) -> None:
    for night in range(4):
        run = bench_folder(tmp_path / f"n{night}", {"trt": times(1.0 + night % 2, night)}, day(night))
        if night % 2:
            environment = json.loads((run / "env.json").read_text())
            environment["cpu"]["model"] = "another processor"
            (run / "env.json").write_text(json.dumps(environment))
    write_history(tmp_path, tmp_path, "dates")
    history = History.model_validate_json((tmp_path / "history.json").read_text())
    assert [len(series.points) for series in history.series] == [2, 2, 2, 2]
    assert not any(series.changes for series in history.series)


@pytest.mark.long
def test_runs_of_too_few_repetitions_have_nothing_to_compare(tmp_path: Path) -> None:
    for night in range(3):
        bench_folder(tmp_path / f"n{night}", {"trt": [1.0 + night]}, day(night))
    page = write_history(tmp_path, tmp_path, "dates").read_text(encoding="utf-8")
    assert '<span class="pill plain">nothing to compare</span>' in page
    assert "Nothing to compare." in page
    assert "intervals or stable times are missing: 2 of 2 metrics of several runs." in page
    for night in range(3):
        bench_folder(tmp_path / f"m{night}", {"torch": times(1.0, night), "ort-cpu": [1.0]}, day(night + 3))
    page = write_history(tmp_path, tmp_path, "dates").read_text(encoding="utf-8")
    assert "No change was found in 2 metrics." in page
    assert "Not compared, as intervals or stable times are missing: 4 of 6 metrics of several runs." in page
    assert "nothing to compare" not in page


def test_a_history_judges_two_runs_as_compare_does(tmp_path: Path) -> None:
    runs = [
        bench_folder(tmp_path / f"n{night}", {"trt": times(1.0 + 0.1 * night, night)}, day(night)) for night in (0, 1)
    ]
    write_history(tmp_path, tmp_path, "dates")
    series = History.model_validate_json((tmp_path / "history.json").read_text()).series
    (change,) = next(one.changes for one in series if one.figure == "latency")
    before, after = (kept_records(read_records(run / "records.jsonl"))["trt"] for run in runs)
    made = judge(before, after, 1 - ALPHA / len(series), one_run=False)
    assert (change.ratio, change.low, change.high) == (made.ratio, made.ratio_low, made.ratio_high)


@pytest.mark.long
def test_a_run_that_cannot_be_read_fails_the_command(folder: Path) -> None:
    (folder / "bench/n3/records.jsonl").write_text("{")
    said = stderr_of("report", folder, code=1)
    assert "1 run could not be read; the first: This line is not JSON" in said
    assert (folder / "history.html").is_file()


def test_a_run_whose_plug_in_is_absent_leaves_the_others_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored_folder(tmp_path / "scored", 0.5, (0.48, 0.52), day(0))
    run_folder(tmp_path / "spoken", "eval-speech", day(1))
    every = extensions._entries
    monkeypatch.setattr(
        extensions, "_entries", lambda *of: tuple(one for one in every(*of) if one.name != "eval-speech report")
    )
    said = stderr_of("report", tmp_path, code=1)
    assert "1 run could not be read; the first: The report of `eval-speech` is not available." in said
    assert (tmp_path / "history.html").is_file()


@pytest.mark.long
def test_what_is_damaged_early_or_a_shard_is_left_out(folder: Path) -> None:
    (folder / "bench/n3/records.jsonl").write_text("{")
    run = folder / "bench/n4/run.json"
    run.write_text(run.read_text().replace(day(4), "2999-01-01T00:00:00+00:00"))
    (folder / "eval-coco/n5/shard.json").write_text("{}")
    for night, moment in ((6, "2026-01-01T00:00:00"), (7, "0001-01-01T00:00:00+00:00"), (8, "yesterday")):
        run = folder / f"bench/n{night}/run.json"
        run.write_text(run.read_text().replace(day(night), moment))
    page = write_history(folder, folder, "dates").read_text(encoding="utf-8")
    history = History.model_validate_json((folder / "history.json").read_text())
    assert history.runs == 14
    held(*history.left_out)
    assert "Left out" in page


@pytest.mark.long
def test_files_of_others_are_left_alone(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.mkdir()
    for name in ("history.json", "history.html"):
        (output / name).write_text('{"mine": 1}')
        with refused(UsageProblem):
            write_history(folder, output, "dates")
        assert [(one.name, one.read_text()) for one in output.iterdir()] == [(name, '{"mine": 1}')]
        (output / name).unlink()
    for _ in range(2):
        write_history(folder, output, "dates")


def test_nothing_to_follow_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    assert "run.json" in stderr_of("report", tmp_path)  # no run directory, and a folder of none
    (tmp_path / "one/run.json").write_text("{}")
    with refused(UsageProblem):
        write_history(tmp_path, tmp_path, "dates")


def test_a_page_of_another_is_left_alone(folder: Path) -> None:
    (folder / "history.html").write_text("mine")
    with refused(UsageProblem):
        write_history(folder, folder, "dates")


@pytest.mark.long
def test_the_command_takes_a_folder(folder: Path, tmp_path: Path) -> None:
    assert json_of("report", folder, "--over", "commits", "--output", tmp_path / "page") == [
        str(tmp_path / "page/history.html")
    ]
    assert "takes the history of one folder" in stderr_of("report", folder, folder, "--output", tmp_path / "page")


def test_runs_of_several_nights_are_lines(tmp_path: Path) -> None:
    nights = [(1.0, ()), (1.01, ()), (1.3, ("the median moved",)), (1.02, ())]
    for number, (ms, doubts) in enumerate(nights):
        bench_folder(
            tmp_path / f"n{number}", {"a": [ms] * 9}, f"2026-11-2{number}T12:00:00+00:00", unstable=list(doubts)
        )
    page = write_history(tmp_path, tmp_path, "dates").read_text(encoding="utf-8")
    section = page[page.index("run after run") :]
    line = section[section.index("<svg") : section.index("</svg>")]
    assert "bench arrays / m b1 / a: latency" in section
    assert line.count("<circle") == 4
    assert line.count('fill="var(--panel)"') == 1  # the unstable night, which the line leaves out
    points = re.search(r'points="([^"]*)"', line)
    assert points
    assert len(points[1].split()) == 3
    assert "<title>2026-11-21, n1: 1.01 ms</title>" in line
