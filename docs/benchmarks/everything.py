"""Measure everything that needs a GPU, in the order of worth, and go on where an earlier call stopped.

    python docs/benchmarks/everything.py --work DIR --coco DIR [--gpus 0,1] [--budget-s 1200] [--yolov10m FILE]
                                         [--minilm FOLDER] [--yolox FILE] [--trtexec FILE] [--only 'bench-*' ...]

Models, plans and caches go to DIR, records to DIR/keep, what every step printed to DIR/keep/log. Building an engine
takes a minute or several on one processor core, so engines are built side by side first, through CUDA's Multi-Process
Service where it is installed: without it the builds' contexts take turns on the GPU, and side by side is no faster than
one by one. Then every GPU measures one thing at a time, with its own share of the processors. Exit code 1: something
failed or is left, as the last lines say. What ended well is not done again: DIR/keep/log/STEP.done tells so where a
step leaves no file of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import functools
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CORE, BENCH, LLM = HERE / "tensorrt-h200" / "measure.py", HERE / "bench-h200", HERE / "eval-llm" / "measure.py"
TESTS = HERE.parents[1] / "tests" / "gpu"
SHAPES, TINY_LM = (HERE.parents[1] / "models" / name for name in ("shapes-yolov10", "tiny-lm"))
_LAST_S = 15.0  # too little for any step
_IMAGES = {"profiles": ["images:1x3x224x224/32x3x224x224/128x3x224x224"]}
_YOLO = {
    "profiles": ["images:1x3x640x640/1x3x640x640/8x3x640x640"],
    "optimization_level": 1,
    # as measuring/cases.py has them, so that one engine serves both
    "tactic_sources": ["-CUBLAS", "-CUBLAS_LT", "-CUDNN", "-JIT_CONVOLUTIONS"],
}
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_TEXT = {"profiles": [",".join(f"{name}:1x1/1x128/1x512" for name in _INPUTS)]}


@dataclass(frozen=True)
class Step:
    """One command.

    Attributes:
        name: of its log.
        words: after the interpreter.
        made: where it is there already, the step is done; of a bench, the run directory. None for a step that is done
            when it ended well.
        limit_s: most seconds.
    """

    name: str
    words: Sequence[object]
    made: Path | None = None
    limit_s: float = 600.0


@dataclass
class Lane:
    """What one GPU does: builds side by side, beside them what no clock depends on, then measurements in turn."""

    builds: list[Step] = field(default_factory=list)
    untimed: list[Step] = field(default_factory=list)
    timed: list[Step] = field(default_factory=list)


class Runner:
    """Runs steps on a GPU within the budget and keeps their outcomes."""

    def __init__(self, work: Path, budget_s: float, gpus: Sequence[str], only: Sequence[str] = ("*",)) -> None:
        self._only = only
        self._end = time.monotonic() + budget_s
        self._processors = shares(gpus)
        self._log = work / "keep" / "log"
        self._log.mkdir(parents=True, exist_ok=True)
        self._environment = {**os.environ, "TRTW_TMP": str(work / "tmp")}
        self._lock = threading.Lock()
        self.left: list[str] = []

    def run(self, step: Step, gpu: str, shared: Mapping[str, str] | None = None) -> None:
        """Run a step unless it is done; a step that is cut off is told to end, so that it keeps what it has.

        Args:
            step: what to run.
            gpu: CUDA's number of the GPU.
            shared: more of the step's environment.
        """
        if not any(fnmatch.fnmatch(step.name, pattern) for pattern in self._only):
            return
        left_s = self._end - time.monotonic()
        ended_well = self._log / f"{step.name}.done"
        words = remaining(step)
        if not words or ended_well.exists():
            return
        if left_s < _LAST_S:
            self._tell(step, "left for another call", failed=True)
            return
        started = time.monotonic()
        # of this thread, and so of what it starts: builds for one GPU leave the measurements on another alone
        os.sched_setaffinity(0, self._processors[gpu])
        with (self._log / f"{step.name}.log").open("a", encoding="utf-8") as log:
            process = subprocess.Popen(
                [sys.executable, *map(str, words)],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**self._environment, "CUDA_VISIBLE_DEVICES": gpu, **(shared or {})},
            )
            try:
                code = process.wait(timeout=min(step.limit_s, left_s))
            except subprocess.TimeoutExpired:
                end(process)
                code = -1
        if code == 0 and step.made is None:
            ended_well.touch()
        outcome = "cut off" if code == -1 else f"exit code {code}"
        self._tell(step, f"{outcome} after {time.monotonic() - started:.0f} s", failed=code != 0)

    def _tell(self, step: Step, outcome: str, *, failed: bool) -> None:
        with self._lock:
            sys.stdout.write(f"{time.strftime('%T')} {step.name}: {outcome}\n")
            sys.stdout.flush()
            if failed:
                self.left.append(step.name)


def shares(gpus: Sequence[str]) -> dict[str, list[int]]:
    """The processors of each GPU, as many for one as for another."""
    processors = sorted(os.sched_getaffinity(0))
    size = len(processors) // len(gpus)
    return {gpu: processors[place * size : (place + 1) * size] or processors for place, gpu in enumerate(gpus)}


@contextlib.contextmanager
def multi_process_service(folder: Path) -> Iterator[dict[str, str]]:
    """Run CUDA's Multi-Process Service; yields the environment of its clients, empty where there is none to be had."""
    control = shutil.which("nvidia-cuda-mps-control")
    if not control:
        yield {}
        return
    folder.mkdir(parents=True, exist_ok=True)
    client = {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}
    ask = functools.partial(subprocess.run, check=False, env={**os.environ, **client})
    started = ask([control, "-d"])
    if started.returncode:
        ask([control], input=b"quit\n")  # a call that was killed leaves one running
        started = ask([control, "-d"])
    if started.returncode:
        sys.stdout.write("CUDA's Multi-Process Service does not start; builds take turns on the GPU.\n")
        yield {}
        return
    try:
        yield client
    finally:
        ask([control], input=b"quit\n")


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that it started: what it leaves running would disturb whatever is measured next.

    It is told first, as a bench closes its workers itself; a script that waits for a command does not end that one.
    """
    import psutil

    try:
        started = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        started = []
    process.terminate()
    try:
        process.wait(timeout=_LAST_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for one in started:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.terminate()
    for one in psutil.wait_procs(started, timeout=_LAST_S)[1]:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()


def remaining(step: Step) -> Sequence[object]:
    """The words of a step that is not done; a bench that was interrupted is gone on with. Empty if nothing is left."""
    if step.made is None or not step.made.exists():
        return step.words
    run = step.made if step.made.name == "run.json" else step.made / "run.json"
    if not run.is_file() or json.loads(run.read_text(encoding="utf-8"))["status"] != "partial":
        return ()
    return step.words if run == step.made else command("bench", "--resume", step.made)


def command(*words: object) -> list[object]:
    """A command of the workbench, by its script, so that its reports tell how to repeat it."""
    return [Path(sys.executable).with_name("trtw"), *words]


def core_lane(options: argparse.Namespace) -> Lane:
    """The C++ core: engines, single calls, images, slots, endurance, accuracy; then classifiers and encoders."""
    work: Path = options.work
    models, keep, plans = work / "models", work / "keep", work / "plans"
    common = ["--plans", work, "--output", keep / "tensorrt-h200"]
    lane = Lane()
    order = ["shapes-fp16-level3", "shapes-fp16-b1", "shapes-fp16", "yolox-nano-fp16", "resnet18-dynamic-fp16"]
    order += ["vit-b64-fp16", "resnet50-b1-fp16", "shapes-fp32", "yolox-nano-fp32", "vit-b1-fp16", "vit-b64-fp32"]
    if options.yolov10m:
        order = ["yolov10m-fp16-level3", "yolov10m-fp16-b1", *order]
    lane.builds += [core_engine(options, engine) for engine in order]
    for model in ("resnet50", "vit_b_16"):
        lane.builds += [prepared(f"{model}-{p}", models / f"{model}.onnx", p, _IMAGES) for p in ("fp16", "fp32")]
    reference = ["--trtexec", options.trtexec] if options.trtexec else []
    lane.untimed.append(Step("sanitizer", [CORE, "sanitizer", *common, *reference]))
    lane.untimed.append(
        Step("accuracy", [CORE, "accuracy", *common, "--models", models, SHAPES, "--coco", options.coco])
    )
    if options.yolov10m:
        lane.timed.append(core_engine(options, "yolov10m-fp16"))  # from the cache
    for name in ("latency", "images", "slots", "soak", "threads"):
        rounds = ["--rounds", 3] if name in ("latency", "images", "slots") else []
        lane.timed.append(Step(name, [CORE, name, *common, *rounds]))
    harness = [BENCH / "harness.py", plans / "resnet50-b1-fp16.plan", "--output", keep / "harness.jsonl", "--rounds", 3]
    lane.timed.append(Step("harness", harness, keep / "harness.jsonl"))
    if options.trtexec:
        case = ["--case", "resnet50-b1-fp16", "vit-b64-fp16", "vit-b64-fp32"]
        lane.timed.append(Step("pairs", [CORE, "pairs", *common, "--trtexec", options.trtexec, *case]))
    classifiers = ["--model", f"resnet={models / 'resnet50.onnx'}", "--model", f"vit={models / 'vit_b_16.onnx'}"]
    lane.timed += [benched("classifiers", keep, classifiers, only) for only in ("resnet", "vit")]
    encoders = ["--model", f"minilm={models / 'minilm.onnx'}", "--model", f"bert={models / 'bert-base.onnx'}"]
    if options.minilm:
        for model in ("minilm", "bert-base"):
            lane.builds += [prepared(f"{model}-{p}", models / f"{model}.onnx", p, _TEXT) for p in ("fp16", "fp32")]
        lane.timed += [benched("encoders", keep, encoders, only) for only in ("minilm", "bert")]
    # alone on the GPU: some fill its memory, or watch how much of it is in use
    lane.timed.append(tested("tests-native", TESTS / "native"))
    lane.timed.append(tested("tests-rest", TESTS, "--ignore", TESTS / "native"))
    return lane


def runtime_lane(options: argparse.Namespace) -> Lane:
    """Language models on every runtime, then YOLOv10m's shape."""
    work: Path = options.work
    models, keep, llm = work / "models", work / "keep", work / "llm"
    gpt2, detector = llm / "models" / "gpt2", models / "yolov10m.onnx"
    lane = Lane()
    if options.yolov10m:
        lane.builds += [prepared(f"yolov10m-{p}", detector, p, _YOLO) for p in ("fp16", "fp32")]
    each = [(batch, precision) for batch in (1, 4) for precision in ("fp16", "fp32")]
    for name, words in (
        *((f"perplexity-{p}", ["logits", TINY_LM, p, 4, 512]) for p in ("fp16", "fp32")),
        *((f"cached-{b}-{p}", ["cached", gpt2, p, b, 32, 512]) for b, p in each),
        *((f"generate-{b}-{p}", ["logits", gpt2, p, b, 512]) for b, p in each),
        *((f"prefill-{n}-{b}-{p}", ["logits", gpt2, p, b, n]) for n in (128, 256, 512, 1024) for b, p in each),
    ):
        lane.builds.append(Step(f"prepare-{name}", [__file__, "prepare", *words]))
    measured = [LLM, "--output", llm, "--runs"]
    runs = ["perplexity", "speed-prefill", "speed-cached", "speed-generate"]
    lane.timed += [Step(f"llm-{run}", [*measured, run], llm / run / "run.json") for run in runs]
    lane.timed.append(benched("language", keep, ["--model", f"gpt2={gpt2}"], "gpt2"))
    if options.yolov10m:
        lane.timed.append(benched("detector", keep, ["--model", f"yolov10m={detector}"], "yolov10m"))
    return lane


def core_engine(options: argparse.Namespace, engine: str) -> Step:
    """Build an engine of measuring/cases.py."""
    work: Path = options.work
    words = [CORE, "build", "--plans", work, "--output", work / "keep" / "tensorrt-h200"]
    words += ["--models", work / "models", SHAPES, "--engine", engine]
    return Step(f"build-{engine}", words, work / "plans" / f"{engine}.plan", 1200.0 if "level3" in engine else 600.0)


def prepared(name: str, model: Path, precision: str, options: Mapping[str, Any]) -> Step:
    """Build the engine that a bench will ask for: the options are those of its configuration."""
    return Step(f"prepare-{name}", [__file__, "prepare", "onnx", model, precision, json.dumps(options)])


def benched(config: str, keep: Path, models: Sequence[object], only: str) -> Step:
    """One model of a configuration of bench-h200."""
    output = keep / f"bench-{only}"
    words = ["bench", BENCH / f"{config}.yaml", *models, "--only", f"*{only}*", "--output", output]
    return Step(f"bench-{only}", command(*words), output)


def tested(name: str, *words: object) -> Step:
    """Tests that need a GPU."""
    return Step(name, ["-m", "pytest", "-q", "--timeout", "200", "-p", "no:cacheprovider", *words])


def prepare(kind: str, words: Sequence[str]) -> None:
    """Build one engine into the cache: of an ONNX file, or of a language model's graph."""
    if kind == "onnx":
        from trt_workbench.backends.base import SessionOptions
        from trt_workbench.backends.registry import get_backend

        model, precision, options = words
        get_backend("trt").load(Path(model), SessionOptions(precision=precision, extra=json.loads(options))).close()
        return
    from trt_workbench.onnxtools.llm_directory import examine_llm_directory
    from trt_workbench.onnxtools.opsets import DEFAULT_OPSET
    from trt_workbench.pipeline.llm.choice import BackendChoice
    from trt_workbench.pipeline.llm.opening import ModelSource, open_cached, open_logits

    folder, precision, *sizes = words
    source = ModelSource(examine_llm_directory(Path(folder)), "auto", DEFAULT_OPSET, None, print)
    opened = open_cached if kind == "cached" else open_logits
    opened(BackendChoice("trt", precision), source, *map(int, sizes)).close()


def exported(options: argparse.Namespace) -> list[Step]:
    """Models that the engines are built from."""
    models: Path = options.work / "models"
    names = ["resnet50", "vit_b_16", "resnet50-b1", "vit_b_16-b1", "vit_b_16-b64", "resnet18_hw"]
    if options.minilm:
        names += ["bert-base", "minilm", "--minilm", options.minilm]
    # the last one written stands for all
    made = models / ("minilm.onnx" if options.minilm else "resnet18_hw.onnx")
    gpt2 = options.work / "llm" / "models" / "gpt2"
    return [
        Step("export-models", [BENCH / "models.py", models, *names], made),
        Step("export-gpt2", [LLM, "--output", options.work / "llm", "--runs", "none"], gpt2 / "model.safetensors"),
    ]


def work_through(lane: Lane, gpu: str, runner: Runner, builders: int, shared: Mapping[str, str]) -> None:
    """Build side by side in the environment `shared`, then what needs no quiet, then measure."""
    with ThreadPoolExecutor(builders) as pool:
        list(pool.map(lambda step: runner.run(step, gpu, shared), lane.builds))
    with ThreadPoolExecutor(max(1, len(lane.untimed))) as pool:
        list(pool.map(lambda step: runner.run(step, gpu), lane.untimed))
    for step in lane.timed:
        runner.run(step, gpu)


def main() -> int:
    """Run what is left."""
    if sys.argv[1:2] == ["prepare"]:
        prepare(sys.argv[2], sys.argv[3:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for models, plans, caches and records")
    parser.add_argument("--coco", type=Path, required=True, help="folder with val2017/ and annotations/")
    parser.add_argument("--gpus", default="0", help="CUDA's numbers, apart by commas (default: %(default)s)")
    parser.add_argument("--budget-s", type=float, default=3600.0, help="seconds to stay within")
    parser.add_argument("--builders", type=int, default=5, help="builds at once on a GPU (default: %(default)s)")
    parser.add_argument("--yolov10m", type=Path, help="ONNX file of YOLOv10m, opset 17, with a dynamic batch")
    parser.add_argument("--yolox", type=Path, help="ONNX file of YOLOX-Nano")
    parser.add_argument("--minilm", type=Path, help="folder of all-MiniLM-L6-v2 in Hugging Face's format")
    parser.add_argument("--trtexec", type=Path, help="trtexec of the same TensorRT")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="PATTERN", help="these steps alone")
    options = parser.parse_args()
    options.work = options.work.absolute()
    # a wrong path must not show after an hour of builds
    inputs = (options.coco, options.yolov10m, options.yolox, options.minilm, options.trtexec)
    if missing := [str(path) for path in inputs if path and not path.exists()]:
        parser.error(f"there is no {', no '.join(missing)}")
    lanes = [core_lane(options), runtime_lane(options)]
    gpus = options.gpus.split(",")
    if len(gpus) == 1:  # every engine first, as builds have the GPU together
        core, runtime = lanes
        lanes = [Lane(core.builds + runtime.builds, core.untimed + runtime.untimed, core.timed + runtime.timed)]
    steps = [step for lane in lanes for step in (*lane.builds, *lane.untimed, *lane.timed)]
    exports = exported(options)
    names = [step.name for step in (*exports, *steps)]
    if unknown := [pattern for pattern in options.only if not fnmatch.filter(names, pattern)]:
        parser.error(f"no step is called {', nor '.join(unknown)}; there are: {', '.join(names)}")
    runner = Runner(options.work, options.budget_s, gpus, options.only)
    models = options.work / "models"
    models.mkdir(parents=True, exist_ok=True)
    for given, name in ((options.yolov10m, "yolov10m.onnx"), (options.yolox, "yolox_nano.onnx")):
        if given and not (models / name).exists():
            (models / name).symlink_to(given.absolute())
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda step: runner.run(step, gpus[0]), exports))
    places = (gpus * 2)[: len(lanes)]
    with multi_process_service(options.work / "mps") as shared, ThreadPoolExecutor(len(gpus)) as pool:
        list(pool.map(lambda lane, gpu: work_through(lane, gpu, runner, options.builders, shared), lanes, places))
    sys.stdout.write(f"Left: {', '.join(runner.left)}\n" if runner.left else "All done.\n")
    return int(bool(runner.left))


if __name__ == "__main__":
    sys.exit(main())
