"""Streaming encoders on a GPU, by our commands alone: parity, latency beside other runtimes, many streams, profiles.

    python tasks/benchmarks/eval-stream-h200/encoders.py make --work DIR --output DIR
    python tasks/benchmarks/eval-stream-h200/encoders.py build --work DIR --output DIR [--jobs N]
    python tasks/benchmarks/eval-stream-h200/encoders.py check --work DIR --output DIR [--jobs N]
    python tasks/benchmarks/eval-stream-h200/encoders.py measure --work DIR --output DIR [--only 'streams 17x512*' ...]
    python tasks/benchmarks/eval-stream-h200/encoders.py report --output DIR

The embedded encoder, and encoders of its architecture with random weights (seed 0): 17x512 has 17 layers of width 512.
Models, plans and references go to --work (25 GB at the default sizes, and the engines once more in the cache), a line
a command to engines.jsonl in --output, and the report of these lines to README.md there. What ended well is not done
again. Engines are built, and then compared with the reference, `--jobs` at a time; what is measured runs alone. Of an
engine's forms, "b1" and "b8" take just so many streams, as `bench` builds them, and the first keeps its state on the
device between calls; "unified" takes 1 to 8, and "sizes" 1, 2, 4 and 8, each in a profile of its own. First and later
chunks of these models have one size. So for one of them (--switch), streams have a first chunk of 7 frames and later
ones of 14: an engine with a profile for each size ("ab") beside one with a profile for both ("both").
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "precision"), str(HERE.parents[2] / "models" / "streaming-encoder")]

from encoders_report import kept, report  # type: ignore[import-not-found]  # noqa: E402
from engines import Work, read, together  # type: ignore[import-not-found]  # noqa: E402

EMBEDDED = "embedded"
SIZES = (EMBEDDED, "17x512", "24x1024")
PRECISIONS = ("fp32", "fp16")
BACKENDS = ("trt", "ort-cuda", "torch", "torch-compile")
TACTIC_SOURCES = ("-CUBLAS", "-CUBLAS_LT", "-CUDNN", "-JIT_CONVOLUTIONS")
FIRST, LATER = 65, 121
"""Frames of a chunk that gives 7 output frames, and of one that gives 14, left context included."""
_ALONE, _SIZES = (1, 8), (1, 2, 4, 8)
"""Streams of a call: of engines that take no others, and of an engine with a profile for each."""
_WIDE = 512
# of a run with many streams, before they are run: enough to see that the engine answers at all
_FEW = 20


@dataclass(frozen=True)
class Encoder:
    """A model with its contracts.

    Attributes:
        name: one of --sizes.
        model: ONNX file.
        contract: all chunks of 7 frames.
        single: the same, of one stream.
        sizes: the same, each number of streams in a profile of its own.
        switching: first chunks of 7 frames, later ones of 14.
    """

    name: str
    model: Path
    contract: Path
    single: Path
    sizes: Path
    switching: Path


def encoders(options: argparse.Namespace) -> list[Encoder]:
    """Return the models of --sizes."""
    from trt_workbench.core.workspace import ENCODER, embedded_model

    found = []
    for name in options.sizes:
        folder = options.work / "models" / name
        model = embedded_model(ENCODER) if name == EMBEDDED else folder / f"{name}.onnx"
        parts = ("contract.json", "single.json", "sizes.json", "switching.json")
        found.append(Encoder(name, model, *(folder / part for part in parts)))
    return found


def make(found: Sequence[Encoder]) -> None:
    """Write models and contracts that are not there."""
    for one in found:
        layers, width = (3, 64) if one.name == EMBEDDED else map(int, one.name.split("x"))
        one.contract.parent.mkdir(parents=True, exist_ok=True)
        written = (
            (one.contract, FIRST, {"unified": (1, 4, 8)}),
            (one.single, FIRST, {"unified": (1, 1, 1)}),
            (one.sizes, FIRST, {f"b{n}": (n, n, n) for n in _SIZES}),
            (one.switching, LATER, {"unified": (1, 4, 8)}),
        )
        for path, later, batches in written:
            path.write_text(json.dumps(contract(layers, width, later, batches), indent=2) + "\n", encoding="utf-8")
        if not one.model.is_file():
            random_encoder(layers, width, one.model)
        size = sum(path.stat().st_size for path in one.model.parent.glob(f"{one.model.name}*"))
        sys.stdout.write(f"{one.model}: {size / 1e6:.1f} MB\n")


def contract(layers: int, width: int, later: int, streams: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Return the embedded encoder's contract for another size; its profiles are those of the engines here.

    Args:
        layers: of the encoder.
        width: of the encoder.
        later: frames of a chunk after the first.
        streams: least, usual and most of a call, by profile; profiles A and B have one size of chunks each.
    """
    from trt_workbench.core.workspace import embedded_contract

    document: dict[str, Any] = json.loads(embedded_contract().read_text(encoding="utf-8"))
    document["name"] = f"streaming encoder of {layers} layers, d={width}"
    document["symbols"] |= {"L": layers, "D": width}
    document["chunking"]["later"]["size"] = later
    profiles = [(name, batches, (FIRST, later, later)) for name, batches in streams.items()]
    if later != FIRST:
        profiles += [(name, profiles[0][1], (size,) * 3) for name, size in (("A", FIRST), ("B", later))]
    document["profiles"] = [{"name": name, "symbols": {"B": b, "T": t}} for name, b, t in profiles]
    return document


def random_encoder(layers: int, width: int, path: Path) -> None:
    """Write an encoder with random weights; subsampling and heads of a large one are those of NeMo's."""
    import torch
    from export import export  # type: ignore[import-not-found]
    from model import Size, StreamingEncoder  # type: ignore[import-not-found]

    torch.manual_seed(0)
    large = width >= _WIDE
    model = StreamingEncoder(Size(layers, width, heads=8 if large else 4, channels=256 if large else 16))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.min() == parameter.max():  # equal ones would become one tensor in the file
                parameter.add_(torch.randn_like(parameter) * 0.02)
    export(model, path)


def profile(path: Path, name: str, *, streams: int | None = None) -> str:
    """Return a profile of a contract as the commands take it.

    Args:
        path: of the contract.
        name: of the profile.
        streams: of every call; those of the profile else.
    """
    from trt_workbench.stream.contract.reading import read_contract

    found = read_contract(path)
    chosen = next(one for one in found.profiles if one.name == name)
    if streams:
        chosen = chosen.model_copy(update={"symbols": {**chosen.symbols, "B": (streams,) * 3}})
    return str(found.engine_profile(chosen))


def forms(one: Encoder, switch: str) -> dict[str, tuple[Path, list[str]]]:
    """Return the engines of a model by form: what they are built from, and their profiles."""
    found = {
        "unified": (one.model, [profile(one.contract, "unified")]),
        **{f"b{n}": (one.model, [profile(one.contract, "unified", streams=n)]) for n in _ALONE},
        "sizes": (one.model, [profile(one.sizes, f"b{n}") for n in _SIZES]),
    }
    if one.name == switch:
        found["ab"] = (one.model, [profile(one.switching, name) for name in ("A", "B")])
        found["both"] = (one.model, [profile(one.switching, "unified")])
    return found


def plan(work: Path, one: Encoder, form: str, precision: str) -> Path:
    """Return where an engine lies."""
    return work / "plans" / f"{one.name}.{form}.{precision}.plan"


def build_words(options: argparse.Namespace, one: Encoder, form: str, precision: str) -> list[str | Path]:
    """Return the words that build an engine. Random inputs would not verify it: lengths and caches have meanings."""
    model, profiles = forms(one, options.switch)[form]
    words = ["build-engine", model, "-o", plan(options.work, one, form, precision), "--precision", precision]
    words += [f"--profile={text}" for text in profiles] + [f"--tactic-source={name}" for name in options.tactic_sources]
    return [*words, "--optimization-level", str(options.level), "--verify", "off"]


def record_words(options: argparse.Namespace, one: Encoder) -> list[str | Path]:
    """Return the words that record a model's reference."""
    words = [*stream_words(one.model, one.contract), "--chunks", str(options.chunks), "--backend", "ort-cpu"]
    return [*words, "--mode", "functional", "--record", "--output", reference(options, one)]


def parities(options: argparse.Namespace, one: Encoder) -> Iterator[tuple[str, list[str | Path]]]:
    """Yield name and words of every comparison of a model with its reference."""
    for backend in options.backends:
        for precision in options.precisions if backend != "torch-compile" else ():
            is_trt = backend == "trt"
            target = plan(options.work, one, "b1", precision) if is_trt else one.model
            modes = "functional,closed-loop,device" if is_trt else "functional,closed-loop"
            stream = stream_words(target, one.single if is_trt else one.contract)
            words = [*stream, *on(backend, precision), *beside(options, one)]
            yield f"{one.name}.{backend}.{precision}", [*words, "--chunks", str(options.chunks), "--mode", modes]


def stream_words(target: Path, contract: Path) -> list[str | Path]:
    """Return the first words of a stream evaluation."""
    return ["eval-stream", target, "--contract", contract, "--no-report"]


def on(backend: str, precision: str) -> list[str | Path]:
    """Return the words that name what runs."""
    return ["--backend", backend, "--precision", precision]


def reference(options: argparse.Namespace, one: Encoder) -> Path:
    """Return the folder of a model's recorded reference."""
    return Path(options.work / "references" / one.name)


def beside(options: argparse.Namespace, one: Encoder) -> list[str | Path]:
    """Return the words that name a model's reference."""
    return ["--reference", reference(options, one), "--model", one.model]


def measure(step: Callable[..., Any], options: argparse.Namespace, found: Sequence[Encoder]) -> None:
    """Run what is timed, the smallest model first."""
    for one in found:
        first = options.backends[0]  # of many streams, only the runtime that this is about
        for form in ("unified", "sizes") if first == "trt" else ("unified",):
            taken, ending = (one.sizes, f".{form}") if form == "sizes" else (one.contract, "")
            for precision in options.precisions:
                target = plan(options.work, one, form, precision) if first == "trt" else one.model
                words = [*stream_words(target, taken), *on(first, precision), *beside(options, one)]
                words += ["--mode", "closed-loop", "--chunks", str(_FEW), "--streams", options.streams]
                step(
                    "streams", f"{one.name}.{first}.{precision}{ending}", [*words, "--seconds", f"{options.seconds:g}"]
                )
        for precision in options.precisions if one.name == options.switch else ():
            for form in ("ab", "both") if first == "trt" else ("both",):
                target = plan(options.work, one, form, precision) if first == "trt" else one.model
                words = [*stream_words(target, one.switching), *on(first, precision), "--model", one.model]
                words += ["--mode", "closed-loop", "--chunks", str(_FEW), "--streams", "1"]
                step("switch", f"{one.name}.{form}.{precision}", [*words, "--seconds", f"{options.seconds:g}"])
        benches = [(f"b{n}", options.backends, (n,)) for n in _ALONE] + [("batches", (first,), (1, 2, 4, 8))]
        for name, backends, batches in benches:
            file = options.work / "bench" / f"{one.name}.{name}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(bench(options, one, backends, batches), indent=1) + "\n", encoding="utf-8")
            step("bench", f"{one.name}.{name}", ["bench", file, "--skip-unavailable"])


def bench(options: argparse.Namespace, one: Encoder, backends: Sequence[str], batches: Sequence[int]) -> dict[str, Any]:
    """Return a configuration of `bench`; TensorRT's engines are those that `build` put into the cache."""
    runtimes: list[dict[str, Any]] = []
    engine = {"optimization_level": options.level, "tactic_sources": [list(options.tactic_sources)]}
    if len(batches) > 1:  # one engine for all of them; else bench's own, of that many streams
        engine["profiles"] = [[profile(one.contract, "unified")]]
    for backend in backends:
        for precision in options.precisions:
            runtime = {"backend": backend, "precision": precision, "name": f"{backend}-{precision}"}
            runtimes.append({**runtime, "options": engine} if backend == "trt" else runtime)
            if backend == "torch-compile":  # with CUDA graphs, its best for single streams
                graphs = {"name": f"{backend}-graphs-{precision}", "options": {"mode": "reduce-overhead"}}
                runtimes.append({**runtime, **graphs})
    return {
        "title": f"Streaming encoder {one.name}",
        "repetitions": options.repetitions,
        "loading": "together",
        "measure": {"warmup_ms": 50, "duration_s": options.bench_seconds, "min_iterations": 5},
        "models": {one.name: {"path": str(one.model), "contract": str(one.contract)}},
        "runtimes": runtimes,
        "scenarios": {"chunks": {"kind": "stream", "batch": list(batches)}},
    }


def keep_environment(output: Path, document: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of a command's document, and keep the environment of the first run of each commit."""
    environment = Path(str(document.get("directory", ""))) / "env.json"
    made: dict[str, Any] = kept(document)
    if environment.is_file():
        found = json.loads(environment.read_text(encoding="utf-8"))
        made["source"] = (found["git"]["commit"] or "unknown")[:8]
        made["card"] = next((gpu["name"] for gpu in found["driver"]["gpus"]), None)
        found["command_line"] = []  # the records have them
        target = output / f"env-{made['source']}.json"
        if not target.exists():
            target.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return made


def main() -> int:
    """Run the steps that have no good record, and write the report; return 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("make", "build", "check", "measure", "report"))
    parser.add_argument("--output", type=Path, required=True, help="folder of engines.jsonl and README.md")
    parser.add_argument("--work", type=Path, help="folder of models, plans, references and runs")
    parser.add_argument("--sizes", nargs="+", default=SIZES, help="embedded, or LAYERSxWIDTH (default: %(default)s)")
    parser.add_argument("--switch", default="17x512", help="model with engines for two sizes of chunks")
    parser.add_argument("--precisions", nargs="+", default=PRECISIONS)
    parser.add_argument("--backends", nargs="+", default=BACKENDS, help="the first one also runs many streams")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="PATTERN", help="such as 'bench 17x512*'")
    parser.add_argument("--jobs", type=int, default=1, help="engines built or checked at a time")
    parser.add_argument("--level", type=int, default=3, help="optimisation level of the builds")
    parser.add_argument("--tactic-sources", nargs="*", default=TACTIC_SOURCES, help="none for TensorRT's own choice")
    parser.add_argument("--chunks", type=int, default=300, help="of the parity runs")
    parser.add_argument("--streams", default="1,8,64,256,1024", help="in real time")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each number of streams")
    parser.add_argument("--repetitions", type=int, default=9, help="of bench")
    parser.add_argument("--bench-seconds", type=float, default=0.2, help="of a repetition")
    options = parser.parse_args()
    if options.verb == "report":
        report(options.output, read(options.output / "engines.jsonl"))
        return 0
    if options.work is None:
        parser.error(f"{options.verb} needs --work")
    options.work, options.output = options.work.absolute(), options.output.absolute()
    work, found = (
        Work(options.work, options.output, lambda one: keep_environment(options.output, one)),
        encoders(options),
    )

    def step(name: str, engine: str, words: Sequence[str | Path]) -> None:
        run = options.work / "runs" / f"{name}-{engine}"
        if not any(fnmatch.fnmatch(f"{name} {engine}", pattern) for pattern in options.only):
            return
        if name in ("build", "record"):  # the one says its plan, the other is read by later steps
            work.step(name, engine, words)
            return
        if (name, engine) not in work.done:
            shutil.rmtree(run, ignore_errors=True)
        work.step(name, engine, [*words, "--output", run])

    if options.verb == "make":
        make(found)
    elif options.verb == "build":
        together(
            options.jobs,
            step,
            [
                ("build", f"{one.name}.{form}.{precision}", build_words(options, one, form, precision))
                for one in reversed(found)  # the largest takes longest
                for form in forms(one, options.switch)
                for precision in options.precisions
            ],
        )
    elif options.verb == "check":
        for one in found:  # each takes all processors
            step("record", one.name, record_words(options, one))
        together(options.jobs, step, [("parity", *lane) for one in reversed(found) for lane in parities(options, one)])
    else:
        measure(step, options, found)
    report(options.output, read(options.output / "engines.jsonl"))
    return int(work.failed())


if __name__ == "__main__":
    sys.exit(main())
