"""A score of users, `function(outputs, target)`, called sample by sample in a process that may crash or hang."""

from __future__ import annotations

import pkgutil
import runpy
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.array_files import load_arrays, save_arrays
from trt_workbench.core.elements import Kind, kind, widened
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.extensions import SCORES, extensions
from trt_workbench.core.files import scratch_folder
from trt_workbench.core.hashing import hash_arrays, hash_file
from trt_workbench.core.workers import WorkerFailure, WorkerProcess

Arrays = Mapping[str, NDArray[Any]]
_WORSE = {"higher": "falls", "lower": "rises"}
# The function may import a framework, and a sample be large.
_LOAD_S, _SAMPLE_S = 300.0, 60.0


class Judge:
    """What runs in the worker."""

    def open(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Load the function, and what it is called with; return which values it says are better, and its file's hash.

        Raises:
            UsageProblem: there is no such function, or loading it fails.
        """
        place, _, name = request["score"].rpartition(":")
        self._function: Any = None
        with _as_problem("it cannot be loaded"):
            if place.endswith(".py"):
                sys.path.append(str(Path(place).resolve().parent))  # what it imports may lie beside it
                self._function = runpy.run_path(place).get(name)
            else:
                self._function = (
                    pkgutil.resolve_name(request["score"]) if place else extensions(SCORES, ())[name].load()
                )
        if not callable(self._function):
            raise UsageProblem(f"it has no function {name}")
        file = place if place.endswith(".py") else getattr(sys.modules.get(self._function.__module__), "__file__", None)
        self._arrays = [load_arrays(Path(one)) for one in request["arrays"]]
        sys.addaudithook(_refuse_fork)
        return {"better": getattr(self._function, "better", None), "sha256": hash_file(Path(file)) if file else ""}

    def score(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the score of a row of the outputs and one of the targets, numbers in `rows`.

        Raises:
            UsageProblem: the function raises, or returns no finite number.
        """
        outputs, target = (
            {name: array[row].copy() for name, array in arrays.items()}  # which it may change
            for arrays, row in zip(self._arrays, request["rows"], strict=True)
        )
        with _as_problem("it raised an error"):
            found = self._function(outputs, target if len(target) > 1 else next(iter(target.values())))
            value = np.asarray(found)
        if value.shape or value.dtype.kind not in "biuf" or not np.isfinite(value):
            what = f"an array of shape {list(value.shape)}" if value.shape else repr(found)
            raise UsageProblem(f"it returned {what:.80}, and a score is one finite number")
        return {"value": float(value)}


TARGET = f"{Judge.__module__}:{Judge.__name__}"


def _refuse_fork(event: str, _: object) -> None:
    if event == "os.fork":  # the copy would answer, too
        raise RuntimeError("a score cannot fork its process; start programs with subprocess")


@contextmanager
def _as_problem(what: str) -> Iterator[None]:
    """Raise what the user's code raises as UsageProblem, with the line of it."""
    try:
        yield
    except (Exception, SystemExit) as error:
        frames = (one for one in traceback.extract_tb(error.__traceback__) if one.filename != __file__)
        at = next((f", line {one.lineno} of {one.filename}" for one in frames if Path(one.filename).is_file()), "")
        raise UsageProblem(f"{what} ({type(error).__name__}: {error}{at})") from error


@dataclass(frozen=True)
class OwnScore:
    """A function that was loaded once.

    Attributes:
        score: as `--score` names it.
        better: which values are better, "higher" or "lower".
        sha256: of the file that holds it.
    """

    score: str
    better: str
    sha256: str

    @classmethod
    def loaded(cls, score: str, better: str | None) -> OwnScore:
        """Return the score that `--score` and `--better` ask for. Raises UsageProblem."""
        with scratch_folder() as folder, WorkerProcess(folder / "score.log", TARGET) as worker:
            found = _asked(worker, score, _LOAD_S, {"verb": "open", "arrays": []})
        better = better or found["better"]
        if better not in _WORSE:
            raise UsageProblem(
                f"Which values of --score {score} are better? Pass --better higher or --better lower, or set the "
                f'attribute: {score.rpartition(":")[2]}.better = "lower"'
            )
        return cls(score, better, found["sha256"])

    def of(
        self,
        outputs: Arrays,
        targets: Arrays,
        names: Sequence[str],
        log: Path,
        guessed: Sequence[float] | None = None,
    ) -> dict[str, Any]:
        """Return fields of `SampleScores`.

        Args:
            outputs: of the model by name, each [samples, ...].
            targets: likewise.
            names: of the samples.
            log: what the function prints is added there.
            guessed: scores of a guess; None to find them: of the mean of the outputs for every sample, and of another
                sample's outputs, those that are better.

        Raises:
            UsageProblem: the function fails on a sample, which is named.
        """
        count, guesses = len(names), list[list[float]]()
        # behind the samples is their mean; of whole numbers and texts, which may be no quantities, the first has to do
        means = {name: widened(one).mean(axis=0) if kind(one) is Kind.REAL else one[0] for name, one in outputs.items()}
        rows = {name: np.concatenate([one, means[name][None].astype(one.dtype)]) for name, one in outputs.items()}
        with scratch_folder() as folder, WorkerProcess(log, TARGET) as worker:
            files = [folder / "outputs.npz", folder / "targets.npz"]
            for file, arrays in zip(files, (rows, targets), strict=True):
                save_arrays(file, arrays)
            _asked(worker, self.score, _LOAD_S, {"verb": "open", "arrays": files})

            def values(places: Iterable[int]) -> list[float]:
                asked = zip(names, places, range(count), strict=True)
                requests = ((name, {"verb": "score", "rows": rows}) for name, *rows in asked)
                return [_asked(worker, self.score, _SAMPLE_S, one, name)["value"] for name, one in requests]

            found = values(range(count))
            for places in ([count] * count, [*range(1, count), 0]) if guessed is None and count > 1 else ():
                with suppress(UsageProblem):  # a mean may be nothing that it takes
                    guesses.append(values(places))
        best = max if self.better == "higher" else min
        return {
            "own": found,
            "guessed": best(guesses, key=np.mean, default=()) if guessed is None else guessed,
            "worse": _WORSE[self.better],
            "key": f"{self.sha256}:{hash_arrays(targets)}",
        }


def _asked(
    worker: WorkerProcess, score: str, limit_s: float, request: Mapping[str, Any], sample: str = ""
) -> dict[str, Any]:
    try:
        return worker.ask({"score": score, **request}, limit_s)
    except WorkerFailure as failure:
        where = f" Sample: {sample}" if sample else ""
        raise UsageProblem(f"--score {score} failed: {failure}.{where}") from failure
