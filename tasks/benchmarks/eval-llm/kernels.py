"""Name the kernels of a single-token step on `trt` and what they take, by CUPTI through PyTorch's profiler.

    python tasks/benchmarks/eval-llm/kernels.py MODEL_DIR [--batch 1] [--precision fp16] [--prompt 32] [--capacity 512]

One line a kernel: microseconds of a step, launches of a step, microseconds of a launch, grid, block, name. Kernels that
run at the same time count in full.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

STEPS, WARMUP = 50, 20
KINDS = ("kernel", "gpu_memcpy", "gpu_memset")


def main() -> int:
    """Trace steps of a greedy generation and print their kernels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    for name, default in (("batch", 1), ("prompt", 32), ("capacity", 512)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--precision", default="fp16")
    options = parser.parse_args()
    events = trace(options)
    by_name: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        by_name[event["name"]].append(event)
    busy = sum(event["dur"] for event in events)
    lines = [f"{len(events) / STEPS:.0f} kernels and copies, {busy / STEPS:.1f} us a step"]
    for name, found in sorted(by_name.items(), key=lambda item: -sum(event["dur"] for event in item[1])):
        took, shape = sum(event["dur"] for event in found), found[0].get("args", {})
        figures = f"{took / STEPS:8.1f} us {len(found) / STEPS:6.1f} x {took / len(found):7.2f} us"
        lines.append(f"{figures}  {shape.get('grid')} {shape.get('block')} {name}")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def trace(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the GPU's events of STEPS steps; `dur` is in microseconds."""
    import numpy as np
    import torch
    from torch.profiler import ProfilerActivity, profile

    from trt_workbench.llm.opening import ModelSource, open_cached
    from trt_workbench.llm.settings import BackendChoice
    from trt_workbench.model.llm_directory import examine_llm_directory
    from trt_workbench.model.opsets import DEFAULT_OPSET

    torch.zeros(1, device="cuda")
    source = ModelSource(examine_llm_directory(options.model), "auto", DEFAULT_OPSET, None, lambda _: None)
    choice = BackendChoice("trt", options.precision)
    model = open_cached(choice, source, options.batch, options.prompt, options.capacity)
    prompt = np.random.default_rng(0).integers(0, 1000, (options.batch, options.prompt))
    chosen = model.prefill(prompt, options.capacity).argmax(-1)
    for _ in range(WARMUP):
        chosen = model.step(chosen).argmax(-1)
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(STEPS):
            chosen = model.step(chosen).argmax(-1)
        torch.cuda.synchronize()
    model.close()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return [event for event in events if event.get("cat") in KINDS]


if __name__ == "__main__":
    sys.exit(main())
