"""Inputs by number: a command, its files copied from the seeds, and mutations of files and options."""

import json
import os
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import typer.main
import yaml
from tests.fuzz.media import seal
from tests.fuzz.mutations import TEXTS, mutate_file
from tests.fuzz.servers import PORT
from tests.fuzz.surroundings import Around, absolute, choose, lay_out

from trt_workbench.app import app

Rng = random.Random
TENSORS = "(tensors)"
"""In place of a command: a program that calls a loaded model."""
_LARGE = 200_000  # bytes; a larger seed is linked, not copied


@dataclass
class Case:
    """One input.

    Attributes:
        number: with the seed, all that it is made from.
        words: of the command line, after `trtw`.
        done: the mutations, in words.
        around: what surrounds the command.
    """

    number: int
    words: list[str]
    done: list[str] = field(default_factory=list)
    around: Around = field(default_factory=Around)


@dataclass
class _Recipe:
    """A command on sound files: its words, and the files that may be mutated, relative to the case's folder."""

    words: list[str]
    files: list[str]


def needs_torch(seed: int, number: int) -> bool:
    """Whether input `number` runs on PyTorch, which takes seconds to import."""
    return _recipe(random.Random(f"{seed}:{number}")).endswith(("llm", "torch"))


def _recipe(rng: Rng) -> str:
    return rng.choices(list(_RECIPES), [weight for weight, _ in _RECIPES.values()])[0]


def make_case(seed: int, number: int, seeds: Path, folder: Path) -> Case:
    """Lay out input `number` in `folder`, which is to be the current one of the command."""
    rng = random.Random(f"{seed}:{number}")
    recipe = _RECIPES[_recipe(rng)][1](rng)
    for name in {Path(file).parts[0] for file in recipe.files}:
        _copy(seeds / name, folder / name)
    case = Case(number, recipe.words, around=choose(rng))
    if not case.around.is_plain:
        case.done.append(str(case.around))
        _surround(case, folder, rng)
    if recipe.words[0] == "submit":
        _name(folder / "settings" / "names.yaml", rng)
        case.done.append("names")
    if recipe.words[0] == TENSORS:
        case.done.append("tensors")
        return case
    if case.around.signal:  # of sound inputs, so that there is something to interrupt
        return case
    files = [file for file in recipe.files if (folder / file).exists()]
    if files and rng.random() < 0.85:
        for file in rng.sample(files, min(len(files), rng.choice((1, 1, 1, 2)))):
            case.done.append(mutate_file(folder / file, rng))
        if rng.random() < 0.7 and any(seal(folder / top) for top in ("runs", "engine") if (folder / top).is_dir()):
            case.done.append("sealed")
    if not case.done or rng.random() < 0.2:
        _mutate_words(case, recipe.words[0], rng)
    if files and rng.random() < 0.03:
        _rename(case, folder, rng.choice(files), rng)
    case.words = [word.replace("\0", "") for word in case.words]
    return case


def _name(file: Path, rng: Rng) -> None:
    """Put strange texts where RUN.yaml names something."""
    document = yaml.safe_load(file.read_text())
    # most names have a form and are refused in another; arguments and models are any text
    for key in rng.choice((["arguments"], ["arguments", "model"], ["program"], ["setup"], ["name"], ["gpu_types"])):
        text = rng.choice(TEXTS)[:200]
        document[key] = {"model": text or "x", "name": text, "gpu_types": {"h200": text}}.get(key, [text, "b"])
    try:
        file.write_text(yaml.safe_dump(document, allow_unicode=True))
    except (UnicodeError, yaml.YAMLError):
        file.write_text(json.dumps(document))


def _surround(case: Case, folder: Path, rng: Rng) -> None:
    if case.around.variables:
        lay_out(folder, rng)
    if case.around.folder in ("outside", "read-only") and "--output" in case.words and rng.random() < 0.7:
        place = case.words.index("--output")
        del case.words[place : place + 2]
    if case.around.folder:
        case.words = absolute(case.words, folder)


def _copy(source: Path, target: Path) -> None:
    def copied(one: str, other: str) -> None:
        (os.link if Path(one).stat().st_size > _LARGE else shutil.copyfile)(one, other)

    shutil.copytree(source, target, copy_function=copied)


def _rename(case: Case, folder: Path, file: str, rng: Rng) -> None:
    """Give a file a name that is no text, or hard to print."""
    if not any(file == word or word.endswith(f"={file}") for word in case.words):
        return
    path = folder / file
    if not os.path.lexists(path):  # a mutation took it away
        return
    name = (
        rng.choice(
            [
                "b\udcffad",
                "10:30",
                "concat:a|b",
                "%d",
                "\x1b[31mred",
                "a\nb",
                "-dash",
                "é ü",
                "$\\frac{$",
                "%s",
                "[bold]x",
            ]
        )
        + path.suffix
    )
    path.rename(path.with_name(name))
    case.words = [word.replace(file, str(Path(file).with_name(name))) for word in case.words]
    case.done.append(f"renamed to {name!r}")


def _mutate_words(case: Case, command: str, rng: Rng) -> None:
    """Give an option a strange value, or drop, double or replace a word."""
    kind = rng.random()
    if kind < 0.75:
        option = rng.choice([*_options(command), "--output", "--json", "--nonsense"])
        value = rng.choice([*_VALUES, *TEXTS]).replace("\0", "")[:3000]
        if option in _WRITTEN:
            value = rng.choice(
                ["out/a/b", "out", "out/in.txt", "/dev/null", "/dev/full", "/proc/x", "out/\udcff", "x" * 300]
            )
        case.words += [option] if option == "--json" else [option, value]
        case.done.append(f"{option} {value[:60]!r}")
    elif len(case.words) > 1:
        place = rng.randrange(1, len(case.words))
        if rng.random() < 0.5:
            del case.words[place]
        else:
            case.words[place] = rng.choice([*_VALUES, *TEXTS]).replace("\0", "")[:3000]
        case.done.append(f"word {place}")


_VALUES = [
    "-1",
    "0",
    "1",
    "inf",
    "-inf",
    "nan",
    "1e400",
    "9" * 30,
    "²",
    "٣",
    "1_0",
    "0x10",
    "4294967296",
    "1.5",
    "a=b",
    "=",
    "x:²x3",
    "x:2x3",
    "x:0x3",
    "x:2147483647x2147483647",
    "x:" + "1x" * 70 + "1",
    "batch=9223372036854775808",
    "batch=2",
    "batch=0",
    "batch=²",
    "x=1x3/2x3/4x3",
    "x:4x3/2x3/1x3",
    "fp16",
    "fp32",
    "int8",
    "ort-cpu",
    "torch",
    "trt",
    "auto",
    "true",
    "\udcff",
    "allow_spinning=[[[[",
    "graph_optimization_level=" + "[" * 3000,
    "a=" + "9" * 5000,
    "0,50,100",
    "50,,",
    "101",
    "32",
    "0x0",
]
# What may last for as long as its value says, what starts programs, and what shows a traceback.
_NOT_GIVEN = {"--iterations", "--repetitions", "--builds", "--launches", "--calls", "--seconds", "--run", "--debug"}
# What names a file or folder to write.
_WRITTEN = ("--output", "-o", "--plan", "--export-times", "--timing-cache")


@cache
def _options(command: str) -> tuple[str, ...]:
    """Return what a command takes, by the application itself; nothing for a word that is no command."""
    group: Any = typer.main.get_command(app)
    found = group.get_command(typer.Context(group), command)
    names = [name for one in found.params for name in (*one.opts, *one.secondary_opts)] if found else []
    return tuple(name for name in names if name.startswith("-") and name not in _NOT_GIVEN)


_MODELS = ("models/plain.onnx", "models/outside.onnx", "models/branch.onnx", "coco/detector.onnx")


def _model(rng: Rng) -> tuple[str, list[str]]:
    model = rng.choice(_MODELS)
    return model, [model, *(["models/outside.data"] if "outside" in model else [])]


def _sanitize(rng: Rng) -> _Recipe:
    model, files = _model(rng)
    more = rng.choice(([], ["--also", "int32-indices"], ["--dim", "batch=2"], ["--no-check"]))
    return _Recipe(["sanitize-onnx", model, "-o", "out/made.onnx", *more], files)


def _quantize(rng: Rng) -> _Recipe:
    model, files = _model(rng)
    data = rng.choice(("random", "arrays", "arrays/both.npz", "arrays/x.npy", "images"))
    to = rng.choice(("int8", "fp8", "fp16"))
    return _Recipe(["quantize", model, "--to", to, "--calibration", data, "-o", "out/made.onnx"], files)


def _sensitivity(rng: Rng) -> _Recipe:
    recipe = _quantize(rng)
    more = rng.choice(([], ["--score", "cosine"], ["--worst", "0"]))
    return _Recipe(["sensitivity", *recipe.words[1:-2], "--output", "out/made", *more], recipe.files)


def _infer(rng: Rng, backend: str = "ort-cpu") -> _Recipe:
    model, files = _model(rng)
    words = ["infer-engine", model, "--backend", backend]
    arrays = rng.choice(([], ["arrays/both.npz"], ["arrays/x.npy", "arrays/y.npy"]))
    for array in arrays:
        words += ["--input", f"{Path(array).stem}={array}" if array.endswith("npy") else array]
    shapes = (
        ["--shape", "x:2x4" if "branch" in model else "images:1x3x32x32"] if not arrays and "plain" not in model else []
    )
    measured = [] if arrays else ["--duration", "0", "--warmup", "0", "--iterations", "2"]
    return _Recipe([*words, *shapes, *measured, "--output", "out/run"], [*files, *arrays, *arrays])


def _profile(rng: Rng) -> _Recipe:
    model, files = _model(rng)
    words = ["profile", model, "--backend", "ort-cpu", "--iterations", "1", "--warmup", "1", "--output", "out/run"]
    if rng.random() < 0.3:
        return _Recipe([*words, "--against", "runs/profile"], [*files, *_run_files("profile")])
    return _Recipe(words, files)


def _coco(rng: Rng) -> _Recipe:
    words = [
        "eval-coco",
        "--model",
        "coco/detector.onnx",
        "--data",
        "coco/images",
        "--annotations",
        "coco/annotations.json",
    ]
    fixed = ["--backend", "ort-cpu", "--workers", "1", "--concurrency", "1", "--output", "out/run"]
    more = ["--no-report"] if rng.random() < 0.8 else []
    annotations = ["coco/annotations.json"] * 3
    return _Recipe(
        [*words, *fixed, *more], ["coco/detector.onnx", "coco/images/a.png", "coco/images/b.jpg", *annotations]
    )


def _predict(rng: Rng) -> _Recipe:
    source = rng.choice(("coco/images", "coco/images/a.png", "coco/images/b.jpg"))
    words = ["predict", "coco/detector.onnx", source, "--backend", "ort-cpu", "--output", "out/run"]
    return _Recipe(words, ["coco/detector.onnx", "coco/images/a.png", "coco/images/b.jpg"])


def _predict_video(rng: Rng) -> _Recipe:
    clip = rng.choice(("coco/clip.mp4", "coco/clip.avi"))
    words = ["predict", "coco/detector.onnx", clip, "--backend", "ort-cpu", "--output", "out/run"]
    return _Recipe(words, [clip])


def _verify(rng: Rng) -> _Recipe:
    words = ["verify", "models/plain.onnx", "--backend", "ort-cpu", "--quick", "--output", "out/run"]
    if rng.random() < 0.4:
        return _Recipe(words, ["models/plain.onnx"])
    index = "runs/verify/reference/record.json"
    files = [index, index, "runs/verify/verify.json", "models/plain.onnx"]
    return _Recipe([*words, "--reference", "runs/verify"], files)


def _build(rng: Rng) -> _Recipe:
    model, files = (
        "models/plain.onnx",
        ["models/plain.onnx", "settings/build.yaml", "settings/build.yaml", "settings/cache.timing"],
    )
    words = ["build-engine", model, "--config", "settings/build.yaml", "-o", "out/made.plan"]
    if rng.random() < 0.3:
        words += ["--calibration", "calibration/data.npz", "--precision", "int8"]
        files += ["calibration/data.npz"] * 2
    return _Recipe([*words, *(["--dry-run"] if rng.random() < 0.4 else [])], files)


def _inspect(rng: Rng) -> _Recipe:
    more = ["--trust"] if rng.random() < 0.3 else []
    return _Recipe(["inspect", "engine/model.plan", *more], ["engine/model.plan", "engine/model.plan.json"])


_RUN_FILES = {
    "bench": ("run.json", "env.json", "config.json", "records.jsonl"),
    "eval-coco": (
        "run.json",
        "env.json",
        "metrics.json",
        "curves.json",
        "confusion.json",
        "predictions.json",
        "records.jsonl",
    ),
    "eval-llm": ("run.json", "env.json", "metrics.json", "records.jsonl"),
    "eval-stream": ("run.json", "env.json", "metrics.json", "records.jsonl"),
    "profile": ("run.json", "env.json", "metrics.json", "records.jsonl"),
    "infer-engine": ("run.json", "env.json", "metrics.json"),
    "verify": ("run.json", "env.json", "verify.json"),
}


def _run_files(command: str) -> list[str]:
    return [f"runs/{command}/{name}" for name in _RUN_FILES[command]]


def _report(rng: Rng) -> _Recipe:
    command = rng.choice(list(_RUN_FILES))
    more = ["--output", "out/overview"] if rng.random() < 0.5 else []
    return _Recipe(["report", f"runs/{command}", *more], _run_files(command))


def _submit(rng: Rng) -> _Recipe:
    """Names in every writer of `submit`; the files go below `out`."""
    to = rng.choice(("local", "slurm", "kubernetes", "ray"))
    return _Recipe(["submit", "settings/names.yaml", "--to", to], ["settings/names.yaml"])


def _served(rng: Rng) -> _Recipe:
    """A server whose answers are wrong as its path says (servers.py)."""
    url = f"http://127.0.0.1:{os.environ.get(PORT, '9')}/{rng.randrange(10**9)}"
    words = ["verify", "models/plain.onnx", "--backend", "v2", "--url", url, "--option", "timeout_s=1", "--quick"]
    return _Recipe([*words, "--output", "out/run"], ["models/plain.onnx"])


def _served_llm(rng: Rng) -> _Recipe:
    url = f"http://127.0.0.1:{os.environ.get(PORT, '9')}/{rng.randrange(10**9)}"
    words = ["eval-llm", "llm", "--text", "llm/text.txt", "--limit", "20", "--window", "8", "--backends", "openai"]
    options = ["--option", f"openai:url={url}", "--option", "openai:timeout_s=1", "--no-report", "--output", "out/run"]
    return _Recipe([*words, *options], [*_LLM_FILES, "llm/text.txt"])


def _tensors(rng: Rng) -> _Recipe:
    return _Recipe([TENSORS, "models/plain.onnx", str(rng.randrange(10**9))], ["models/plain.onnx"])


_LLM_FILES = [
    "llm/config.json",
    "llm/config.json",
    "llm/model.safetensors",
    "llm/tokenizer.json",
    "llm/tokenizer_config.json",
]


def _check_contract(rng: Rng) -> _Recipe:
    contract, model = rng.choice([("contract.json", "attention.onnx"), ("counted.json", "counted.onnx")])
    words = ["check-contract", f"streaming/{contract}", f"streaming/{model}", "--backend", "ort-cpu"]
    more = ["--static"] if rng.random() < 0.4 else ["--chunks", "4"]
    files = [f"streaming/{contract}"] * 4 + [f"streaming/{model}"]
    return _Recipe([*words, *more, "--output", "out/run"], files)


def _make_contract(rng: Rng) -> _Recipe:
    model, files = rng.choice([("streaming/attention.onnx", ["streaming/attention.onnx"]), _model(rng)])
    more = rng.choice([[], ["--first", "5", "--later", "9"]])
    return _Recipe(["make-contract", model, "-o", "out/made.json", *more], files)


def _eval_stream(rng: Rng) -> _Recipe:
    model, contract, features = (f"streaming/{name}" for name in ("attention.onnx", "audio.json", "features.npy"))
    words = ["eval-stream", model, "--contract", contract, "--backend", "ort-cpu", "--chunks", "6", "--no-report"]
    more, files = rng.choice(
        [
            (["--faults"], [contract, contract, model]),
            (["--streams", "1,2", "--seconds", "0.01", "--hop-ms", "1"], [contract, contract, model]),
            (["--input", features], [features]),
            (["--input", "streaming/sound.wav"], ["streaming/sound.wav", "streaming/sound.wav", contract]),
            (["--reference", "runs/eval-stream"], [f"runs/eval-stream/reference/{name}" for name in _REFERENCE]),
        ]
    )
    return _Recipe([*words, *more, "--output", "out/run"], files)


_REFERENCE = ("record.json", "record.json", "stream.npz", "block-0000.npz")


_PLAN = ["engine/model.plan", "engine/model.plan.json"]
_ARRAYS = ["arrays/x.npy", "arrays/y.npy"]
_INPUTS = " ".join(f"--input {array}" for array in _ARRAYS)
_SCORED = "eval-llm llm --text llm/text.txt --limit 40 --window 16 --backends torch --no-report --output out/run"


def _fixed(text: str, files: Sequence[str] = ()) -> Callable[[Rng], _Recipe]:
    """Return a recipe of words that never change."""
    return lambda _: _Recipe(text.split(), [*files])


def _on_model(command: str, text: str = "") -> Callable[[Rng], _Recipe]:
    """Return a recipe of a command that takes any of the models."""

    def recipe(rng: Rng) -> _Recipe:
        model, files = _model(rng)
        return _Recipe([command, model, *text.split()], files)

    return recipe


_RECIPES: dict[str, tuple[float, Callable[[Rng], _Recipe]]] = {
    "sanitize": (14, _sanitize),
    "check-contract": (10, _check_contract),
    "make-contract": (3, _make_contract),
    "eval-stream": (6, _eval_stream),
    "quantize": (8, _quantize),
    "sensitivity": (4, _sensitivity),
    "infer": (14, _infer),
    "infer-torch": (3, partial(_infer, backend="torch")),
    "infer-plan": (5, _fixed(f"infer-engine engine/model.plan {_INPUTS} --output out/run", [*_PLAN, *_ARRAYS])),
    "profile": (8, _profile),
    "partitions": (8, _on_model("partitions", "--backend ort-cpu --output out/run")),
    "check-target": (3, _on_model("check-target", "--gpu rtx5090 --output out/run")),
    "export-triton": (3, _on_model("export-triton", "--output out/triton")),
    "eval-coco": (14, _coco),
    "build": (10, _build),
    "inspect": (3, _inspect),
    "inspect-model": (3, _on_model("inspect")),
    "predict": (4, _predict),
    "predict-video": (5, _predict_video),
    "verify": (5, _verify),
    "refit": (
        2,
        _fixed("refit-engine engine/model.plan models/plain.onnx -o out/made.plan", [*_PLAN, "models/plain.onnx"]),
    ),
    "bench-plan": (6, _fixed("bench settings/bench.yaml --dry-run", ["settings/bench.yaml"])),
    "bench": (
        0.3,
        _fixed("bench settings/bench.yaml --only sweep --output out/run", ["settings/bench.yaml", "settings/m.onnx"]),
    ),
    "report": (10, _report),
    "history": (
        4,
        _fixed("report runs --output out/history", [file for one in _RUN_FILES for file in _run_files(one)]),
    ),
    "check-node": (3, _fixed("submit settings/run.yaml --check-node", ["settings/run.yaml"])),
    "submit": (6, _submit),
    "served": (10, _served),
    "served-llm": (1, _served_llm),
    "tensors-torch": (3, _tensors),
    "compare": (5, _fixed("compare runs/bench runs/bench", _run_files("bench"))),
    "eval-llm": (4, _fixed(_SCORED, [*_LLM_FILES, "llm/text.txt"])),
    "export-llm": (0.7, _fixed("export-llm llm --output out/made --skip-proof", _LLM_FILES)),
    "backends": (0.3, _fixed("backends")),
    "doctor": (0.3, _fixed("doctor")),
    "build-ort": (0.7, _fixed("build-ort --dry-run")),
    "setup-tensorrt": (
        0.3,
        _fixed("setup-tensorrt --from models --headers-git none --index-url http://127.0.0.1:9/"),
    ),
}
