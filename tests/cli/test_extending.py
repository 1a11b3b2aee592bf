"""docs/extending.md shows the files of tests/examples word for word, and they do what it says."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.in_app import stdout_of, trtw
from tests.scripts import load_script
from typer import Typer
from typer.testing import CliRunner

from trt_workbench.runs.records import read_records

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "tests" / "examples"
FILES = sorted(path for path in EXAMPLES.rglob("*") if path.suffix in (".py", ".toml", ".yaml"))
MODEL = ROOT / "models" / "shapes-yolov10" / "shapes-yolov10.onnx"


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_the_page_shows_the_file(file: Path) -> None:
    shown = f"\n# {file.relative_to(EXAMPLES).as_posix()}\n{file.read_text()}```\n"
    assert shown in (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")


def test_a_precision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outside_backend: Callable[..., None]) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    folders = (EXAMPLES / "backend", EXAMPLES / "precision")
    outside_backend("my-half-runtime", "my_half_runtime:MyHalfBackend", *folders)
    run = ("infer-engine", str(MODEL), "--backend", "my-half-runtime", "--output", str(tmp_path / "run"))
    assert trtw(*run, "--precision", "fp16").exit_code == 0
    provenance = json.loads((tmp_path / "run" / "metrics.json").read_text())["provenance"]
    assert (provenance["precision"], provenance["device"]) == ("fp16", "cpu")
    refused = trtw(*run, "--precision", "bf16")
    assert (refused.exit_code, "runs fp32 or fp16, not 'bf16'" in " ".join(refused.stderr.split())) == (2, True)


def test_a_command() -> None:
    module = load_script(EXAMPLES / "command" / "count_nodes.py")
    own = Typer()
    own.command("count-nodes")(module.count_nodes)
    assert json.loads(CliRunner().invoke(own, [str(MODEL), "--json"]).stdout)["Conv"] > 10
    assert " Conv\n" in CliRunner().invoke(own, [str(MODEL)]).stdout
    assert CliRunner().invoke(own, ["absent.onnx"]).exit_code == 2


def test_a_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    shown = yaml.safe_load((EXAMPLES / "scenario" / "batches.yaml").read_text())
    quick = {"repetitions": 1, "measure": {"warmup_ms": 1, "duration_s": 0.01, "min_iterations": 1}}
    (tmp_path / "bench.yaml").write_text(json.dumps({**shown, **quick}))
    stdout_of("bench", tmp_path / "bench.yaml", "--output", tmp_path / "run")
    records = read_records(tmp_path / "run" / "records.jsonl")
    assert {(one.scenario, one.swept["threads"], one.batch) for one in records} == {
        ("batches", threads, batch) for threads in (1, 2) for batch in (1, 2, 4)
    }
