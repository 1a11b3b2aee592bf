"""Samples through a session of any backend: executed once each, checked, compared, written."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trt_workbench.backends.samples import Sample, file_name
from trt_workbench.core.array_files import load_arrays, save_array, writable
from trt_workbench.core.elements import is_finite
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.start import process_age_s
from trt_workbench.core.tolerance import Deviation, deviation
from trt_workbench.engine.native import early_seconds
from trt_workbench.infer.settings import InferRequest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trt_workbench.backends.base import Session
    from trt_workbench.infer.measured import Measurement


def read_expected(folder: Path, sample: str, outputs: list[str], *, only: bool) -> dict[str, NDArray[Any]]:
    """Return the reference outputs of a sample.

    Looked for as `FOLDER/SAMPLE/OUTPUT.npy`, `FOLDER/SAMPLE.npz`, and, where `only` says that there is one sample,
    `FOLDER/OUTPUT.npy`, or the one folder in FOLDER; so the `outputs/` folder of an earlier run can be named.

    Raises:
        UsageProblem: a reference is missing or no array.
    """
    together = folder / f"{sample}.npz"
    if together.is_file():
        arrays = load_arrays(together)
        if missing := sorted(set(outputs) - arrays.keys()):
            raise UsageProblem(f"The reference lacks the output {missing[0]}: {together}")
        return {name: arrays[name] for name in outputs}
    places = [folder / sample]
    if only:
        inside = [path for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
        places += [folder, *(inside if len(inside) == 1 else [])]
    for place in places:
        files = {name: place / f"{file_name(name)}.npy" for name in outputs}
        if all(file.is_file() for file in files.values()):
            return {name: load_arrays(file)[""] for name, file in files.items()}
    raise UsageProblem(
        f"The reference outputs of sample {sample} are missing: {sample}/{file_name(outputs[0])}.npy and so on, or "
        f"{sample}.npz, in {folder}"
    )


class SampleRun:
    """One run in progress: what it has seen so far.

    Attributes:
        first: inputs of the first sample.
        failures: checks that failed, in sentences.
    """

    def __init__(self, request: InferRequest, folder: Path, session: Session, parts: Mapping[str, float]) -> None:
        """Prepare to write below `folder`. `parts` are the seconds that went by until the session was there."""
        self.first: Mapping[str, NDArray[Any]] = {}
        self.failures: list[str] = []
        self._request, self._folder, self._session = request, folder, session
        self._latencies: list[float] = []
        self._first_result_s, self._parts = 0.0, dict(parts)
        self._outputs: dict[str, dict[str, Any]] = {}

    def execute(self, source: Iterator[Sample]) -> Iterator[dict[str, Any]]:
        """Execute every sample once and yield its record.

        Raises:
            UsageProblem: a sample does not fit the model, or its reference is missing.
            DeviceFailure: the device failed.
        """
        waiting = next(source, None)
        number = 0
        while waiting is not None:
            sample, waiting = waiting, next(source, None)
            self.first = self.first or sample.inputs
            yield self._one(sample, only=number == 0 and waiting is None)
            number += 1

    def metrics(
        self, backend: str, load_s: float, memory: Mapping[str, Any], measured: Measurement | None
    ) -> dict[str, Any]:
        """Return the content of `metrics.json`.

        Args:
            backend: name of the one that executed the model.
            load_s: seconds until the session was there; of a model on `trt`, with its build.
            memory: bytes by purpose.
            measured: None where nothing was measured.
        """
        from trt_workbench.core.statistics.summary import summarize

        request, provenance = self._request, self._session.record()
        comparison = {"expect": str(request.expect), "rtol": request.rtol, "atol": request.atol}
        shapes = {name: {"dtype": array.dtype.name, "shape": list(array.shape)} for name, array in self.first.items()}
        return {
            "schema_version": 2,
            "status": "complete",
            "passed": not self.failures,
            "failures": self.failures,
            "model": str(request.model),
            "model_sha256": self._model_sha256(provenance),
            "backend": backend,
            "backend_requested": request.backend,
            "provenance": provenance,
            "inputs": {"source": list(request.inputs) or f"random, seed {request.seed}", "first": shapes},
            "samples": len(self._latencies),
            "load_s": load_s,
            "first_run_ms": None if self._session.simulated else self._latencies[0],
            "first_result_s": None if self._session.simulated else self._first_result_s,
            "first_result_parts_s": None if self._session.simulated else self._parts,
            "opened_early_s": early_seconds() or None,
            "latency_ms": None if self._session.simulated else summarize(self._latencies),
            "outputs": self._outputs,
            "comparison": comparison if request.expect else None,
            "check_finite": request.check_finite,
            "memory": dict(memory),
            "benchmark": measured.metrics if measured else None,
        }

    def _model_sha256(self, provenance: Mapping[str, Any]) -> str | None:
        """Return the model's hash, for an engine the one that the cache needed; None for a plan."""
        if not self._request.is_model:
            return None
        if manifest := provenance.get("manifest"):
            return str(manifest["model"]["sha256"])
        from trt_workbench.model.opened import sha256_of

        return sha256_of(self._request.model)

    def _one(self, sample: Sample, *, only: bool) -> dict[str, Any]:
        start = time.perf_counter()
        try:
            outputs = self._session.run(sample.inputs)
        except UsageProblem as error:
            raise UsageProblem(f"Sample {sample.name}: {error}") from error
        latency_ms = (time.perf_counter() - start) * 1e3
        self._latencies.append(latency_ms)
        if not self._first_result_s:
            self._first_result_s = process_age_s()
            self._parts["first_call"] = latency_ms / 1e3
            self._parts["rest"] = self._first_result_s - sum(self._parts.values())
        arrays = {name: writable(array) for name, array in outputs.items()}
        expect = self._request.expect
        expected = read_expected(expect, sample.name, list(arrays), only=only) if expect else {}
        found = {name: self._judge(sample, name, array, expected.get(name)) for name, array in arrays.items()}
        if self._request.save:
            target = self._folder / "outputs" / sample.name
            target.mkdir(parents=True, exist_ok=True)
            for name, array in arrays.items():
                save_array(target / f"{file_name(name)}.npy", array)
        record = {"schema_version": 1, "kind": "sample", "sample": sample.name}
        return {**record, "latency_ms": latency_ms, "outputs": found}

    def _judge(self, sample: Sample, name: str, array: NDArray[Any], expected: NDArray[Any] | None) -> dict[str, Any]:
        nonfinite = int(array.size - np.count_nonzero(is_finite(array)))
        document: dict[str, Any] = {"dtype": array.dtype.name, "shape": list(array.shape), "nonfinite": nonfinite}
        total = self._outputs.setdefault(name, {"dtype": array.dtype.name, "nonfinite": 0})
        total["nonfinite"] += nonfinite
        if nonfinite and self._request.check_finite:
            from trt_workbench.backends.overflow import explained_of

            reason = "" if self.failures else explained_of(self._session, [sample.inputs])
            self.failures.append(
                f"Output {name} of sample {sample.name} has NaN or infinite values ({nonfinite}){reason}."
            )
        if expected is not None:
            result = deviation(array, expected, self._request.rtol, self._request.atol)
            document["comparison"] = asdict(result)
            _worst(total, result)
            if not result.passed:
                self.failures.append(_mismatch(sample.name, name, result))
        return document


def _worst(total: dict[str, Any], result: Deviation) -> None:
    """Fold one sample's comparison into the worst over all samples."""
    for key in ("max_abs_error", "max_rel_error"):
        so_far, own = total.get(key, 0.0), getattr(result, key)
        total[key] = None if so_far is None or own is None else max(so_far, own)
    if not result.passed and result.cosine is None:
        total["min_cosine"] = None  # for good: it is as far as can be
    elif result.cosine is not None and (so_far := total.get("min_cosine", 1.0)) is not None:
        total["min_cosine"] = min(so_far, result.cosine)
    for key in ("elements", "mismatches"):
        total[key] = total.get(key, 0) + getattr(result, key)
    total["passed"] = total.get("passed", True) and result.passed


def _mismatch(sample: str, name: str, result: Deviation) -> str:
    if not result.elements:
        return f"Output {name} of sample {sample} has {result.note}."
    largest = None if result.max_abs_error is None else f"largest error {result.max_abs_error:.3g}"
    more = "; ".join(filter(None, (largest, result.note)))
    return (
        f"Output {name} of sample {sample} differs from its reference in {result.mismatches} of {result.elements} "
        f"elements{f' ({more})' if more else ''}."
    )
