"""Measure language models on every runtime that serves here: tiny-lm's perplexity, the speed of a random GPT-2 of 124M.

    python tasks/benchmarks/eval-llm/measure.py --output DIR [--runs perplexity,speed-prefill,…] [--layers 12]
    python tasks/benchmarks/eval-llm/measure.py --output DIR --report

One run directory for each run, in DIR: of eval-llm, and of bench by speed.yaml. A run that is there is not made again,
so a call that was cut short can be repeated. At the end DIR/README.md is written from the metrics.json of eval-llm.
GPT-2's weights are random: speed does not depend on them, and its tokenizer is the embedded model's.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
TINY_LM = ROOT / "models" / "tiny-lm"
SPEED = Path(__file__).with_name("speed.yaml")
BACKENDS = (
    "torch:fp32",
    "torch:fp16",
    "torch-compile:fp16",
    "ort-cpu:fp32",
    "ort-cuda:fp32",
    "ort-cuda:fp16",
    "trt:fp32",
    "trt:fp16",
)
# What is measured of each scenario of speed.yaml: generation in fp16, and on TensorRT in fp32, too.
SPEEDS = {
    "prefill": ["prefill/*"],
    **{f"cached-{n}": [f"cached/* b{n} */{name}" for name in ("*fp16", "trt")] for n in (1, 4)},
    "generate": ["generate/*/torch-fp16", "generate/*/ort-cuda-fp16", "generate/*/trt*"],
}


def runs(gpt2: Path, backends: list[str]) -> dict[str, list[str]]:
    """The commands by name of the run, what is worth most first."""
    gate = ["--batch", "4", "--max-ppl-increase", "1"]
    made = {"perplexity": ["eval-llm", str(TINY_LM), *gate, "--backends", ",".join(backends)]}
    for name, patterns in SPEEDS.items():
        only = [word for pattern in patterns for word in ("--only", pattern)]
        made[f"speed-{name}"] = ["bench", str(SPEED), "--model", f"gpt2={gpt2}", "--skip-unavailable", *only]
    return made


def make_gpt2(folder: Path, layers: int) -> None:
    """A GPT-2 of 124 million parameters with random weights, and the embedded model's tokenizer."""
    if (folder / "model.safetensors").is_file():
        return
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TINY_LM / name, folder)
    GPT2LMHeadModel(GPT2Config(n_layer=layers)).save_pretrained(folder)


def say(text: str) -> None:
    """Tell how far it is."""
    sys.stderr.write(f"{text}\n")


def serving() -> list[str]:
    """Backends that serve here, as eval-llm takes them."""
    from trt_workbench.backends.registry import availability

    for name in ("ort-cuda", "trt"):
        if not (found := availability(name)).ok:
            say(f"{name} cannot serve: {found.reason}")
    return [name for name in BACKENDS if availability(name.partition(":")[0]).ok]


def is_done(run: Path) -> bool:
    """Whether there is a run, and not only the part of one that was interrupted."""
    return run.is_file() and json.loads(run.read_text(encoding="utf-8"))["status"] == "complete"


def measure(options: argparse.Namespace) -> bool:
    """Make every run that is not there in whole; return whether each one was made."""
    gpt2 = options.output / "models" / "gpt2"
    make_gpt2(gpt2, options.layers)
    backends = options.backends.split(",") if options.backends else serving()
    complete = True
    for name, words in runs(gpt2, backends).items():
        target = options.output / name
        if (options.runs and name not in options.runs.split(",")) or is_done(target / "run.json"):
            continue
        trtw = str(Path(sys.executable).with_name("trtw"))
        say(f"== {name}")
        command = [trtw, *words, "--output", str(target)]
        # a gate that fails (1) is a result
        status = subprocess.run(command, check=False).returncode
        if status not in (0, 1):
            say(f"== {name} ended with exit code {status}")
            complete = False
    return complete


_MADE = (
    "Made by `measure.py --report` from each run's `metrics.json`, and from its `note.md` where something needs to be",
    "said. The command line is in `env.json`, repetitions in `records.jsonl`, engines and providers in the",
    "provenance of `metrics.json`. GPT-2 has the shape of the 124M model and random weights.",
    "",
    "The runs `gpt2-*` were timed by eval-llm, which had a clock of its own until bench became the one stopwatch.",
    "`trtw bench tasks/benchmarks/eval-llm/speed.yaml --model gpt2=DIR` measures the same",
    "work now (`measure.py` makes the model, and runs it): cached generation",
    "[of one sequence](bench-cached-b1/report.md) on 3ab1e0e3 and [of four](bench-cached-b4/report.md) on cffde732,",
    "each on one of two H100 while engines were built or models measured on the other, and",
    "[prefill of one sequence](../bench-h200/gpt2/report.md) on an H200. The rest is still to be measured.",
)


def summarise(output: Path) -> str:
    """A page with the figures of all runs."""
    parts = ["# Language models by eval-llm", "", *_MADE, ""]
    for path in sorted(output.glob("*/metrics.json")):
        metrics: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        environment = json.loads((path.parent / "env.json").read_text(encoding="utf-8"))
        gpu = next((gpu["name"] for gpu in environment["driver"]["gpus"]), "no GPU")
        versions = {name: environment["packages"].get(name) for name in ("onnxruntime-gpu", "torch", "transformers")}
        timing = metrics.get("timing", [])  # of older versions
        rows = [*metrics["backends"], *timing]
        versions["TensorRT"] = next((row["provenance"]["tensorrt"] for row in rows if row["backend"] == "trt"), None)
        stack = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
        commit = str(environment["git"]["commit"])[:8]
        ran = f"{Path(metrics['model']['path']).name} on one {gpu}; {stack}; commit {commit}."
        parts += [f"## {path.parent.name}", "", ran, ""]
        if metrics["backends"]:
            parts += ["| backend | perplexity | change | largest logit difference | top-1 the same | mean KL, nats |"]
            parts += ["| --- | --- | --- | --- | --- | --- |", *map(_perplexity_row, metrics["backends"]), ""]
            parts += [metrics["recipe"]["text"], ""]
        if timing:
            parts += [
                "| mode | backend | batch x prompt | first token, ms | each further, ms | tokens/s | same tokens |"
            ]
            parts += ["| --- | --- | --- | --- | --- | --- | --- |", *map(_timing_row, timing), ""]
        if (note := path.with_name("note.md")).is_file():
            parts += [note.read_text(encoding="utf-8")]
    return "\n".join(parts)


def _perplexity_row(row: dict[str, Any]) -> str:
    figures = [row[key] for key in ("relative_difference", "max_logit_difference", "kl_divergence")]
    change, difference, kl = ("-" if figure is None else f"{figure:.2e}" for figure in figures)
    perplexity = "-" if row["perplexity"] is None else f"{row['perplexity']:.4f}"
    top1 = f"{row['top1_agreement']:.4%}"
    return f"| {row['backend']}:{row['precision']} | {perplexity} | {change} | {difference} | {top1} | {kl} |"


def _timing_row(row: dict[str, Any]) -> str:
    each = f"{row['time_per_token_ms']['p50']:.3f}" if row["time_per_token_ms"] else "-"
    first = row.get("agreement", row)["first_difference"]  # older runs have it in the row itself
    same = "all" if first is None else f"first {first}"
    return (
        f"| {row['mode']} | {row['backend']}:{row['precision']} | {row['batch']}x{row['prompt_tokens']} | "
        f"{row['time_to_first_token_ms']['p50']:.3f} | {each} | "
        f"{row['tokens_per_s']['p50']:.1f} | {same} |"
    )


def main() -> int:
    """Measure, then write the page; return 1 if a run failed."""
    parser = argparse.ArgumentParser(description="Measure language models on every runtime available here.")
    parser.add_argument("--output", type=Path, required=True, help="folder for the run directories and the page")
    parser.add_argument("--runs", help="only these, comma-separated")
    parser.add_argument("--backends", help="as for eval-llm; by default all available ones")
    parser.add_argument(
        "--layers", type=int, default=12, help="layers of the GPT-2 (default: %(default)s, 124M parameters)"
    )
    parser.add_argument("--report", action="store_true", help="only write the page")
    options = parser.parse_args()
    complete = options.report or measure(options)
    (options.output / "README.md").write_text(summarise(options.output) + "\n", encoding="utf-8")
    return int(not complete)


if __name__ == "__main__":
    sys.exit(main())
