"""One model on one backend in one precision: written, opened, verified, recorded."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from trt_workbench.core.documents import write_json
from trt_workbench.core.errors import WorkbenchError
from trt_workbench.core.files import anything
from trt_workbench.model.opened import Model
from trt_workbench.verify.bisect import bisect
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.outcome import Verified
from trt_workbench.verify.reproduction import bisected_document, write_bisected
from trt_workbench.verify.run import verify
from trt_workbench.verify.settings import Range
from zoo.table import Entry, entries

SCHEMA_VERSION = 1
NOT_RUN = "not run"
TENSORRT = "trt"
# Sources of kernels that take seconds to load or to compile for: left out, and the report says so.
_SLOW_SOURCES = {"cublas", "cublas_lt", "cudnn", "jit_convolutions"}
_KEPT_FAILURES = 3


@dataclass(frozen=True)
class Job:
    """What is verified.

    Attributes:
        model: name of its entry.
        backend: that executes it.
        precision: that the backend is asked for.
        level: TensorRT's optimisation level; 0 on other backends.
        batch: the batch is fixed to it in the graph; 0 leaves it free.
    """

    model: str
    backend: str
    precision: str
    level: int = 0
    batch: int = 0

    @property
    def label(self) -> str:
        """Return a name for files and people."""
        fixed = f"-b{self.batch}" if self.batch else ""
        level = f"-level{self.level}" if self.backend == TENSORRT else ""
        return f"{self.model}{fixed}-{self.backend}-{self.precision}{level}"


def run(job: Job, work: Path, bisect_s: float = 0.0) -> dict[str, Any]:
    """Verify one model and return its record.

    Args:
        job: which.
        work: folder of models and engines; the run directory of a wrong one is kept in its folder `wrong`.
        bisect_s: seconds to look for the wrong part of a wrong one, with what was found out in an earlier call.
    """
    entry = next(one for one in entries() if one.name == job.model)
    now = datetime.datetime.now(datetime.UTC).isoformat()
    record: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "at": now, **asdict(job), "group": entry.group}
    started = time.monotonic()
    times: dict[str, float] = {}
    folder = Path(tempfile.mkdtemp(prefix="verify-", dir=_made(work / "runs")))
    try:
        path, record["words"] = _model(entry, job.batch, _made(work / "models"))
        times["write_s"] = time.monotonic() - started
        request = _request(job, entry, path)
        started_at = time.monotonic()

        def step(_: str) -> None:
            times.setdefault("open_s", time.monotonic() - started_at)  # before the first case: everything is open

        found = verify(request, folder, step=step)
        times["verify_s"] = time.monotonic() - started_at - times["open_s"]
        record |= _summed_up(found.document, found.failures)
        if found.failures:
            kept = _kept(found, path, folder, work / "wrong" / job.label)
            if bisect_s:
                record["bisect"] = _bisected(request, found, kept, bisect_s)
    except Exception as error:  # whatever one model does, the next is tried
        known = type(error).__module__.startswith("trt_workbench")
        text = str(error) if known else "".join(traceback.format_exception(error, limit=-3))
        record |= {"verdict": NOT_RUN, "reason": f"{type(error).__name__}: {text[-1500:]}"}
    finally:
        shutil.rmtree(folder)
    record |= {name: round(seconds, 2) for name, seconds in times.items()}
    return {**record, "total_s": round(time.monotonic() - started, 2)}


def _request(job: Job, entry: Entry, path: Path) -> VerifyRequest:
    free = [name for name in entry.ranges if not (job.batch and name == entry.batch)]
    ranges = {name: Range(*entry.ranges[name]) for name in free}
    return VerifyRequest(
        target=path, backend=job.backend, precision=job.precision, ranges=ranges, options=_options(job), quick=True
    )


def _summed_up(document: Mapping[str, Any], failures: Sequence[str]) -> dict[str, Any]:
    return {
        "verdict": document["verdict"],
        "ran": document["precision"],
        "tensorrt": document["provenance"].get("tensorrt"),
        "cases": [case["label"] for case in document["cases"]],
        "unverified": [
            f"{case['label']}: {case['reason']}" for case in document["cases"] if case["verdict"] == "unverified"
        ],
        "outputs": sum(len(case["outputs"]) for case in document["cases"]),
        "undecided": sum(row["verdict"] == "undecided" for case in document["cases"] for row in case["outputs"]),
        "worst": worst(document),
        "failures_count": len(failures),
        "failures": list(failures[:_KEPT_FAILURES]),
    }


def _kept(found: Verified, model: Path, run: Path, place: Path) -> Path:
    """Move the run directory of a wrong model to `place`, with the model; what a bisection left there stays."""
    write_json(run / "verify.json", found.document, over=anything)
    for file in model.parent.glob(f"{model.stem}.*"):
        shutil.copy(file, run)
    shutil.rmtree(place / "failures", ignore_errors=True)
    shutil.copytree(run, place, dirs_exist_ok=True)
    return place


def _bisected(request: VerifyRequest, found: Verified, folder: Path, seconds: float) -> dict[str, Any]:
    try:
        part = bisect(request, found, folder, seconds)
        write_bisected(request, part, folder)
    except (WorkbenchError, OSError) as error:
        return {"reason": f"{type(error).__name__}: {error}"}
    return bisected_document(request, part)


def worst(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the float output that takes the largest share of what its precision explains; None without any."""
    found: dict[str, Any] | None = None
    for case in document["cases"]:
        for row in case["outputs"]:
            limit = (row.get("limits") or {}).get(document["precision"], {}).get("rel_l2")
            apart = (row.get("difference") or {}).get("rel_l2")
            if not limit or apart is None or row["verdict"] == "undecided":
                continue
            if found is None or apart / limit > found["rel_l2"] / found["limit"]:
                found = {"rel_l2": apart, "limit": limit, "case": case["label"], "output": row["output"]}
    return found


def _options(job: Job) -> dict[str, Any]:
    if job.backend != TENSORRT:
        return {}
    from trt_workbench.engine import native

    known = set(native.require("option_names")()["tactic_sources"])
    # named as the native core names them
    sources = sorted(f"-{name}" for name in known if name.lower() in _SLOW_SOURCES)
    return {"optimization_level": job.level, "tactic_sources": sources}


def _model(entry: Entry, batch: int, folder: Path) -> tuple[Path, list[str]]:
    """Return the ONNX file, written if it is not there, and the words that tell of it."""
    path = folder / (f"{entry.name}-b{batch}.onnx" if batch else f"{entry.name}.onnx")
    note = path.with_suffix(".json")
    with FileLock(path.with_suffix(".lock")):  # two jobs at once may have the same model
        if not note.exists():
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                made = Path(scratch) / path.name
                words = entry.write(made)
                if batch:
                    _fix(made, entry.batch, batch)
                Path(scratch, note.name).write_text(json.dumps(words or []), encoding="utf-8")
                for file in made.parent.glob("*.onnx*"):
                    file.replace(folder / file.name)
                Path(scratch, note.name).replace(note)  # last: it says that the model is whole
    return path, json.loads(note.read_text(encoding="utf-8"))


def _fix(path: Path, symbol: str, batch: int) -> None:
    from trt_workbench.model.sanitize.rewrites import SanitizeSettings
    from trt_workbench.model.sanitize.sanitize import chosen_rewrites, sanitize
    from trt_workbench.model.weights import save_model

    model, _ = sanitize(Model.open(path), chosen_rewrites(only=["freeze-dims"]), SanitizeSettings(dims={symbol: batch}))
    save_model(model, path)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def serve(work: Path, bisect_s: float) -> None:
    """Answer jobs on standard input with records on standard output, a line each, until it ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no answer
    for line in sys.stdin:
        record = run(Job(**json.loads(line)), work, bisect_s)
        answers.write(json.dumps(record) + "\n")
        answers.flush()
