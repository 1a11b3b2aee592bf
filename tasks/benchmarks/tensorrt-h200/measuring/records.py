"""Records of a measurement: one JSON line a run, every sample beside it, the environment and the GPU's state."""

from __future__ import annotations

import datetime
import gzip
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

SCHEMA_VERSION = 1
_STATE = ("sm_clock_mhz", "memory_clock_mhz", "power_w", "temperature_c", "throttle_reasons", "compute_processes")


class Budget:
    """Wall-clock time that a command may take, so that it ends by itself and can be continued later."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def allows(self, seconds: float) -> bool:
        """Whether `seconds` more fit."""
        return time.monotonic() + seconds < self._end

    def left_s(self) -> float:
        """Seconds that are left."""
        return self._end - time.monotonic()


class Recorder:
    """Appends to `records.jsonl` and `samples.jsonl.gz` of a folder.

    Attributes:
        folder: where the files are.
    """

    def __init__(self, folder: Path, command: str) -> None:
        """Make the folder and write `env-<command>.json`."""
        from trt_workbench.core.documents import write_json
        from trt_workbench.core.environment import collect_environment
        from trt_workbench.core.files import anything

        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / f"env-{command}.json", collect_environment(sys.argv), over=anything)

    def add(self, kind: str, record: Mapping[str, Any], samples: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Append one record, and its samples (ms by name, kept to 0.1 µs)."""
        now = datetime.datetime.now(datetime.UTC)
        line = {"schema_version": SCHEMA_VERSION, "kind": kind, "at": now.isoformat(), **record, "gpu": gpu_state()}
        if samples is not None:
            line["sample_id"] = f"{kind}-{now:%H%M%S%f}"
            counts = {name: np.rint(np.asarray(ms) * 1e4).astype(int) for name, ms in samples.items()}
            values = {f"{name}_100ns": count.tolist() for name, count in counts.items()}
            with gzip.open(self.folder / "samples.jsonl.gz", "at", encoding="utf-8", compresslevel=6) as file:
                file.write(json.dumps({"sample_id": line["sample_id"], **values}, separators=(",", ":")) + "\n")
        with (self.folder / "records.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")
        return line


def read_records(folder: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """Return the records of a folder in the order of their making; empty without any."""
    return [record for record in _lines(folder / "records.jsonl") if kind in (None, record["kind"])]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if path.is_file():
        with path.open(encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)


def summary(ms: Sequence[float] | Any) -> dict[str, float]:
    """Return count, mean, median (the middle two averaged, as trtexec does), percentiles and extremes in ms."""
    values = np.asarray(ms, np.float64)
    marks = np.percentile(values, (1, 50, 90, 99), method="averaged_inverted_cdf")
    named = dict(zip(("p1", "median", "p90", "p99"), map(float, marks), strict=True))
    return {
        "count": int(values.size),
        "mean": float(values.mean()),
        **named,
        "min": float(values.min()),
        "max": float(values.max()),
    }


def gpu_report() -> dict[str, Any] | None:
    """Return what the driver reports of the GPU that this process works on; None without one."""
    from trt_workbench.core.gpu import driver_report, nvml_name

    name = nvml_name(0, os.environ.get("CUDA_VISIBLE_DEVICES"))
    for index, gpu in enumerate(driver_report()["gpus"]):
        if index == name or (isinstance(name, str) and str(gpu["uuid"]).startswith(name)):
            found: dict[str, Any] = gpu
            return found
    return None


def gpu_state() -> dict[str, Any] | None:
    """Return clocks, power, temperature and what else disturbs, of this process's GPU; None without one."""
    gpu = gpu_report()
    return {name: gpu[name] for name in _STATE} if gpu else None


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
