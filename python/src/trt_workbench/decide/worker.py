"""The process in which one precision is scored on one runtime: `python -m trt_workbench.decide.worker`.

A crash of a runtime ends this process and becomes a row with its reason. It answers as `bench/worker.py` does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trt_workbench.measure.serving import run_worker
from trt_workbench.measure.worker_process import WorkerProcess
from trt_workbench.system.interpreter import python_command

COMMAND = tuple(python_command("-m", "trt_workbench.decide.worker"))


class Worker:
    """Answers requests; holds nothing between them."""

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Score a model and write the files of the score into a folder.

        Raises:
            WorkbenchError: the model cannot be loaded, run or scored.
        """
        return {"coco": _coco, "arrays": _arrays}[request["verb"]](request)

    def close(self) -> None:
        """Nothing is held."""


def _coco(request: dict[str, Any]) -> dict[str, Any]:
    from trt_workbench.engine.profiles import Profile
    from trt_workbench.evaluate.coco import CocoEvaluation, CocoRequest

    asked: dict[str, Any] = {name: Path(request[name]) for name in ("model", "images", "annotations")}
    asked |= {name: tuple(one) if isinstance(one, list) else one for name, one in request["settings"].items()}
    asked["shapes"] = request["shapes"] and Profile.model_validate(request["shapes"])
    with CocoEvaluation(CocoRequest(**asked)) as evaluation:
        evaluation.run(Path(request["folder"]))
        return {"provenance": evaluation.detector.session.record()}


def _arrays(request: dict[str, Any]) -> dict[str, Any]:
    from trt_workbench.decide.array_scores import score_arrays

    return score_arrays(request)


def start_worker(log: Path) -> WorkerProcess:
    """Start a worker, which prints into `log`."""
    return WorkerProcess(log, COMMAND)


def main() -> None:
    """Run a worker of decide."""
    run_worker(Worker())


if __name__ == "__main__":
    main()
