"""The points of a bench matrix and the order in which they are measured."""

from __future__ import annotations

import fnmatch
import hashlib
import itertools
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from trt_workbench.core.builds import BUILD
from trt_workbench.core.errors import UsageProblem

if TYPE_CHECKING:
    from trt_workbench.bench.config import BenchConfig, RuntimeEntry, ScenarioEntry
    from trt_workbench.core.records import Record

STREAM, STREAM_DIMS = "stream", ("chunk",)
# What a language model does, and the dimensions that it takes: tokens of the prompt and tokens to generate.
LLM_KINDS: dict[str, dict[str, int]] = {
    "prefill": {"prompt": 64},
    "generate": {"prompt": 64, "new_tokens": 32},
    "generate-cached": {"prompt": 64, "new_tokens": 32},
}
DEFAULT_IMGSZ = (720, 1280)
IMAGE_SIDES = ("height", "width")


@dataclass(frozen=True)
class Work:
    """What is executed, apart from the runtime: points with equal work are compared with one another.

    Attributes:
        scenario: name of the scenario.
        kind: its kind.
        model: name of the model.
        batch: items per call.
        dims: values of named dynamic dimensions.
        imgsz: height and width of the image, pixels; None where there is none.
    """

    scenario: str
    kind: str
    model: str
    batch: int = 1
    dims: Mapping[str, int] = field(default_factory=dict)
    imgsz: tuple[int, int] | None = None

    @property
    def label(self) -> str:
        """Short text for tables, such as `encoder b8 sequence=128`."""
        dims = "".join(f" {name}={value}" for name, value in self.dims.items())
        size = f" {self.imgsz[0]}x{self.imgsz[1]}" if self.imgsz else ""
        return f"{self.model} b{self.batch}{dims}{size}"


@dataclass(frozen=True)
class Point:
    """One work on one runtime, measured `repetitions` times.

    Attributes:
        work: what is executed.
        runtime: label of the runtime in tables, with its swept settings.
        entry: label of the runtime without them.
        swept: value of every setting of the runtime that is swept.
        backend: name of the backend.
        precision: precision that the backend is asked for.
        tf32: as in RuntimeEntry.
        threads: as in RuntimeEntry.
        concurrency: as in RuntimeEntry.
        options: options of the backend, one value each.
        file: which of the model's files; None for the model itself.
    """

    work: Work
    runtime: str
    entry: str
    swept: Mapping[str, Any]
    backend: str
    precision: str
    tf32: bool
    threads: int | None
    concurrency: int
    options: Mapping[str, Any]
    file: str | None = None

    @property
    def source(self) -> str:
        """The name of the file that it executes, as `model_files` has it."""
        return f"{self.work.model}/{self.file}" if self.file else self.work.model

    @property
    def label(self) -> str:
        """What `--only` matches: scenario/workload/runtime."""
        return f"{self.work.scenario}/{self.work.label}/{self.runtime}"

    @property
    def key(self) -> str:
        """Sixteen hex digits that are the same for the same point in every run."""
        own = asdict(self)
        if self.file is None:
            del own["file"]  # keys of runs from before there were files stay the same
        return hashlib.sha256(json.dumps(own, sort_keys=True, default=str).encode()).hexdigest()[:16]


def expand(config: BenchConfig, only: Sequence[str] = ()) -> list[Point]:
    """Return every point of the matrix in the order of the configuration.

    Args:
        config: the configuration.
        only: shell patterns on `Point.label`; a point that fits any of them stays. Empty for all.

    Raises:
        UsageProblem: no point fits, or two are equal.
    """
    points = [
        point
        for name, scenario in config.scenarios.items()
        for work in _works(name, scenario, config)
        for runtime in config.runtimes
        for point in _points(work, runtime)
    ]
    seen: set[str] = set()
    for point in points:
        if point.key in seen:
            raise UsageProblem(
                f"The point {point.label} exists twice: a list to sweep, or a list of models, has duplicate values."
            )
        seen.add(point.key)
    chosen = [
        point
        for point in points
        if not only or any(fnmatch.fnmatchcase(point.label, one) or one in point.label for one in only)
    ]
    if not chosen:
        raise UsageProblem(
            f"No point matches --only {', '.join(map(repr, only))}; a point is, for example: {points[0].label}"
        )
    return chosen


def schedule(points: Sequence[Point], repetitions: int, seed: int, first: int = 0) -> list[tuple[Point, int]]:
    """Return the order of measuring points of one work: rounds of all points.

    Interleaving spreads slow drifts of the machine over all runtimes (google/benchmark, random interleaving). As many
    rounds as there are points are a block, in which each point has each place once; the blocks are drawn with the seed.

    Args:
        points: of the work.
        repetitions: how many rounds there are.
        seed: of the order.
        first: rounds of the works before, so that blocks go on from work to work, and places are balanced over all.
    """
    rounds = []
    for repetition in range(repetitions):
        block, row = divmod(first + repetition, len(points))
        order = random.Random(f"{seed} {block}")
        places, turns = order.sample(points, len(points)), order.sample(range(len(points)), len(points))
        rounds += [(point, repetition) for point in places[turns[row] :] + places[: turns[row]]]
    return rounds


def sweep_of(work: Work | Record) -> tuple[Any, ...]:
    """Return what stays the same along a batch sweep."""
    return work.scenario, work.model, tuple(sorted(work.dims.items())), work.imgsz


def batches(points: Sequence[Point], most: int) -> Iterator[list[Point]]:
    """Yield what is loaded at one time: so many points at most, all builds of one request together if they fit."""
    batch: list[Point] = []
    for _, group in itertools.groupby(points, _request):
        builds = list(group)
        if batch and len(batch) + len(builds) > most:
            yield batch
            batch = []
        batch += builds
        while len(batch) > most:
            yield batch[:most]
            batch = batch[most:]
    if batch:
        yield batch


def _request(point: Point) -> str:
    """Return what is the same for all builds of one request, and for nothing else."""
    if BUILD not in point.options:
        return point.key
    options = {name: value for name, value in point.options.items() if name != BUILD}
    swept = {name: value for name, value in point.swept.items() if name != BUILD}
    return replace(point, options=options, swept=swept, runtime="", entry="").key


def _works(name: str, scenario: ScenarioEntry, config: BenchConfig) -> Iterator[Work]:
    for model in scenario.models or tuple(config.models):
        dims = {**LLM_KINDS.get(scenario.kind, {}), **scenario.dims}
        batches = _values(scenario.batch)
        # a sweep that may end early is ascending, whatever the order of the list
        axes: dict[str, Sequence[Any]] = {
            "imgsz": _sizes(scenario),
            "batch": sorted(batches) if scenario.saturation else batches,
        }
        axes |= {dim: _values(value) for dim, value in dims.items()}
        for values in itertools.product(*axes.values()):
            chosen = dict(zip(axes, values, strict=True))
            yield Work(
                scenario=name,
                kind=scenario.kind,
                model=model,
                batch=chosen.pop("batch"),
                imgsz=chosen.pop("imgsz"),
                dims=chosen,
            )


def _points(work: Work, runtime: RuntimeEntry) -> Iterator[Point]:
    own = {name: getattr(runtime, name) for name in ("precision", "threads", "concurrency", "file")}
    listed: dict[str, Sequence[Any]] = {name: value for name, value in own.items() if isinstance(value, tuple)}
    listed |= {name: value for name, value in runtime.options.items() if isinstance(value, list)}
    for values in itertools.product(*listed.values()):
        chosen = dict(zip(listed, values, strict=True))
        # a list of one value sweeps nothing: that is how an option whose value is a list is written
        swept = {name: value for name, value in chosen.items() if len(listed[name]) > 1}
        suffix = "".join(f" {name}={setting_text(value)}" for name, value in swept.items())
        settings = {name: chosen.get(name, value) for name, value in own.items()}
        yield Point(
            work=work,
            runtime=runtime.label + suffix,
            entry=runtime.label,
            swept=swept,
            backend=runtime.backend,
            tf32=runtime.tf32,
            options={name: chosen.get(name, value) for name, value in runtime.options.items()},
            **settings,
        )


def setting_text(value: Any) -> str:
    """Return a swept value as labels and pictures show it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "none"
    return "default" if value is None else str(value)


def _values(value: int | tuple[int, ...]) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else (value,)


def _sizes(scenario: ScenarioEntry) -> Sequence[tuple[int, int] | None]:
    if scenario.imgsz is None:
        return [DEFAULT_IMGSZ if scenario.kind == "image-to-boxes" else None]
    pairs: Any = scenario.imgsz if isinstance(scenario.imgsz[0], tuple) else [scenario.imgsz]
    return list(pairs)


def ranges(points: Sequence[Point], work: Work) -> dict[str, tuple[int, int]]:
    """Return the least and the largest batch, dimensions, `height` and `width` of a work's scenario and model."""
    same = [point.work for point in points if (point.work.scenario, point.work.model) == (work.scenario, work.model)]
    found = {"batch": [other.batch for other in same]}
    for name in work.dims:
        found[name] = [other.dims[name] for other in same]
    for axis, name in enumerate(IMAGE_SIDES):
        if sizes := [other.imgsz[axis] for other in same if other.imgsz]:
            found[name] = sizes
    return {name: (min(values), max(values)) for name, values in found.items()}


def point_from_dict(document: Mapping[str, Any]) -> Point:
    """Return the point that `dataclasses.asdict` converted, JSON's lists as tuples."""
    work = dict(document["work"])
    work["imgsz"] = tuple(work["imgsz"]) if work["imgsz"] else None
    return Point(**{**document, "work": Work(**work)})
