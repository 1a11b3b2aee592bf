"""The package on its own: installed apart, and every command run in a folder without a repository above it."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import cv2
import numpy as np
import pytest
from tests.onnx_text import write_onnx

pytestmark = pytest.mark.long

PROJECT = Path(__file__).parents[2] / "python"
PLUG_INS = sorted((PROJECT / "plugins").iterdir())
# Beside the interpreter, whether its environment is on the PATH or not.
UV = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])) or "uv"

# Every command, on files of the user's own or an embedded model, and the exit codes that it may have. Without PyTorch:
# its import would take longer than all of them.
COMMANDS: dict[str, tuple[int, ...]] = {
    "doctor": (0,),
    "backends": (0,),
    "inspect tiny-lm": (0,),
    "inspect shapes-yolov10": (0,),
    "infer-engine m.onnx --backend ort-cpu --input x.npy": (0,),
    "infer-engine shapes-yolov10 --backend ort-cpu --shape images:1x3x320x320 --iterations 2 --duration 0": (0,),
    "eval-coco --limit 2 --backend ort-cpu --output coco": (0,),
    "eval-vision shapes-segmenter --limit 2 --backend ort-cpu --output masks --no-report": (0,),
    "eval-vision shapes-classifier --limit 2 --backend ort-cpu --output classes --no-report": (0,),
    "predict shapes-yolov10 d.png": (0,),
    "eval-stream --chunks 4 --backend ort-cpu": (0,),
    "eval-speech --utterances 2 --backend ort-cpu --no-report": (0,),
    "check-contract streaming-encoder streaming-encoder --backend ort-cpu --chunks 4": (0,),
    "make-contract streaming-encoder -o draft.json": (0,),
    "bench bench.yaml --output bench": (0,),
    "compare bench bench": (0,),
    "report bench coco": (0,),
    "eval-coco --limit 2 --shard 0/1 --output shard --no-report": (0,),
    "merge shard -o merged --no-report": (0,),
    "submit run.yaml --to slurm": (0,),
    "gate gate.yaml": (0,),
    "profile m.onnx --backend ort-cpu --iterations 2 --warmup 1": (0,),
    "partitions shapes-yolov10 --backend ort-cpu": (0,),
    "sanitize-onnx m.onnx -o sane.onnx": (0,),
    "quantize m.onnx --to int8 --calibration x.npy": (0,),
    "sensitivity m.onnx --to int8 --calibration x.npy": (0,),
    "verify m.onnx --backend ort-cpu --quick": (0, 1, 2),  # beside itself, as there is no other runtime
    "decide m.onnx --data x.npy --score cosine --precisions fp32,int8 --no-search --repetitions 0": (0, 1),
    "build-engine m.onnx --max-batch 2 --dry-run": (0,),
    "inspect fake.plan": (2, 3),
    "refit-engine fake.plan m.onnx -o refitted.plan": (2, 3),
    "eval-llm --limit 40 --window 16 --backends ort-cpu": (3,),
    "export-llm tiny-lm -o exported": (3,),
    "upgrade m.onnx --to . --backend ort-cpu --quick --repetitions 0": (0, 1),  # random inputs may not decide
    "check-target m.onnx --gpu rtx5090 --max-batch 2": (0, 3),
    "export-triton m.onnx -o triton": (0, 3),
    "setup-tensorrt --from empty": (2, 3),
    "build-ort --dry-run": (0,),
}
DRIVER = """
import json, sys
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name=name)
sys.meta_path.insert(0, NoTorch())
from typer.testing import CliRunner
from trt_workbench.app import app
from trt_workbench.vision.scenes import dataset
dataset.HELD_OUT_IMAGES = 4  # commands look at two
results = []
for words in json.load(sys.stdin):
    found = CliRunner().invoke(app, words.split())
    results.append((words, found.exit_code, repr(found.exception), found.stdout, found.stderr))
names = [command.name or command.callback.__name__ for command in app.registered_commands]
packages = [__import__(name).__file__ for name in sys.argv[1:]]
json.dump([packages, names, results], sys.stdout)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package and its plug-ins, installed from source distributions.

    Without a home, uv caches in the current folder.
    """
    folder = tmp_path_factory.mktemp("installed")
    for project in (PROJECT, *PLUG_INS):
        subprocess.run([UV, "build", "-q", "--sdist", "-o", folder, project], cwd=folder, check=True)
    install = [UV, "pip", "install", "-q", "--python", sys.executable, "--no-deps", "--target", folder / "site"]
    subprocess.run([*install, *folder.glob("*.tar.gz")], cwd=folder, check=True)
    return folder / "site"


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user's own files."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "here" / "empty").mkdir(parents=True)
    here = folder / "here"
    rows = "{1,2,3,4, 0,1,0,0, 0,0,1,0, 0,0,0,1}"
    text = f"m (float[N,4] x) => (float[N,4] y) <float[4,4] w = {rows}> {{ h = MatMul(x, w)\n y = Relu(h) }}"
    write_onnx(here / "m.onnx", text)
    np.save(here / "x.npy", np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32))
    cv2.imwrite(str(here / "d.png"), np.full((48, 64, 3), 120, np.uint8))
    (here / "fake.plan").write_bytes(b"no plan")
    (here / "run.yaml").write_text("name: night\ncommand: eval-coco\nshards: 2\nfolder: job\n")
    score = "{backend: ort-cpu, limit: 2, report: false, at_least: {AP: 0.01}}"
    (here / "gate.yaml").write_text(f"model: shapes-yolov10\nscore: {score}\n")
    (here / "bench.yaml").write_text(
        "title: own\nrepetitions: 1\nmeasure: {warmup_ms: 1, duration_s: 0.01}\nruntimes: [{backend: ort-cpu}]\n"
        "models: {own: {path: m.onnx}, embedded: {embedded: shapes-classifier}}\n"
        "scenarios: {s: {kind: arrays, batch: [1]}}\n"
    )
    return folder


def test_a_source_distribution_and_the_folder_give_the_same_files(site: Path, tmp_path: Path) -> None:
    subprocess.run([UV, "build", "-q", "--wheel", "-o", tmp_path, PROJECT], cwd=tmp_path, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        direct = {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}
    own = {name: found for name, found in direct.items() if not name.endswith(".dist-info/RECORD")}
    assert {name: hashlib.sha256((site / name).read_bytes()).hexdigest() for name in own} == own
    package = {str(path.relative_to(site)) for path in (site / "trt_workbench").rglob("*") if path.is_file()}
    assert package == {name for name in direct if name.startswith("trt_workbench/")}
    models = {path.removeprefix("trt_workbench/embedded_models/") for path in package if "/embedded_models/" in path}
    assert {
        "shapes-yolov10/shapes-yolov10.onnx",
        "shapes-segmenter/shapes-segmenter.onnx",
        "streaming-encoder/contract.json",
        "tiny-lm/held-out.txt",
    } <= models
    assert not [name for name in models if name.endswith((".py", ".jsonl"))]  # how they were made
    assert sum(path.stat().st_size for path in (site / "trt_workbench").rglob("*") if path.is_file()) < 20 << 20


def test_every_command_works_without_a_repository(site: Path, users: Path) -> None:
    """With a relative XDG_CACHE_HOME, which does not count."""
    gone = ("TRTW_ROOT", "TRTW_TMP", "PIXI_PROJECT_ROOT", "TENSORRT_HOME", "COVERAGE_PROCESS_START")
    environment = {name: value for name, value in os.environ.items() if name not in gone}
    environment |= {
        "PYTHONPATH": str(site),
        "HOME": str(users / "home"),
        "XDG_CACHE_HOME": "relative",
        "COLUMNS": "250",
    }
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, "trt_workbench", *(f"trt_workbench_{plug_in.name}" for plug_in in PLUG_INS)],
        input=json.dumps([*COMMANDS]),
        cwd=users / "here",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    packages, names, results = json.loads(done.stdout)
    assert [Path(package).is_relative_to(site) for package in packages] == [True] * (1 + len(PLUG_INS))
    assert {words.split()[0] for words in COMMANDS} == {name.replace("_", "-") for name in names}
    wrong = [found for found in results if found[1] not in COMMANDS[found[0]] or "Traceback" in found[4]]
    assert wrong == [], wrong
    assert not [words for words, _, _, out, err in results if "repository was not found" in out + err]
    assert not [
        words for words, _, _, out, err in results if str(PROJECT.parent) in (out + err).replace(sys.prefix, "")
    ]
    made = {path.name for path in (users / "here" / "tmp").iterdir()}
    assert made >= {"infer-engine", "predict", "eval-stream", "profile", "quantize", "sensitivity", "decide"}
    caches = {path.name for path in (users / "home" / ".cache" / "trt-workbench").iterdir()}
    assert caches >= {"datasets", "candidates"}
    assert not (users / "here" / "relative").exists()


def test_a_console_script_works_without_a_home(site: Path, users: Path) -> None:
    """The user's entry names the folder for caches."""
    environment = {"PYTHONPATH": str(site), "PATH": os.environ["PATH"]}
    words = [site / "bin" / "trtw", "inspect", "shapes-yolov10", "--json"]
    done = subprocess.run(words, cwd=users, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["detector"]["family"] == "yolov10"
    shutil.rmtree(gone := users / "gone", ignore_errors=True)
    gone.mkdir()
    program = f"cd {gone} && rmdir {gone} && exec {words[0]} backends"
    done = subprocess.run(["sh", "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert (
        "error: The current folder does not exist (No such file or directory); change to another folder." in done.stderr
    )
