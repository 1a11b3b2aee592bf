"""Every command reads, parses and hashes each file that it is given once, however many parts of it ask for the file."""

import hashlib
import os
import sys
from collections import Counter, OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.cli.conftest import CocoSetup
from tests.cli.engines.common import write_model
from tests.in_app import trtw
from tests.in_process_worker import InProcessWorker
from tests.onnx_text import parse_onnx
from tests.streaming_models import contract_of, convolution, write_contract

from trt_workbench.core import hashing, workers
from trt_workbench.model import opened
from trt_workbench.profile import run

pytestmark = pytest.mark.usefixtures("blank_pictures")

GRAPH = """g (float[N,3,8,8] x) => (float[N,5] y) {
  a = Conv <pads = [1, 1, 1, 1]> (x, w) b = Relu(a) c = GlobalAveragePool(b) d = Flatten(c) y = MatMul(d, v)
}"""
BENCH = """repetitions: 1
measure: {warmup_ms: 1, duration_s: 0.02, slices: 2}
models: {m: {path: model.onnx}}
runtimes: [{backend: ort-cpu}, {backend: ort-cpu, name: one, threads: 1}]
scenarios: {sweep: {kind: arrays, batch: [1, 2]}}
"""


class Reads:
    """What this process does with files while `on`; an audit hook sees every file that Python opens to read it."""

    def __init__(self) -> None:
        self.on = False
        self.opened: Counter[str] = Counter()
        self.parsed: Counter[tuple[str, bytes]] = Counter()
        self.hashed: Counter[str] = Counter()
        sys.addaudithook(self._hook)

    def _hook(self, event: str, words: tuple[Any, ...]) -> None:
        if self.on and event == "open" and isinstance(words[0], str | bytes) and not words[2] & os.O_WRONLY:
            self.opened[os.path.realpath(os.fsdecode(words[0]))] += 1

    def clear(self) -> None:
        for counter in (self.opened, self.parsed, self.hashed):
            counter.clear()

    def require_once(self, *files: Path, here: bool = True) -> None:
        """No content of a file was parsed twice, and of these files none was opened or hashed twice."""
        assert [name for (name, _), count in self.parsed.items() if count > 1] == []
        for name in map(os.path.realpath, files):
            assert self.opened[name] <= 1, name
            assert self.hashed[name] <= 1, name
        assert not here or os.path.realpath(files[0]) in {name for name, _ in self.parsed}


READS = Reads()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Reads]:
    """Count what is read in the folder of the test, which is the current one."""
    digest, parse, from_string = hashlib.file_digest, opened.parse_model, onnx.load_model_from_string
    elsewhere: list[int] = []

    def counted_digest(file: Any, *words: Any) -> Any:
        READS.hashed[str(Path(f"/proc/self/fd/{file.fileno()}").readlink())] += 1
        return digest(file, *words)

    def counted_parse(path: Path, data: bytes) -> onnx.ModelProto:
        READS.parsed[os.path.realpath(path), hashlib.sha256(data).digest()] += 1
        elsewhere.append(-1)
        return parse(path, data)

    def counted_from_string(*words: Any, **more: Any) -> onnx.ModelProto:
        elsewhere.append(1)
        return from_string(*words, **more)

    monkeypatch.setattr(hashlib, "file_digest", counted_digest)
    monkeypatch.setattr(opened, "parse_model", counted_parse)
    monkeypatch.setattr(onnx, "load_model_from_string", counted_from_string)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    READS.clear()
    READS.on = True
    yield READS
    READS.on = False
    assert sum(elsewhere) == 0  # nothing is parsed but by Model.open


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Write a network with external data, and its inputs."""
    rng = np.random.default_rng(0)
    arrays = {"w": rng.normal(size=(8, 3, 3, 3)), "v": rng.normal(size=(8, 5))}
    document = parse_onnx(GRAPH, {name: array.astype(np.float32) for name, array in arrays.items()})
    path = tmp_path / "model.onnx"
    onnx.save(document, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    np.save(tmp_path / "samples.npy", rng.normal(size=(8, 3, 8, 8)).astype(np.float32))
    np.save(tmp_path / "others.npy", rng.normal(size=(8, 3, 8, 8)).astype(np.float32))
    (tmp_path / "bench.yaml").write_text(BENCH)
    return path


DECIDE = ("--calibration", "samples.npy", "--data", "others.npy", "--score", "cosine", "--max-loss", 1)
COMMANDS: dict[str, tuple[object, ...]] = {
    "inspect": ("inspect", "model.onnx"),
    "sanitize-onnx": ("sanitize-onnx", "model.onnx", "-o", "out.onnx"),
    "verify": ("verify", "model.onnx", "--backend", "ort-cpu", "--quick"),
    "infer-engine": ("infer-engine", "model.onnx", "--backend", "ort-cpu", "--no-bench", "--shape", "x:1x3x8x8"),
    "quantize fp16": ("quantize", "model.onnx", "--to", "fp16", "-o", "out.onnx"),
    "quantize int8": ("quantize", "model.onnx", "--to", "int8", "--calibration", "samples.npy", "-o", "out.onnx"),
    "sensitivity": ("sensitivity", "model.onnx", "--to", "int8", "--calibration", "samples.npy"),
    "partitions": ("partitions", "model.onnx", "--backend", "ort-cpu"),
    "decide": ("decide", "model.onnx", *DECIDE, "--precisions", "fp32,fp16,int8", "--repetitions", 0),
}


# Here what asks for the work reads the model, and what does it, which is a process of its own.
WORKERS: dict[str, tuple[object, ...]] = {
    "verify --bisect": ("verify", "model.onnx", "--backend", "ort-cpu", "--quick", "--bisect"),
    "profile": ("profile", "model.onnx", "--backend", "ort-cpu", "--shape", "x:1x3x8x8"),
}
BENCHED = {"bench": ("bench", "bench.yaml")}


def done(words: tuple[object, ...], *codes: int) -> None:
    result = trtw(*words)
    assert result.exit_code in (codes or (0,)), result.output


@pytest.mark.parametrize("command", [*COMMANDS, *BENCHED])
def test_a_model_is_read_once(command: str, model: Path, reads: Reads) -> None:
    done((COMMANDS | BENCHED)[command], *((0, 1) if command == "decide" else ()))
    reads.require_once(model, model.with_name("weights.bin"))


@pytest.mark.parametrize("command", WORKERS)
def test_a_worker_reads_a_model_once(command: str, model: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker is asked for, one request after another, runs in this process."""
    for place in (workers, run):
        monkeypatch.setattr(place, "WorkerProcess", InProcessWorker)
    done(WORKERS[command])
    reads.require_once(model, model.with_name("weights.bin"))


@pytest.mark.parametrize("command", ["verify", "infer-engine"])
def test_a_model_is_read_once_with_pytorch(command: str, model: Path, reads: Reads) -> None:
    pytest.importorskip("torch")
    done(tuple("torch" if word == "ort-cpu" else word for word in COMMANDS[command]))
    reads.require_once(model, model.with_name("weights.bin"))


PLANS: dict[str, tuple[object, ...]] = {
    "build-engine --dry-run": ("build-engine", "m.onnx", "--dry-run"),
    "build-engine": ("build-engine", "m.onnx", "-o", "new.plan", "--verify", "off", "--force"),
    "build-engine, cached": ("build-engine", "m.onnx", "-o", "new.plan", "--verify", "off"),
    "infer-engine, a model": ("infer-engine", "m.onnx", "--backend", "trt", "--no-bench"),
    "infer-engine, a plan": ("infer-engine", "m.plan", "--no-bench"),
    "infer-engine, a plan by the backend": ("infer-engine", "m.plan", "--backend", "trt", "--no-bench"),
    "inspect": ("inspect", "m.plan"),
    "verify": ("verify", "m.plan", "--model", "m.onnx", "--quick"),
    "profile": ("profile", "m.plan"),
}


@pytest.mark.parametrize("command", PLANS)
@pytest.mark.usefixtures("doubled_core")
def test_a_plan_and_its_model_are_read_once(
    command: str, tmp_path: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = write_model(tmp_path / "m.onnx")
    done(("build-engine", model, "-o", "m.plan", "--verify", "off"))
    monkeypatch.setattr(opened, "_opened", OrderedDict())
    monkeypatch.setattr(hashing, "_known", {})
    reads.clear()
    monkeypatch.setattr(run, "WorkerProcess", InProcessWorker)
    done(PLANS[command])
    (cached,) = (tmp_path / "out" / "engines").rglob("*.plan")
    for file, why in ((model, "--force"), (tmp_path / "m.plan", "inspect"), (tmp_path / "m.plan", "--model")):
        # TensorRT's double reads the model that it builds; the first bytes of a file tell if it is a plan; verify
        # hashes a plan before it loads it, to know whether it goes on with an earlier run
        reads.opened[os.path.realpath(file)] -= why in PLANS[command]
    reads.require_once(model, tmp_path / "m.plan", cached, here=False)


@pytest.mark.parametrize(
    "words",
    [
        ("make-contract", "convolution.onnx", "-o", "drafted.json"),
        ("check-contract", "contract.json", "convolution.onnx"),
        ("eval-stream", "convolution.onnx", "--contract", "contract.json", "--backend", "ort-cpu", "--chunks", 6),
    ],
    ids=lambda words: words[0],
)
def test_a_streaming_model_is_read_once(words: tuple[object, ...], tmp_path: Path, reads: Reads) -> None:
    model = convolution(tmp_path)
    write_contract(tmp_path / "contract.json", contract_of("convolution"))
    done(words, 0, 2)
    reads.require_once(model)


@pytest.mark.parametrize("command", ["eval-coco", "predict"])
def test_a_detector_is_read_once(command: str, coco: CocoSetup, reads: Reads) -> None:
    if command == "eval-coco":
        done((command, *coco.arguments("--backend", "ort-cpu")))
    else:
        done((command, coco.model, coco.images, "--backend", "ort-cpu", "--output", coco.output))
    reads.require_once(coco.model)
