"""Measure everything that needs a GPU, in the order of worth, and go on where an earlier call stopped.

    python tasks/benchmarks/everything.py --work DIR --coco DIR [--gpus 0,1] [--budget-s 1200] [--yolov10m FILE]
                                         [--minilm FOLDER] [--yolox FILE] [--trtexec FILE] [--only 'bench-*' ...]

Models, plans and caches go to DIR, records to DIR/keep, what every step printed to DIR/keep/log. Building an engine
takes a minute or several on one processor core, so engines are built side by side first, and the GPU's tests run beside
them, through CUDA's Multi-Process Service where it is installed: without it the contexts take turns on the GPU, and
side by side is no faster than one by one. A process that builds takes 3 to 6 GB of memory; where memory ends, processes
are killed. Then every GPU measures one thing at a time, with its own share of the processors; --builds-s
keeps time for that. Exit code 1: something failed or is left, as the last lines say. What ended well is not done again:
DIR/keep/log/STEP.done tells so where a step leaves no file of its own.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from everything_runner import (  # type: ignore[import-not-found]  # noqa: E402
    Lane,
    Runner,
    Step,
    command,
    merged,
    multi_process_service,
    work_through,
)

CORE, BENCH, LLM = HERE / "tensorrt-h200" / "measure.py", HERE / "bench-h200", HERE / "eval-llm" / "measure.py"
ENGINES, ENCODERS = HERE / "precision" / "engines.py", HERE / "eval-stream-h200" / "encoders.py"
TESTS = HERE.parents[1] / "tests" / "gpu"
# They count what the whole GPU does (CONTRIBUTING.md), or compare times that were measured one after the other.
ALONE = (
    "test_engine_commands.py::test_measuring_agrees_with_itself",
    "native/test_endurance.py::test_ten_thousand_runs_leak_nothing",
    "native/test_device_arrays.py::test_a_full_device_leaves_the_runner_usable",
    "native/test_stream_pool.py::test_ten_thousand_streams_leave_nothing_behind",
    "native/test_stream_pool.py::test_pools_come_and_go",
    "test_profile_command.py::test_every_node_of_the_model_is_in_a_layer_with_a_time",
    "test_profile_command.py::test_kernels_belong_to_layers",
)
_BISECTED = "test_verify.py::test_the_fault_of_step_graphs_is_bisected_to_a_few_nodes"
_LEFT_OUT = [word for test in ALONE for word in ("--deselect", f"tests/gpu/{test}")]
_WORKERS = 9
_ENCODER_SIZES = ("17x512", "embedded", "24x1024")
SHAPES, TINY_LM = (HERE.parents[1] / "models" / name for name in ("shapes-yolov10", "tiny-lm"))
_IMAGES = {"profiles": ["images:1x3x224x224/32x3x224x224/128x3x224x224"]}
_YOLO = {
    "profiles": ["images:1x3x640x640/1x3x640x640/8x3x640x640"],
    "optimization_level": 1,
    # as measuring/cases.py has them, so that one engine serves both
    "tactic_sources": ["-CUBLAS", "-CUBLAS_LT", "-CUDNN", "-JIT_CONVOLUTIONS"],
}
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_TEXT = {"profiles": [",".join(f"{name}:1x1/1x128/1x512" for name in _INPUTS)]}


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
    runs = ["perplexity", "speed-prefill", "speed-cached-1", "speed-cached-4", "speed-generate"]
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


def alone_lane() -> Lane:
    """The tests that need a GPU alone."""
    return Lane(timed=[tested("tests-alone", *(TESTS / test for test in ALONE))])


def tests_of_commands(workers: int) -> Lane:
    """The other tests that need a GPU, those of commands: by several workers, but for the two longest."""
    files = sorted(TESTS.glob("test_*.py"))
    words = [*files, "-n", workers, "--dist", "worksteal", "--deselect", f"tests/gpu/{_BISECTED}", *_LEFT_OUT]
    bisected = [tested(f"tests-bisect-{family}", TESTS / f"{_BISECTED}[{family}]") for family in ("llama", "opt")]
    return Lane([*bisected, replace(tested("tests-commands", *words), jobs=workers)])


def tests_of_the_core() -> Lane:
    """The other tests that need a GPU, those of the C++ core, a file at a time."""
    files = sorted((TESTS / "native").glob("test_*.py"))
    return Lane([tested(f"tests-{path.stem.removeprefix('test_')}", path, *_LEFT_OUT) for path in files])


def tested(name: str, *words: object) -> Step:
    """Tests that need a GPU."""
    return Step(
        name,
        ["-m", "pytest", "-v", "--durations", "10", "--timeout", "900", "-p", "no:cacheprovider", *words],
        limit_s=1200.0,
        stop=signal.SIGINT,  # at which pytest tells what failed
    )


def precision_lane(options: argparse.Namespace) -> Lane:
    """Engines of up to five models in four precisions, and the decision about YOLOX-Nano."""
    work: Path = options.work
    lane = Lane(untimed=[precision(options, "score", jobs=4)], timed=[precision(options, "measure")])
    names = ["yolox-nano"] * bool(options.yolox) + ["yolov10m"] * bool(options.yolov10m)
    names += ["shapes-yolov10", "resnet50-b1", "vit_b_16-b1"]
    for name in names:
        lane.builds.append(precision(options, "build", "--only", name, of=f"-{name}", jobs=3 if "yolo" in name else 2))
    if options.yolox:
        data = work / "precision" / "coco"
        words = [options.yolox, "--data", options.coco / "val2017", "--annotations", data / "unseen.json"]
        words += ["--calibration", data / "seen", "--no-search", "--max-loss", "0.01"]
        words += ["--option", "trt:optimization_level=1"]
        words += ["--option", f"trt:tactic_sources={json.dumps(_YOLO['tactic_sources'])}"]
        for kind in ("fp16", "int8"):  # the engines that the decision asks for, from then on in the cache
            few = ["--backends", "trt", "--precisions", f"fp32,{kind}", "--repetitions", 0]
            target = ["--output", work / f"decide-{kind}"]
            lane.builds.append(Step(f"build-decide-{kind}", command("decide", *words, *few, *target), fine=(0, 1)))
        all_of_it = ["--backends", "trt,ort-cuda,torch", "--precisions", "fp32,fp16,int8"]
        target = ["--output", work / "keep" / "decide"]
        lane.timed.insert(0, Step("decide", command("decide", *words, *all_of_it, *target), fine=(0, 1)))
    return lane


def precision(options: argparse.Namespace, verb: str, *words: object, of: str = "", jobs: int = 1) -> Step:
    """A step of precision/engines.py; `of` ends its name."""
    places = ["--work", options.work / "precision", "--output", options.work / "keep" / "precision"]
    given = {"--yolox": options.yolox, "--yolov10m": options.yolov10m}
    detectors = [word for option, path in given.items() if path for word in (option, path)]
    words = (ENGINES, verb, *places, "--coco", options.coco, *detectors, *words, "--jobs", jobs)
    return Step(f"precision-{verb}{of}", words, limit_s=1200.0, jobs=jobs)


def streams_lane(options: argparse.Namespace) -> Lane:
    """Streaming encoders of three sizes."""
    lane = Lane()
    for size in _ENCODER_SIZES:
        lane.builds.append(encoder(options, "build", size, jobs=4))
        lane.untimed.append(encoder(options, "check", size, jobs=2))
        lane.timed.append(encoder(options, "measure", size))
    return lane


def encoder(options: argparse.Namespace, verb: str, size: str, jobs: int = 1) -> Step:
    """A step of eval-stream-h200/encoders.py."""
    places = ["--work", options.work / "encoders", "--output", options.work / "keep" / "eval-stream-h200"]
    words = (ENCODERS, verb, *places, "--sizes", size, "--jobs", jobs)
    return Step(f"encoders-{verb}-{size}", words, limit_s=1200.0, jobs=jobs)


def prepare(kind: str, words: Sequence[str]) -> None:
    """Build one engine into the cache: of an ONNX file, or of a language model's graph."""
    if kind == "onnx":
        from trt_workbench.backends.base import SessionOptions
        from trt_workbench.backends.registry import get_backend

        model, precision, options = words
        get_backend("trt").load(Path(model), SessionOptions(precision=precision, extra=json.loads(options))).close()
        return
    from trt_workbench.llm.opening import ModelSource, open_cached, open_logits
    from trt_workbench.llm.settings import BackendChoice
    from trt_workbench.model.llm_directory import examine_llm_directory
    from trt_workbench.model.opsets import DEFAULT_OPSET

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
        Step("export-gpt2", [LLM, "--output", options.work / "llm", "--runs", "none"], gpt2 / "model.safetensors"),
        *(encoder(options, "make", size) for size in _ENCODER_SIZES),
        precision(options, "quantize", jobs=4),
        Step("export-models", [BENCH / "models.py", models, *names], made),
    ]


def main() -> int:
    """Run what is left."""
    if sys.argv[1:2] == ["prepare"]:
        prepare(sys.argv[2], sys.argv[3:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for models, plans, caches and records")
    parser.add_argument("--coco", type=Path, required=True, help="folder with val2017/ and annotations/")
    parser.add_argument("--gpus", default="0", help="CUDA device numbers, comma-separated (default: %(default)s)")
    parser.add_argument("--budget-s", type=float, default=3600.0, help="seconds to stay within")
    parser.add_argument("--builds-s", type=float, default=float("inf"), help="time limit of builds and tests, seconds")
    parser.add_argument(
        "--builders", type=int, default=5, help="processes that build or test at once on a GPU (default: %(default)s)"
    )
    parser.add_argument("--yolov10m", type=Path, help="ONNX file of YOLOv10m, opset 17, with a dynamic batch")
    parser.add_argument("--yolox", type=Path, help="ONNX file of YOLOX-Nano")
    parser.add_argument("--minilm", type=Path, help="folder of all-MiniLM-L6-v2 in Hugging Face's format")
    parser.add_argument("--trtexec", type=Path, help="trtexec of the same TensorRT")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="PATTERN", help="only these steps")
    options = parser.parse_args()
    options.work = options.work.absolute()
    # a wrong path must not show after an hour of builds
    inputs = (options.coco, options.yolov10m, options.yolox, options.minilm, options.trtexec)
    if missing := [str(path) for path in inputs if path and not path.exists()]:
        parser.error(f"not found: {', '.join(missing)}")
    gpus = options.gpus.split(",")
    # what takes longest beside others and least alone first
    every = [
        alone_lane(),
        tests_of_commands(min(_WORKERS, options.builders)),
        precision_lane(options),
        tests_of_the_core(),
    ]
    every += [runtime_lane(options), streams_lane(options), core_lane(options)]
    lanes = [merged(every[place :: len(gpus)]) for place in range(min(len(gpus), len(every)))]
    steps = [step for lane in lanes for step in (*lane.builds, *lane.untimed, *lane.timed)]
    exports = exported(options)
    names = [step.name for step in (*exports, *steps)]
    if unknown := [pattern for pattern in options.only if not fnmatch.filter(names, pattern)]:
        parser.error(f"unknown steps: {', '.join(unknown)}; known: {', '.join(names)}")
    # the shell of a background job has it ignored, and so would every step
    signal.signal(signal.SIGINT, signal.default_int_handler)
    runner = Runner(options.work, options.budget_s, gpus, options.only)
    models = options.work / "models"
    models.mkdir(parents=True, exist_ok=True)
    for given, name in ((options.yolov10m, "yolov10m.onnx"), (options.yolox, "yolox_nano.onnx")):
        if given and not (models / name).exists():
            (models / name).symlink_to(given.absolute())
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda step: runner.run(step, gpus[0]), exports))
    with multi_process_service(options.work / "mps") as shared, ThreadPoolExecutor(len(gpus)) as pool:
        limits = (runner, options.builders, shared, options.builds_s)
        list(pool.map(lambda lane, gpu: work_through(lane, gpu, *limits), lanes, gpus))
    sys.stdout.write(f"Not done: {', '.join(runner.left)}\n" if runner.left else "All done.\n")
    return int(bool(runner.left))


if __name__ == "__main__":
    sys.exit(main())
