"""docs/extending.md shows the files of tests/examples word for word, and they do what it says."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from tests.in_app import json_of, stdout_of, trtw
from tests.onnx_text import write_onnx
from tests.scripts import load_script
from typer import Typer
from typer.testing import CliRunner

from trt_workbench.backends import base
from trt_workbench.core.precision import STREAM, get
from trt_workbench.core.records import read_records

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "tests" / "examples"
FILES = sorted(path for path in EXAMPLES.rglob("*") if path.suffix in (".py", ".toml", ".yaml"))
SIZES = {"v": (32, 16), "w": (16, 8)}
MODEL = ROOT / "models" / "shapes-yolov10" / "shapes-yolov10.onnx"


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_the_page_shows_the_file(file: Path) -> None:
    shown = f"\n# {file.relative_to(EXAMPLES).as_posix()}\n{file.read_text()}```\n"
    assert shown in (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")


def test_the_example_of_the_protocol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outside_backend: Callable[..., None]
) -> None:
    """`backends/base.py` alone says how a backend is added."""
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    code = "\n".join(line[4:] for line in str(base.__doc__).splitlines() if line.startswith("    ") or not line)
    (tmp_path / "my_module.py").write_text(
        f"from {base.__name__} import Availability, Backend, Session, TensorSpec\n{code}"
    )
    outside_backend("doubling", "my_module:Doubling", tmp_path)
    model = write_onnx(tmp_path / "m.onnx", "g (float[N,3] x) => (float[N,3] y) { y = Add(x, x) }")
    np.save(tmp_path / "x.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    run = tmp_path / "run"
    stdout_of("infer-engine", model, "--backend", "doubling", "--input", f"x={tmp_path / 'x.npy'}", "--output", run)
    (found,) = run.glob("outputs/*/y.npy")
    np.testing.assert_array_equal(np.load(found), 2 * np.load(tmp_path / "x.npy"))


@pytest.mark.long
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


@pytest.mark.long
def test_a_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    shown = yaml.safe_load((EXAMPLES / "scenario" / "batches.yaml").read_text())
    quick = {"repetitions": 1, "measure": {"warmup_ms": 1, "duration_s": 0.01, "min_iterations": 1, "slices": 2}}
    (tmp_path / "bench.yaml").write_text(json.dumps({**shown, **quick}))
    stdout_of("bench", tmp_path / "bench.yaml", "--output", tmp_path / "run")
    records = read_records(tmp_path / "run" / "records.jsonl")
    assert {(one.scenario, one.swept["threads"], one.batch) for one in records} == {
        ("batches", threads, batch) for threads in (1, 2) for batch in (1, 2, 4)
    }


def _without(name: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Run a command in a process in which a row of the table was taken away before anything read it."""
    code = (
        "import sys\nfrom trt_workbench.core import precision\n"
        f"precision.FORMATS.remove(precision.get({name!r}))\n"
        "from trt_workbench.main import main\nmain()"
    )
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_a_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row alone makes it selectable, simulated and judged; without the row nothing knows it."""
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    row = load_script(EXAMPLES / "format" / "e5m2.py").ROW
    assert row == get(row.name)
    text = "g (float[N,32] x) => (float[N,8] y) { h = MatMul(x, v) r = Relu(h) y = MatMul(r, w) }"
    weights = {name: np.random.default_rng(0).normal(size=size).astype("f4") for name, size in SIZES.items()}
    model, made = write_onnx(tmp_path / "m.onnx", text, weights), tmp_path / "e5m2.onnx"
    quantize = ("quantize", model, "--to", row.name, "--calibration", "random", "--no-keep-sensitive", "-o", made)

    refused = _without(row.name, *quantize)
    assert (refused.returncode, "no target format 'fp8-e5m2'" in refused.stderr) == (2, True)
    assert "In fp8-e5m2: 100.0 % of the arithmetic" in stdout_of(*quantize)
    assert "float8e5m2, a format that the workbench does not know" in _without(row.name, "infer-engine", made).stderr

    x = np.random.default_rng(1).normal(size=(3, 32)).astype("f4")
    np.save(tmp_path / "x.npy", x)
    run = ("infer-engine", made, "--backend", "ort-cpu", "--input", tmp_path / "x.npy", "--no-bench")
    record = json_of(*run, "--output", tmp_path / "run", "--json")["provenance"]["precision_ran"]
    assert record["label"] == "fp8-e5m2 (simulated, not calibrated)"
    found = json_of("verify", made, "--backend", "ort-cpu", "--quick", "--output", tmp_path / "verify", "--json")
    assert found["precision"] == row.name
    (case, *_) = found["cases"]
    limits = case["outputs"][0]["limits"]
    assert limits["fp32"]["rel_l2"] < limits[row.name]["rel_l2"] < 0.25
    assert STREAM.limit(row.name) > STREAM.limit("fp8") / 2 > STREAM.limit("bf16")
