"""compute-sanitizer's memory checker over short runs: shapes, profiles, slots, graphs, images."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import numpy as np

from measuring.cases import SOAK_ENGINE
from measuring.engines import load, plan_path
from measuring.images import scene
from measuring.records import Budget, Recorder, read_records, say

_IMAGE_ENGINE = "shapes-fp16"
_OPTIONS = ("--tool", "memcheck", "--error-exitcode", "9")
_SHAPES = ((1, 3, 160, 160), (3, 3, 224, 192), (8, 3, 160, 160), (12, 3, 288, 224))
_CORE, _REFERENCE = "core", "trtexec"
_BRIEF = ("--warmUp=0", "--duration=0", "--iterations=3")


def run_sanitizer(recorder: Recorder, plans: Path, binary: str, trtexec: Path | None, budget: Budget) -> int:
    """Run each of `_runs` under the memory checker; return how many of the workbench's did not end without a finding.

    What an earlier call recorded is not run again and counts as it ended then. trtexec runs for comparison: kernels of
    TensorRT that the checker stops are stopped there, too.
    """
    records = read_records(recorder.folder, "sanitizer")
    clean = {record["run"]: record["clean"] for record in records if "run" in record}
    for name, run in _runs(plans, trtexec).items():
        if name in clean:
            continue
        if name == _CORE:  # builds its engines, which takes long under the checker
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(run, capture_output=True, timeout=max(1.0, budget.left_s()), check=False)
        clean[name] = _check(recorder, name, [binary, *_OPTIONS], run, max(1.0, budget.left_s()))
    return sum(not ended_well for name, ended_well in clean.items() if name != _REFERENCE)


def _runs(plans: Path, trtexec: Path | None) -> dict[str, list[str]]:
    """Command lines by name."""
    measure = Path(__file__).parents[1] / "measure.py"
    core = Path(__file__).parents[4] / "tests" / "gpu" / "native" / "memcheck_target.py"
    found = {"engines": [sys.executable, str(measure), "exercise", "--plans", str(plans)]}
    found[_CORE] = [sys.executable, str(core), str(plans / "memcheck")]
    if trtexec:
        plan = plan_path(plans, SOAK_ENGINE)
        shape = "x".join(map(str, _SHAPES[0]))
        found[_REFERENCE] = [str(trtexec), f"--loadEngine={plan}", f"--shapes=input:{shape}", *_BRIEF]
    return found


def _check(recorder: Recorder, name: str, checker: list[str], run: list[str], timeout_s: float) -> bool:
    try:
        done = subprocess.run([*checker, *run], capture_output=True, text=True, timeout=timeout_s, check=False)
    except (subprocess.TimeoutExpired, FileNotFoundError) as error:
        recorder.add("failure", {"run": f"sanitizer {name}", "error": str(error)})
        say(f"sanitizer {name}: FAILED {error}")
        return False
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    summary = next((line.strip("= ") for line in lines if "ERROR SUMMARY" in line), "no summary")
    clean = done.returncode == 0 and summary.endswith(" 0 errors")
    shown = " ".join(Path(word).name if word.startswith("/") else word for word in [*checker, *run])
    found = {"run": name, "command": shown, "result": f"{summary}, exit code {done.returncode}", "clean": clean}
    findings = [line for line in lines if line.startswith("=")]  # what the program prints begins otherwise
    recorder.add("sanitizer", {**found, "findings_head": findings[:60], "log_tail": lines[-20:]})
    say(f"sanitizer {name}: {found['result']}")
    return clean


def exercise(plans: Path) -> None:
    """Run two engines a few times in every way that touches memory differently."""
    from trt_workbench.backends.base import SessionOptions
    from trt_workbench.backends.registry import get_backend
    from trt_workbench.engine import native
    from trt_workbench.vision.families import recognise

    rng = np.random.default_rng(0)
    engine = load(plan_path(plans, SOAK_ENGINE))
    for graph in (True, False):
        options = native.require("RunnerOptions")(slots=2, cuda_graph=graph)
        with native.require("Runner")(engine, options) as runner:
            for shape in _SHAPES * 3:
                inputs = {"input": rng.uniform(-1, 1, shape).astype(np.float32)}
                ticket = runner.submit(inputs)
                runner.run(inputs)
                ticket.result()
    with get_backend("trt").load(plan_path(plans, _IMAGE_ENGINE), SessionOptions()) as session:
        transform = recognise(session.inputs, session.outputs, session.metadata).transform()
        for height, width in ((480, 640), (97, 33), (1080, 1920), (1, 1)) * 3:
            image = scene(max(height, 16), max(width, 16))[:height, :width]
            session.run_images([np.ascontiguousarray(image)], transform)  # type: ignore[attr-defined]
