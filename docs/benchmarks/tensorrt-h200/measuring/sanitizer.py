"""compute-sanitizer's memory checker over a short run: shapes, profiles, slots, graphs, images."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from measuring.cases import SOAK_ENGINE
from measuring.engines import load, plan_path
from measuring.images import scene
from measuring.records import Recorder, say

_IMAGE_ENGINE = "shapes-fp16"
_DONE = "short run: done"


def run_sanitizer(recorder: Recorder, plans: Path, binary: str, timeout_s: float) -> int:
    """Run `exercise` under the memory checker; return 0 if it finished without a finding."""
    script = Path(__file__).parents[1] / "measure.py"
    checker = [binary, "--tool", "memcheck", "--error-exitcode", "9"]
    run = [sys.executable, str(script), "exercise", "--plans", str(plans)]
    try:
        done = subprocess.run([*checker, *run], capture_output=True, text=True, timeout=timeout_s, check=False)
    except (subprocess.TimeoutExpired, FileNotFoundError) as error:
        recorder.add("failure", {"run": "sanitizer", "error": str(error)})
        say(f"sanitizer: FAILED {error}")
        return 1
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    summary = next((line.strip("= ") for line in lines if "ERROR SUMMARY" in line), "no summary")
    finished = _DONE in done.stdout
    result = f"{summary}, the run {'finished' if finished else 'did not finish'}, exit code {done.returncode}"
    clean = done.returncode == 0 and finished and summary.endswith(" 0 errors")
    shown = [Path(word).name if word.startswith("/") else word for word in [*checker, *run]]
    found = {"command": " ".join(shown), "result": result, "clean": clean, "log_tail": lines[-40:]}
    recorder.add("sanitizer", found)
    say(f"sanitizer: {result}")
    return int(not clean)


def exercise(plans: Path) -> None:
    """Run two engines a few times in every way that touches memory differently."""
    from trt_workbench.backends.base import SessionOptions
    from trt_workbench.backends.registry import get_backend
    from trt_workbench.engine import native
    from trt_workbench.pipeline.families import recognise

    rng = np.random.default_rng(0)
    shapes = [(1, 3, 160, 160), (3, 3, 224, 192), (8, 3, 160, 160), (12, 3, 288, 224)]
    engine = load(plan_path(plans, SOAK_ENGINE))
    for graph in (True, False):
        options = native.require("RunnerOptions")(slots=2, cuda_graph=graph)
        with native.require("Runner")(engine, options) as runner:
            for shape in shapes * 3:
                inputs = {"input": rng.uniform(-1, 1, shape).astype(np.float32)}
                ticket = runner.submit(inputs)
                runner.run(inputs)
                runner.wait(ticket)
    with get_backend("trt").load(plan_path(plans, _IMAGE_ENGINE), SessionOptions()) as session:
        transform = recognise(session.inputs, session.outputs, session.metadata).transform()
        for height, width in ((480, 640), (97, 33), (1080, 1920), (1, 1)) * 3:
            image = scene(max(height, 16), max(width, 16))[:height, :width]
            session.run_images([np.ascontiguousarray(image)], transform)  # type: ignore[attr-defined]
    say(_DONE)
