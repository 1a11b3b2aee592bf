"""What outputs are compared with: the same model on ONNX Runtime's CPU provider, in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from trt_workbench.backends.preparation import Preparation
from trt_workbench.backends.registry import REFERENCE
from trt_workbench.bench.config import BenchConfig
from trt_workbench.bench.matrix import LLM_KINDS, Point, Work
from trt_workbench.bench.model_files import contract_file
from trt_workbench.bench.worker import TARGET
from trt_workbench.core.workers import WorkerFailure, WorkerProcess, Workers
from trt_workbench.llm import REFERENCE as LLM_REFERENCE


class ReferenceRuns(AbstractContextManager["ReferenceRuns"]):
    """Outputs of the reference by work; the worker behind it is started at the first one. A context manager."""

    def __init__(self, config: BenchConfig, models: Mapping[str, Path], folder: Path) -> None:
        """Prepare; nothing is run yet.

        Args:
            config: what is measured.
            models: files of the models by name.
            folder: for outputs while they are needed, and the worker's log.
        """
        self._config, self._models, self._folder = config, models, folder
        self._workers = Workers(folder / "logs" / "reference.log", TARGET)
        self._work: Work | None = None
        self._made: dict[str, Path] = {}  # of that work, by the model's file
        self._rounding: dict[tuple[str, str, bool], dict[str, Any]] = {}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the worker, at once where an error ends the bench, and remove what it wrote."""
        self._drop()
        self._workers.__exit__(kind, error, trace)

    def compare(self, worker: WorkerProcess, point: Point) -> dict[str, Any]:
        """Compare the outputs of a point that `worker` has loaded with those of the reference.

        Where they are further from them than usual, the error of rounding alone on these inputs is measured:
        random ones can lie where a model amplifies it, such as a picture of the values 0 to 1 in a model for 0 to 255.

        Returns:
            As `output_check.compare_outputs`, with `reference`; or `state` "not compared" with `reason`.

        Raises:
            WorkerFailure: the point failed at its call.
        """
        if point.options.get("state"):
            return {"state": "not compared", "reason": "the state stays on the device, and the reference has none"}
        if point.work.kind in LLM_KINDS:  # one that differs is not loaded, or fails its repetition
            return {"state": "matched", "reason": None, "reference": str(LLM_REFERENCE)}
        made = self._outputs(point)
        if isinstance(made, str):
            return {"state": "not compared", "reason": made}
        request: dict[str, Any] = {"verb": "check", "reference": str(made), "model": str(self._models[point.source])}
        request["point"] = asdict(point)
        found = worker.ask(request, self._config.timeout_s)
        beyond = found["outputs"]["state"] != "matched" and found["outputs"]["tensors"]
        if beyond and (rounding := self._explained(point, made)):
            found = worker.ask({**request, "rounding": rounding}, self._config.timeout_s)
        return {**found["outputs"], "reference": f"{REFERENCE} {_point(point.work).precision}"}

    def _explained(self, point: Point, reference: Path) -> dict[str, Any]:
        """Return the rounding error of each output; empty where that cannot be found."""
        key = point.source, point.precision, point.tf32
        if key not in self._rounding:
            request = {**self._request("rounding", point.work, point.source), "point": asdict(point)}
            try:
                found = self._workers.ask({**request, "reference": str(reference)}, self._config.timeout_s)
            except WorkerFailure:
                found = {"rounding": {}}
            self._rounding[key] = found["rounding"]
        return self._rounding[key]

    def _outputs(self, point: Point) -> Path | str:
        """Return the file with the outputs of the reference, or why there are none."""
        work, model = point.work, self._models[point.source]
        if not self._config.compare_outputs:
            return "the configuration sets compare_outputs: false"
        if model.suffix != ".onnx":
            return f"{model.name} is an engine without its model"
        if work != self._work:
            self._drop()
            self._work = work
        if point.source in self._made:
            return self._made[point.source]
        path = self._folder / f".reference-{len(self._made)}.npz"
        request = {**self._request("reference", work, point.source), "point": asdict(_point(work))}
        try:
            self._workers.ask({**request, "outputs": str(path)}, self._config.timeout_s)
        except WorkerFailure as failure:
            return f"the reference failed: {failure}"
        self._made[point.source] = path
        return path

    def _request(self, verb: str, work: Work, source: str) -> dict[str, Any]:
        entry = self._config.models[work.model]
        contract = contract_file(entry)
        return {
            "verb": verb,
            "model": str(self._models[source]),
            "preparation": vars(Preparation.of(entry)),
            "contract": contract and str(contract),
            "seed": self._config.seed,
        }

    def _drop(self) -> None:
        for path in self._made.values():
            path.unlink(missing_ok=True)
        self._made.clear()
        self._rounding.clear()


def _point(work: Work) -> Point:
    """Return the reference as a point: the model as it was exported, on the processor."""
    return Point(
        work=work, runtime=REFERENCE, entry=REFERENCE, swept={}, backend=REFERENCE, precision="fp32", tf32=False,
        threads=None, concurrency=1, options={},
    )  # fmt: skip
