"""Compile models in every format for every architecture: `python table.py FOLDER MODEL=FILE[@PROFILE] …`.

Writes FOLDER/MODEL.FORMAT/check-target.json (a run directory of `check-target`) and FOLDER/table.md. What is there
already is not made again. Ranges for int8 and fp8 come from noise: sizes and types do not depend on them, and
accuracy is not asked here.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from trt_workbench.app import app

FORMATS = ("fp32", "fp16", "bf16", "int8", "fp8", "mxfp8", "nvfp4")
CALIBRATED = ("int8", "fp8")
GPUS = "sm120,sm89,sm86"
MIB = 1 << 20


def main(folder: Path, models: list[str]) -> None:
    """Make candidates, compile them, write the table."""
    lines = [
        "| model | format | ONNX, MiB | " + " | ".join(GPUS.split(",")) + " | layers compute in (the first built) |"
    ]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | --- |")
    for model in models:
        name, _, rest = model.partition("=")
        file, _, profile = rest.partition("@")
        for to in FORMATS:
            candidate, problem = made(Path(file), to, folder / "candidates" / f"{name}.{to}.onnx")
            found = checked(candidate, profile, folder / f"{name}.{to}") if candidate else None
            lines.append(row(name, to, found, problem))
            sys.stdout.write(f"{lines[-1]}\n")
    (folder / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def made(model: Path, to: str, output: Path) -> tuple[Path | None, str]:
    """Return the candidate, or why there is none."""
    if to == "fp32":
        return model, ""
    if output.is_file():
        return output, ""
    data = ["--calibration", "random", "--samples", "8"] if to in CALIBRATED else []
    done = CliRunner().invoke(app, ["quantize", str(model), "--to", to, "--output", str(output), *data])
    error = next((line for line in done.stderr.splitlines() if line.startswith("error: ")), "")
    return (output, "") if done.exit_code == 0 else (None, error.removeprefix("error: "))


def checked(model: Path, profile: str, run: Path) -> dict[str, Any]:
    """Return what `check-target` found."""
    document = run / "check-target.json"
    if not document.is_file():
        words = ["check-target", str(model), "--gpu", GPUS, "--output", str(run)]
        done = CliRunner().invoke(app, [*words, *(["--profile", profile] if profile else [])])
        if not document.is_file():
            raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(document.read_text(encoding="utf-8"))
    return found


def row(name: str, to: str, found: dict[str, Any] | None, problem: str) -> str:
    """Return a line of the table: engine sizes in MiB, or that the compiler refused."""
    if found is None:
        return f"| {name} | {to} | - | - | - | - | no candidate: {problem.rpartition(': ')[0]} |"
    cells = [
        f"{one['engine_size_bytes'] / MIB:.1f}" if one["outcome"] == "built" else one["outcome"]
        for one in found["targets"]
    ]
    computed = next((one["precision"]["text"] for one in found["targets"] if one["precision"]), "-")
    return f"| {name} | {to} | {found['model_size_bytes'] / MIB:.1f} | {' | '.join(cells)} | {computed} |"


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
