"""infer-engine: open a plan or a model, run it on samples, check the outputs, measure it, write the run's files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from trt_workbench.backends.samples import Sample, read_samples, require_sources
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import anything, refuse_foreign, write_text
from trt_workbench.core.input_files import parse_json, read_text
from trt_workbench.core.start import reached, start_parts
from trt_workbench.infer.checks import SampleRun
from trt_workbench.infer.settings import InferOutcome, InferRequest, MeasureSettings, Note, Step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trt_workbench.backends.base import Session
    from trt_workbench.infer.measured import Measurement


class _Opened(Protocol):
    """What is run: a session, and what differs between TensorRT's own engine and every other backend."""

    @property
    def backend(self) -> str:
        """Name of the backend."""

    @property
    def session(self) -> Session:
        """What executes the samples."""

    def random(self) -> dict[str, NDArray[Any]]:
        """Return random inputs. Raises UsageProblem if they cannot be made."""

    def load_parts(self) -> dict[str, float]:
        """Return the seconds of what loading is made of, as far as it is known."""

    def seconds(self, settings: MeasureSettings) -> float:
        """Return about how long measuring takes."""

    def measure(self, inputs: Mapping[str, NDArray[Any]], settings: MeasureSettings) -> Measurement:
        """Measure on one set of inputs."""

    def memory(self) -> dict[str, Any]:
        """Return bytes by purpose."""


def infer(request: InferRequest, folder: Path, say: Note = lambda _: None, step: Step = lambda _: None) -> InferOutcome:
    """Run a plan or a model and write `metrics.json`, `records.jsonl` and `outputs/` into `folder`.

    Args:
        request: what is asked for.
        folder: an existing folder, such as the staging folder of a run directory.
        say: called with progress messages for the user.
        step: called with the number of samples done.

    Raises:
        UsageProblem: the file, an option or the inputs cannot be used, or references are missing.
        CheckFailed: a part of the model would run elsewhere than on the backend that was asked for.
        ComponentMissing: the backend, or a library or GPU that it needs, is absent.
        DeviceFailure: the device failed or is out of memory.
    """
    if request.inputs and request.shapes:
        raise UsageProblem("--shape is for random inputs; the given arrays have their own shapes.")
    require_sources(request.inputs)
    if request.expect is not None and not request.expect.is_dir():
        raise UsageProblem(f"The folder of reference outputs does not exist: {request.expect}")
    if request.expect is not None and request.is_model:
        from trt_workbench.model.opened import Model
        from trt_workbench.model.randomness import refuse_random

        refuse_random(Model.open(request.model), "compared", "without --expect it runs")
    open_session = _opener(request)
    reached("imports")
    started = time.perf_counter()
    opened = open_session(request, say)
    load_s = time.perf_counter() - started
    with opened.session:
        parts = {**start_parts(), **(opened.load_parts() or {"load": load_s})}
        run = SampleRun(request, folder, opened.session, parts)
        for number, record in enumerate(run.execute(_source(request, opened)), start=1):
            _append(folder, [record])
            step(number)
        measured = None
        if opened.session.simulated:
            say("Not timed: the formats are simulated, so times would say nothing about them.")
        else:
            measured = _measured(opened, run.first, request.measure, say)
        _append(folder, measured.records if measured else ())
        metrics = run.metrics(opened.backend, load_s, opened.memory(), measured)
    from trt_workbench.core.documents import write_json

    write_json(folder / "metrics.json", metrics)
    return InferOutcome(metrics, tuple(run.failures), tuple(measured.queries) if measured else ())


def _append(folder: Path, records: Iterable[Mapping[str, Any]]) -> None:
    from trt_workbench.core.documents import append_lines  # pydantic, after the first result

    append_lines(folder / "records.jsonl", records)


def _opener(request: InferRequest) -> Callable[[InferRequest, Note], _Opened]:
    """Return what loads the engine or the model: the one needs nothing of what the other imports."""
    if request.is_native:
        from trt_workbench.infer.native import open_native

        return open_native
    from trt_workbench.infer.models import open_model

    return open_model


def check_times(path: Path) -> None:
    """Refuse to write times over a file that `write_times` did not write. Raises UsageProblem."""
    refuse_foreign(path, lambda file: _times(parse_json(read_text(file))) == read_text(file))


def write_times(path: Path, queries: tuple[dict[str, float], ...]) -> None:
    """Write queries as trtexec's --exportTimes does, whole or not at all. Raises OSError."""
    write_text(path, _times(queries), over=anything)


def _times(queries: Any) -> str:
    return json.dumps(queries, indent=0, allow_nan=False) + "\n"


def _source(request: InferRequest, opened: _Opened) -> Iterator[Sample]:
    if request.inputs:
        return read_samples(request.inputs, opened.session.inputs)
    return iter([Sample("random", opened.random())])


def _measured(
    opened: _Opened, first: Mapping[str, NDArray[Any]], settings: MeasureSettings | None, say: Note
) -> Measurement | None:
    """Measure on the first sample's inputs, if requested."""
    if settings is None:
        return None
    seconds = opened.seconds(settings)
    # below a second, the least number of calls may take longer
    say(f"Measuring for about {seconds:.0f} s." if seconds >= 1 else "Measuring.")
    return opened.measure(first, settings)
