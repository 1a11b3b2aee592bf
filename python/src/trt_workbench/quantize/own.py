"""A score of users, `function(outputs, target)`, called sample by sample in a process that may crash or hang."""

from __future__ import annotations

import importlib.metadata
import pkgutil
import runpy
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.array_files import load_arrays, save_arrays
from trt_workbench.core.elements import Kind, kind, widened
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.extensions import SCORES, extensions
from trt_workbench.core.files import scratch_folder
from trt_workbench.core.hashing import hash_arrays, hash_file
from trt_workbench.core.statistics.bootstrap import another, draw_counts, step_of
from trt_workbench.core.workers import WorkerFailure, WorkerProcess
from trt_workbench.quantize.settings import ArrayMetric

Arrays = Mapping[str, NDArray[Any]]
_WORSE = {"higher": "falls", "lower": "rises"}
# The function may import a framework, and a sample be large.
_LOAD_S, _SAMPLE_S = 300.0, 60.0
_LARGEST = 1e100
# What calls the user's code, and says nothing of a fault in it.
_LOADING = (__file__, pkgutil.__file__, importlib.__file__, importlib.metadata.__file__)


class Judge:
    """What runs in the worker.

    Attributes:
        at_work: whether this process is a worker, where no score is loaded in another one: a script that calls its
            command when it is loaded would start workers without end.
    """

    at_work = False

    def open(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Load the function, and what it is called with; return fields of `OwnScore`.

        Raises:
            UsageProblem: there is no such function, or loading it fails.
        """
        place, _, name = request["score"].rpartition(":")
        Judge.at_work = True
        self._function: Any = None
        with _as_problem("it cannot be loaded"):
            # beside the file lies what it imports; a module may lie in the current folder
            sys.path.append(str(Path(place or name).resolve().parent))
            if place.endswith(".py"):
                self._function = runpy.run_path(place).get(name)
            else:
                self._function = (
                    pkgutil.resolve_name(request["score"]) if place else extensions(SCORES, ())[name].load()
                )
        if not callable(self._function):
            raise UsageProblem(f"it has no function {name}")
        file = place if place.endswith(".py") else getattr(sys.modules.get(self._function.__module__), "__file__", None)
        self._outputs, targets = map(load_arrays, map(Path, request["arrays"])) if request["arrays"] else ({}, {})
        self._targets: dict[str, dict[str, Any]] = {}
        for place, one in targets.items():
            row, _, name = place.partition("/")
            self._targets.setdefault(row, {})[name] = one[()]
        sys.addaudithook(_refuse_fork)
        return {
            "better": getattr(self._function, "better", None),
            "sha256": hash_file(Path(file)) if file else "",
            "folds": callable(getattr(self._function, "fold", None)),
        }

    def score(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the numbers, by name, of a row of the outputs and one of the targets, whose numbers are in `rows`.

        Raises:
            UsageProblem: the function raises, or returns no finite number.
        """
        row, target = request["rows"]
        outputs = {name: array[row].copy() for name, array in self._outputs.items()}  # which it may change
        wanted = {name: one.copy() for name, one in self._targets[str(target)].items()}
        with _as_problem("it raised an error"):
            found = self._function(outputs, _alone(wanted))
            named = found if isinstance(found, Mapping) and found else {"": found}
            return {"values": {str(name): _number("it returned", value) for name, value in named.items()}}

    def fold(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the score of all samples, then of each resample by `seed`, given the `values` of each by name.

        Raises:
            UsageProblem: the function's `fold` raises, or returns no finite number.
        """
        values = {name: np.array([one[name] for one in request["values"]]) for name in request["values"][0]}
        count, drawn = len(request["values"]), []
        for counts in (np.ones(count, np.int32), *draw_counts(count, request["seed"])):
            places = np.repeat(np.arange(count), counts)
            with _as_problem("its fold raised an error"):
                taken = {name: one[places] for name, one in values.items()}
                drawn.append(_number("its fold returned", self._function.fold(_alone(taken))))
        return {"drawn": drawn}


TARGET = f"{Judge.__module__}:{Judge.__name__}"


def _alone(named: Mapping[str, Any]) -> Any:
    """Return the one value there is, or several by name."""
    return named if len(named) > 1 else next(iter(named.values()))


def _number(what: str, found: Any) -> float:
    value = np.asarray(found)
    # of larger ones the sum over samples, and the squares of an interval, are not finite
    if value.shape or value.dtype.kind not in "biuf" or not abs(float(value)) <= _LARGEST:
        said = f"an array of shape {list(value.shape)}" if value.shape else repr(found)
        raise UsageProblem(
            f"{what} {said:.80}, and a score is one finite number of at most {_LARGEST:g}, or several by name"
        )
    return float(value)


def _refuse_fork(event: str, _: object) -> None:
    if event == "os.fork":  # the copy would answer, too
        raise RuntimeError("a score cannot fork its process; start programs with subprocess")


@contextmanager
def _as_problem(what: str) -> Iterator[None]:
    """Raise what the user's code raises as UsageProblem, with the line of it."""
    try:
        yield
    except UsageProblem:
        raise
    except (Exception, SystemExit) as error:
        frames = (one for one in traceback.extract_tb(error.__traceback__) if one.filename not in _LOADING)
        at = next((f", line {one.lineno} of {one.filename}" for one in frames if Path(one.filename).is_file()), "")
        raise UsageProblem(f"{what} ({type(error).__name__}: {error}{at})") from error


@dataclass(frozen=True, kw_only=True)
class OwnScore(ArrayMetric):
    """A function.

    Attributes:
        better: which values are better, "higher" or "lower", of all numbers, or of each by name; None where the
            function's attribute says it.
        sha256: of the file that holds it.
        folds: whether its attribute `fold` makes the score of the numbers of all samples; else it is their mean.
    """

    takes_targets: bool = True
    better: str | Mapping[str, str] | None = None
    sha256: str = ""
    folds: bool = False

    def loaded(self) -> Self:
        """Load it once, in another process. Raises UsageProblem, also where nobody says which values are better."""
        if Judge.at_work:
            raise UsageProblem(
                'the file calls the command again when it is imported; put the call under `if __name__ == "__main__":`'
            )
        with scratch_folder() as folder, WorkerProcess(folder / "score.log", TARGET) as worker:
            found = _asked(worker, self.kind, _LOAD_S, {"verb": "open", "arrays": []})
        made = replace(self, **{**found, "better": self.better or found["better"]})
        if not isinstance(made.better, dict) and made.better not in _WORSE:
            raise UsageProblem(
                f"Which values of --score {self.kind} are better? Pass --better higher or --better lower, or set the "
                f'attribute: {self.name}.better = "lower"'
            )
        return made

    def numbers(self, run: Mapping[str, Any]) -> dict[str, Any]:
        """Return what it gives of each sample, the first number as the score.

        A guess, which the baseline alone finds, is the mean of the outputs for every sample, or another sample's
        outputs, what is better.

        Raises:
            UsageProblem: the function fails on a sample, which is named, or gives other names than of the first one.
        """
        outputs, targets, names, count = run["outputs"], run["targets"](), run["names"], len(run["names"])
        guesses = [
            one.guessed.model_dump()
            for one in (run["baseline"]().numbers.values() if run["baseline"] else ())
            if one.guessed
        ]
        # behind the samples is their mean; of whole numbers and texts, which may be no quantities, the first has to do
        means = {name: widened(one).mean(axis=0) if kind(one) is Kind.REAL else one[0] for name, one in outputs.items()}
        rows = {name: np.concatenate([one, means[name][None].astype(one.dtype)]) for name, one in outputs.items()}
        wanted = {f"{row}/{name}": one for row, each in enumerate(targets) for name, one in each.items()}
        with scratch_folder() as folder, WorkerProcess(run["folder"] / "score.log", TARGET) as worker:
            files = [folder / "outputs.npz", folder / "targets.npz"]
            for file, arrays in zip(files, (rows, wanted), strict=True):
                save_arrays(file, arrays)
            _asked(worker, self.kind, _LOAD_S, {"verb": "open", "arrays": files})

            def scored(places: Iterable[int]) -> dict[str, dict[str, Any]]:
                asked = zip(names, places, range(count), strict=True)
                requests = ((name, {"verb": "score", "rows": rows}) for name, *rows in asked)
                found = [_asked(worker, self.kind, _SAMPLE_S, one, name)["values"] for name, one in requests]
                if odd := next((name for name, one in zip(names, found, strict=True) if [*one] != [*found[0]]), None):
                    raise UsageProblem(f"--score {self.kind} gives other names than of {names[0]}. Sample: {odd}")
                fold = {"verb": "fold", "values": found, "seed": run["seed"]}
                folded = _asked(worker, self.kind, _LOAD_S, fold)["drawn"] if self.folds else ()
                return {name: {"each": [one[name] for one in found], "folded": folded} for name in found[0]}

            numbers = scored(range(count))
            first, *others = (*numbers,)[: 1 if self.folds else None]
            for places in ([count] * count, another(count).tolist()) if run["baseline"] is None and count > 1 else ():
                with suppress(UsageProblem):  # a mean may be nothing that it takes
                    guesses.append(scored(places)[first])
        worse = {name: self._worse(name) for name in (first, *others)}
        best = max if worse[first] == "falls" else min
        guess = {first: best(guesses, key=lambda one: next(iter(one["folded"]), np.mean(one["each"])), default=None)}
        return {
            "numbers": {
                name: {
                    **numbers[name],
                    "worse": how,
                    "step": _step(numbers[name], guess.get(name)),
                    "guessed": guess.get(name),
                }
                for name, how in worse.items()
            },
            "others": others,
            "key": f"{self.sha256}:{hash_arrays(wanted)}",
        }

    def _worse(self, name: str) -> str:
        """Return how a number becomes worse. Raises UsageProblem where `better` does not say it."""
        better = self.better.get(name) if isinstance(self.better, Mapping) else self.better
        if better not in _WORSE:
            raise UsageProblem(f"--score {self.kind}: its attribute `better` does not say higher or lower of {name}.")
        return _WORSE[better]


def _step(own: Mapping[str, Any], guessed: Mapping[str, Any] | None) -> float:
    """Return by how much a score moves: by its values, or what a guess has where these are all the same."""
    values, other, folded = np.array(own["each"]), np.array(guessed["each"] if guessed else ()), own["folded"]
    moving = next((one for one in (values, other, np.r_[values, other]) if one.size and np.ptp(one)), values)
    if not folded:
        return step_of(moving)
    # a sample that moves as far as any moves the score as far as a guess
    apart: float = abs(folded[0] - (guessed["folded"][0] if guessed else 0.0))
    return step_of(moving) * apart / (float(np.ptp(moving)) or 1.0)


def _asked(
    worker: WorkerProcess, score: str, limit_s: float, request: Mapping[str, Any], sample: str = ""
) -> dict[str, Any]:
    try:
        return worker.ask({"score": score, **request}, limit_s)
    except WorkerFailure as failure:
        where = f" Sample: {sample}" if sample else ""
        raise UsageProblem(f"--score {score} failed: {failure}.{where}") from failure
