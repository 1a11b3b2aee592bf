"""Shards of a bench: whole sweeps, measured anywhere of one kind, in one report."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_bench import MEASURE, TWO_SWEEPS, write_config, write_model
from tests.cli.test_bench_input import doubled  # noqa: F401 - a fixture
from tests.in_app import json_of, measured, stderr_of, stdout_of
from tests.shards import edited, shards_of, with_other_digit
from tests.texts import held

from trt_workbench.bench.run import BenchRun
from trt_workbench.core.records import Record

pytestmark = pytest.mark.usefixtures("blank_pictures")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Two sweeps over a batch, on two runtimes."""
    return write_config(tmp_path, scenarios=TWO_SWEEPS)


def test_shards_are_whole_sweeps_and_merge_to_one_report(config: Path, tmp_path: Path) -> None:
    shards_of(("bench", config), 3, tmp_path / "shards")  # the last has nothing to measure
    words = ("bench", config, "--shard", "2/3", "--output", tmp_path / "shards" / "2")
    assert "already done" in stdout_of(*words)
    assert json.loads((tmp_path / "shards" / "1" / "shard.json").read_text())["unit"] == "sweep"
    stdout_of("merge", tmp_path / "shards", "-o", tmp_path / "merged")
    records = measured(tmp_path / "merged")
    listed = stdout_of("bench", config, "--dry-run").splitlines()
    assert {f"{one.scenario}/{one.work}/{one.runtime}" for one in records} == {*listed}
    assert len(records) == 2 * len(listed)
    assert len({(one.key, one.repetition) for one in records}) == len(records)
    for one in records:
        assert (tmp_path / "merged" / str(one.samples)).is_file()
    assert "Merged from 3 shards of 3." in (tmp_path / "merged" / "report.html").read_text()
    parts = [stdout_of("bench", config, "--dry-run", "--shard", f"{index}/3").splitlines() for index in range(3)]
    assert [line for part in parts for line in part] == listed


@pytest.mark.long
@pytest.mark.usefixtures("doubled")
def test_several_builds_of_shards_are_those_of_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All builds of a model are in one shard, where they take turns; engines are in the cache of the first run."""
    monkeypatch.setenv("TRTW_DOUBLE_BUILDS", "1.2,1.0,1.4")
    monkeypatch.setenv("TRTW_DOUBLE_LOG", str(tmp_path / "log"))
    write_model(tmp_path / "a.onnx")
    write_model(tmp_path / "b.onnx", axis=1)
    config = tmp_path / "bench.yaml"
    config.write_text(
        MEASURE
        + "models: {a: {path: a.onnx}, b: {path: b.onnx}}\n"
        + "runtimes: [{backend: trt}]\nscenarios: {s: {kind: arrays}}\n"
    )
    words = ("bench", config, "--builds", 3)
    stdout_of(*words, "--output", tmp_path / "one")
    for index in range(2):
        stdout_of(*words, "--shard", f"{index}/2", "--output", tmp_path / "shards" / str(index))
    printed = stdout_of("merge", tmp_path / "shards", "-o", tmp_path / "merged")
    assert len((tmp_path / "log").read_text().splitlines()) == 6
    one, merged = (json.loads((tmp_path / name / "builds.json").read_text()) for name in ("one", "merged"))
    assert merged == one
    assert [group["label"] for group in merged["groups"]] == ["s, a b1, trt", "s, b b1, trt"]
    assert "3 builds without each other's timings: 1.300 to 1.700 ms" in " ".join(printed.split())
    assert "Several builds: s, b b1, trt" in (tmp_path / "merged" / "report.html").read_text()


@pytest.mark.long
def test_what_is_missing_is_said_and_changes_are_found(config: Path, tmp_path: Path) -> None:
    stdout_of("bench", config, "--shard", "0/2", "--output", tmp_path / "0")
    held(stderr_of("merge", tmp_path / "0", "-o", tmp_path / "merged"))
    assert json_of("merge", tmp_path / "0", "-o", tmp_path / "merged", "--partial")["shards"]["missing"] == [1]
    assert "Missing or half done: 1/2." in (tmp_path / "merged" / "report.html").read_text()
    with_other_digit(tmp_path / "0" / "records.jsonl", '_ms": ')
    held(stderr_of("merge", tmp_path / "0", "-o", tmp_path / "merged", "--partial"))
    (tmp_path / "0" / "records.jsonl").write_text("")
    edited(tmp_path / "0")
    held(stderr_of("merge", tmp_path / "0", "-o", tmp_path / "merged", "--partial"))
    held(stderr_of("bench", config, "--shard", "0/2"))


@pytest.mark.long
def test_shards_of_other_configurations_are_refused(config: Path, tmp_path: Path) -> None:
    stdout_of("bench", config, "--shard", "0/2", "--output", tmp_path / "0")
    config.write_text(config.read_text().replace("batch: [3]", "batch: [4]"))
    stdout_of("bench", config, "--shard", "1/2", "--output", tmp_path / "1")
    held(stderr_of("merge", tmp_path / "0", tmp_path / "1", "-o", tmp_path / "merged"))


@pytest.mark.long
def test_a_shard_that_is_interrupted_keeps_what_it_measured(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, kept = BenchRun._record, list[int]()

    def interrupted(*arguments: Any, **values: Any) -> Record:
        found = record(*arguments, **values)
        kept.append(1)
        if len(kept) == 2:
            raise KeyboardInterrupt
        return found

    words = ("bench", config, "--shard", "0/2", "--output", tmp_path / "0")
    monkeypatch.setattr(BenchRun, "_record", interrupted)
    assert f"0 of 1 sweep of shard 0/2; continue with `… --output {tmp_path / '0'}`" in stderr_of(*words, code=130)
    monkeypatch.undo()
    assert len(measured(tmp_path / "0")) == 1
    stdout_of("merge", tmp_path / "0", "-o", tmp_path / "merged", "--partial")
    assert len(measured(tmp_path / "merged")) == 1
    (kept_record,) = measured(tmp_path / "0")
    assert "is done" in stdout_of(*words)
    assert kept_record in measured(tmp_path / "0")  # it goes on
