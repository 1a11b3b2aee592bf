"""`export`: each format is read back by what others read it with."""

import json
import sys
from pathlib import Path

import jsonschema
import pytest
from tests.in_app import json_of, stderr_of
from tests.run_folders import bench_folder, run_folder, scored_folder, upgrade_folder
from tests.texts import held

# https://bencher.dev/docs/reference/bencher-metric-format
BENCHER_SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema",
    "type": "object",
    "patternProperties": {
        ".+": {
            "type": "object",
            "patternProperties": {
                ".+": {
                    "type": "object",
                    "properties": {name: {"type": "number"} for name in ("value", "lower_value", "upper_value")},
                    "required": ["value"],
                }
            },
        }
    },
}
TIMES = [2.0 + 0.01 * number for number in range(9)]
DAY = "2026-10-01T12:00:00+00:00"


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    return bench_folder(tmp_path / "bench", {'a "b"\\c': TIMES, "ort-cpu": [5.0]}, DAY, "c" * 40)


@pytest.fixture
def scored(tmp_path: Path) -> Path:
    return scored_folder(tmp_path / "scored", 0.5, (0.45, 0.55), DAY)


def exported(run: Path, to: str, output: Path) -> dict[str, str]:
    files = [Path(name) for name in json_of("export", run, "--to", to, "--output", output)]
    return {file.name: file.read_text(encoding="utf-8") for file in files}


def test_bencher(bench: Path, tmp_path: Path) -> None:
    document = json.loads(exported(bench, "bencher", tmp_path / "o")["bencher.json"])
    jsonschema.validate(document, BENCHER_SCHEMA)
    latency = document['arrays / m b1 / a "b"\\c']["latency"]
    assert latency["value"] == pytest.approx(2.04e6)  # nanoseconds
    assert latency["lower_value"] < latency["value"] < latency["upper_value"]
    assert document["arrays / m b1 / ort-cpu"]["latency"] == {"value": 5e6}  # one repetition has no interval
    assert document["arrays / m b1 / ort-cpu"]["throughput"] == {"value": 200.0}


def test_an_upgrade_gives_the_figures_of_the_new_stack(tmp_path: Path) -> None:
    run = upgrade_folder(tmp_path / "upgrade", TIMES, DAY)
    document = json.loads(exported(run, "bencher", tmp_path / "o")["bencher.json"])
    jsonschema.validate(document, BENCHER_SCHEMA)
    assert document["m / arrays / m b1 / ort-cpu"]["latency"]["value"] == pytest.approx(2.04e6)
    assert document["m / ort-cpu / fp32"]["ap"]["value"] == 0.5


def test_a_score_of_bencher_has_its_interval(scored: Path, tmp_path: Path) -> None:
    document = json.loads(exported(scored, "bencher", tmp_path / "o")["bencher.json"])
    assert document == {"m / ort-cpu / fp32": {"ap": {"value": 0.5, "lower_value": 0.45, "upper_value": 0.55}}}


def test_github_action_benchmark_has_a_file_for_each_direction(bench: Path, scored: Path, tmp_path: Path) -> None:
    files = exported(bench, "github-action-benchmark", tmp_path / "o")
    assert set(files) == {"customSmallerIsBetter.json", "customBiggerIsBetter.json"}
    entry = json.loads(files["customSmallerIsBetter.json"])[0]
    assert {name: type(value) for name, value in entry.items()} == {
        "name": str, "unit": str, "value": float, "extra": str, "range": str
    }  # fmt: skip
    assert (entry["unit"], entry["value"], entry["range"]) == ("ms", pytest.approx(2.04), "± 0.03")
    assert set(exported(scored, "github-action-benchmark", tmp_path / "s")) == {"customBiggerIsBetter.json"}


@pytest.mark.readers
def test_parquet(bench: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    files = json_of("export", bench, "--to", "parquet", "--output", tmp_path / "o")
    table = parquet.read_table(files[0])
    assert table.num_rows == 10
    assert table.column("latency_ms_p50").to_pylist() == [*TIMES, 5.0]
    assert str(table.schema.field("latency_ms_p50").type) == "double"
    assert str(table.schema.field("repetition").type) == "int64"
    assert set(table.column("run_id").to_pylist()) == {"bench"}
    assert table.column("unstable").to_pylist()[0] == "[]"


def test_without_pyarrow_the_package_is_named(bench: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)  # which another test may have imported
    held(stderr_of("export", bench, "--to", "parquet", code=3).replace("pip install", "INSTALL"))


def test_what_cannot_be_exported_is_refused(bench: Path, tmp_path: Path) -> None:
    held(stderr_of("export", run_folder(tmp_path / "p", "profile", DAY), "--to", "bencher"))
    held(stderr_of("export", tmp_path / "absent", "--to", "bencher"))
    (tmp_path / "o").mkdir()
    (tmp_path / "o/bencher.json").write_text("mine")
    held(stderr_of("export", bench, "--to", "bencher", "--output", tmp_path / "o"))
    held(stderr_of("export", bench, "--to", "bencher", "--output", tmp_path / "o/bencher.json"))
    failed = bench_folder(tmp_path / "failed", {}, DAY)
    (failed / "records.jsonl").write_text("")
    held(stderr_of("export", failed, "--to", "bencher"))


def test_the_same_file_is_replaced(bench: Path, scored: Path, tmp_path: Path) -> None:
    for to in ("bencher", "github-action-benchmark"):
        assert exported(bench, to, tmp_path / "o") != exported(scored, to, tmp_path / "o")
