"""The checks of a gate: each calls its command, and judges by the limits of the file."""

from __future__ import annotations

import inspect
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from trt_workbench.backends.preparation import Preparation
from trt_workbench.backends.registry import AUTO, check_name, get_backend
from trt_workbench.bench import MatrixSettings, bench, compare, prepare_bench, repetition_medians, unstable
from trt_workbench.console.called import Finished, call_command, called, settings_of
from trt_workbench.console.keywords import worded
from trt_workbench.core.artefacts import BenchArtefacts, read_bench_run
from trt_workbench.core.counts import counted, decimals, grouped
from trt_workbench.core.documents import read_document
from trt_workbench.core.errors import CheckFailed, UsageProblem, WorkbenchError, did_you_mean
from trt_workbench.core.files import require_there
from trt_workbench.core.precision import check_any
from trt_workbench.core.statistics.comparison import median_interval
from trt_workbench.decide import BASELINE, Decision, decide
from trt_workbench.evaluate import eval_coco
from trt_workbench.gate.config import GateConfig, LatencyPart, ScorePart, VerifyPart, figure, margin
from trt_workbench.gate.document import CheckName, GateCheck, GateDocument
from trt_workbench.model.opened import Model
from trt_workbench.quantize import ANNOTATED, ResampledScore, coco_scores, metric_of
from trt_workbench.verify import VerifyFindings, verify
from trt_workbench.vision import (
    CocoMetrics,
    DataPlace,
    check_annotations,
    check_family,
    family_of,
    figure_names,
    look_for_data,
    read_dataset,
    task_of,
)

METRICS, PREDICTIONS = "metrics.json", "predictions.json"
_UNCLEAR = "cannot tell"


class CheckResult(NamedTuple):
    """What a check found: a text, why it failed, and as of `GateCheck`."""

    text: str
    failure: WorkbenchError | None = None
    judged: bool = True
    certain: bool = True


def run_gate(config: GateConfig, folder: Path, destination: Path, update: Callable[[str], None]) -> GateDocument:
    """Run every check of a file; one that fails does not end the others.

    Args:
        config: what is checked.
        folder: an existing folder, for the run directories of the checks.
        destination: where the folder will be, for texts.
        update: called with what is being done.

    Raises:
        UsageProblem: a part has a wrong name or value, or a baseline that is not one.
    """
    _require_usable(config)
    parts: dict[CheckName, Callable[[Path], CheckResult]] = {}
    if config.verify:
        parts["verify"] = partial(_verified, config.model, config.verify)
    if config.score:
        parts["score"] = partial(_decided if config.score.is_decided else _scored, config.model, config.score)
    if config.latency:
        parts["latency"] = partial(_timed, config.model, config.latency)
    checks = []
    for name, check in parts.items():
        update(f"Checking: {name}")
        found = _checked(name, check, folder)
        checks.append(found.model_copy(update={"text": found.text.replace(str(folder), str(destination))}))
    document = GateDocument(model=str(config.model), passed=False, checks=checks)
    return document.model_copy(update={"passed": document.reach.passed})


def _require_usable(config: GateConfig) -> None:
    """Raise UsageProblem for what would end a check, before the checks before it have taken minutes."""
    parts: tuple[tuple[str, Any, Callable[..., Any], Any], ...] = (
        ("verify", config.verify, verify, config.model),
        ("score", config.score, decide if config.score and config.score.is_decided else eval_coco, config.model),
        ("latency", config.latency, bench, str(config.model)),
    )
    for name, part, command, model in parts:
        if part is None:
            continue
        try:
            settings = settings_of(command, model, more=type(part).model_fields, given=part.settings)
            _require_names(settings)
            limits = part.limits
            if isinstance(part, ScorePart) and part.is_decided:
                if part.baseline:
                    raise UsageProblem("baseline is of eval-coco; with `score` the loss is against fp32 of this run.")
                if BASELINE not in settings["precisions"]:
                    raise UsageProblem(f"precisions: with `score` a loss is against {BASELINE}; add it.")
                limits = () if {*settings["precisions"]} - {BASELINE} else limits[:2]
            elif isinstance(part, ScorePart):
                _require_figures(part, settings)
            if isinstance(part, LatencyPart):
                _require_points(settings)
            if limits and not any(getattr(part, limit) for limit in limits):
                raise UsageProblem(f"it has no limit, so it cannot fail; give {' or '.join(limits)}.")
            places = {**settings, "baseline": (baseline := getattr(part, "baseline", None))}
            for key in ("data", "annotations", "baseline"):
                if place := places.get(key):
                    require_there(f"path of {key}", place)
            if config.verify and (place := _labels(places)):  # else eval-coco reads them first of all
                check_annotations(read_dataset(place.images, place.annotations, split=place.split, allow_missing=True))
            if baseline:
                (_read_baseline if isinstance(part, ScorePart) else read_bench_run)(baseline)
        except UsageProblem as error:
            raise UsageProblem(f"{name}: {worded(str(error), command)}") from error


def _require_names(settings: Mapping[str, Any]) -> None:
    """Raise UsageProblem for a name that there is not; a backend that cannot serve fails its check alone."""
    for backend in (settings.get("backend", AUTO), *(settings.get("backends") or ())):
        if backend != AUTO:
            check_name(backend)
    if precision := settings.get("precision"):
        backend = settings.get("backend", AUTO)
        (check_any if backend == AUTO else get_backend(backend).check_precision)(precision)
    if family := settings.get("family"):
        check_family(family, "--family")


def _labels(settings: Mapping[str, Any]) -> DataPlace | None:
    """Return the data set of a score by annotations; None where there is none, or none of images."""
    data, annotations, split = (settings.get(name) for name in ("data", "annotations", "split"))
    labelled = data if metric_of(settings.get("score")) is ANNOTATED else None
    return labelled and (DataPlace(labelled, annotations) if annotations else look_for_data(labelled, split))


def _require_points(settings: Mapping[str, Any]) -> None:
    """Raise UsageProblem for a precision, a size or a pattern that bench would refuse."""
    matrix = MatrixSettings(**{one.name: settings[one.name] for one in fields(MatrixSettings)})
    own = {name: settings[name] for name in ("only", "url", "builds") if name in settings}
    prepare_bench(settings["config"], **{"only": (), **own}, matrix=matrix)


def _require_figures(part: ScorePart, settings: Mapping[str, Any]) -> None:
    """Raise UsageProblem for a figure that no model of this one's task has, or no model at all where it is unknown."""
    known = figure_names()
    with suppress(WorkbenchError):  # a model that says its task only once it is loaded, or that eval-coco refuses
        family = family_of(Model.open(settings["file"]), Preparation(family=settings.get("family")))
        known = figure_names(task_of(family.task))
    for limit in ("at_least", "at_most"):
        for name in getattr(part, limit):
            if name not in known:
                raise UsageProblem(f"{limit}: there is no figure {name!r} of this model; {did_you_mean(name, known)}")


def _checked(name: CheckName, check: Callable[[Path], CheckResult], folder: Path) -> GateCheck:
    began = time.monotonic()
    try:
        found = check(folder / name)
    except WorkbenchError as error:
        found = CheckResult(str(error), error)
    page = folder / name / "report.html"
    return GateCheck(
        name=name,
        passed=found.failure is None,
        judged=found.judged,
        certain=found.certain,
        exit_code=found.failure.exit_code if found.failure else 0,
        text=found.text,
        report=str(page.relative_to(folder)) if page.is_file() else None,
        seconds=time.monotonic() - began,
    )


def _verified(model: Path, part: VerifyPart, place: Path) -> CheckResult:
    done: Finished[VerifyFindings] = call_command(
        verify, lambda run: read_document(run / "verify.json", VerifyFindings), model, output=place, **part.settings
    )
    found = done.document
    passed = (
        f"{found['verdict']} at {counted(found['cases_tried'], 'shape')} on {found['backend']}, {found['precision']}"
    )
    if found.get("compared_with_itself"):
        passed += f", compared with itself ({found['reference']}); name another backend or reference"
    failed = str(done.failure) if done.failure else passed
    return CheckResult(failed, done.failure, judged=not found.get("compared_with_itself"))


def _scored(model: Path, part: ScorePart, place: Path) -> CheckResult:
    done: Finished[CocoMetrics] = call_command(
        eval_coco, lambda run: read_document(run / METRICS, CocoMetrics), model, output=place, **part.settings
    )
    if done.failure:
        return CheckResult(str(done.failure), done.failure)
    main = task_of(done.document["model"]["task"]).decided_by
    figures = _figures(done.document)
    own = coco_scores(done.directory, done.document["settings"].get("seed", 0))
    alone = own.against(None)
    ends = f", 95 % interval {alone.ci95[0]:.4f} to {alone.ci95[1]:.4f}" if alone.ci95 else ""
    score = figure(figures, main, "score")
    words = f"{main} {score:.4f} on {done.document['images']} images{ends}"
    (text, passed), certain = part.margins(figures, main, words), True
    if told := alone.as_good_as_guessing:
        text, passed = f"{text}; {main} is {told}", False
    if part.baseline:
        known = figure(_figures(_baseline(part.baseline, done.document)), main, "score.baseline")
        certainty, certain = _certainty(part, done, own)
        text += f"; loss {decimals(known - score)} against the baseline's {known:.4f} ({certainty}), "
        text += f"{'more than' if known - score > part.max_loss else 'within'} max_loss {part.max_loss:g}"
        passed = passed and known - score <= part.max_loss
    return _judged(text, passed=passed, certain=certain)


def _certainty(part: ScorePart, done: Finished[CocoMetrics], own: ResampledScore) -> tuple[str, bool]:
    """Return the interval of the loss by the same resamples of images on both sides, and whether it is within.

    Raises:
        UsageProblem: the baseline's predictions are damaged or of other images.
    """
    place = part.baseline
    if not place or not (place / PREDICTIONS).is_file():
        return f"unpaired, without an interval: the baseline has no {PREDICTIONS}; name its run directory", False
    found, seed = done.document, done.document["settings"].get("seed", 0)
    row = own.against(coco_scores(place, seed, places=found))
    if row.loss_ci95 is None:
        return "no resample of the images has this figure", False
    certain = row.loss > part.max_loss or row.keeps(part.max_loss, found["images"])
    doubt = "" if certain else "; not certain"
    return (
        f"paired by image, 95 % interval {decimals(row.loss_ci95[0])} to {decimals(row.loss_ci95[1])}{doubt}",
        certain,
    )


def _figures(found: CocoMetrics) -> dict[str, float]:
    figures: dict[str, Any] = dict(found)
    return {name: figures[name] for name in figure_names() if isinstance(figures.get(name), float)}


def _decided(model: Path, part: ScorePart, place: Path) -> CheckResult:
    done: Finished[Decision] = call_command(
        decide, lambda run: read_document(run / "decision.json", Decision), model, output=place, **part.settings
    )
    found, texts, passed, certain = done.document, list[str](), True, True
    for row in found.rows:
        if row.score is None:
            texts, passed = [*texts, f"{row.label}: {row.state}, {row.reason}"], False
            continue
        figures = {name: one.value for name, one in {found.figure: row.score, **row.score.others}.items()}
        text, within = part.margins(
            figures, found.figure, f"{found.figure} {row.score.words(row.score.value)} of {row.label}"
        )
        if told := row.score.as_good_as_guessing:
            text, within = f"{text}, which is {told}", False
        if row.precision != BASELINE:
            ends = row.score.loss_ci95
            text += f"; loss {row.score.words(row.score.loss)}"
            text += f" ({row.score.words(ends[0])} to {row.score.words(ends[1])})" if ends else ""
            text += f", {'within' if row.meets else 'more than'} max_loss {part.max_loss:g}"
            certain = certain and row.keeps([found.figure], part.max_loss) != "not shown"
        texts, passed = [*texts, text], passed and within and (row.precision == BASELINE or bool(row.meets))
    return _judged(f"{'; '.join(texts)}, {found.samples} {found.unit}", passed=passed, certain=certain)


def _baseline(place: Path, found: CocoMetrics) -> CocoMetrics:
    """Return the metrics of an earlier run on the same images. Raises UsageProblem."""
    before, file = _read_baseline(place)
    for name, one, other in (
        ("images", before["images"], found["images"]),
        ("annotations", before["dataset"]["annotations_sha256"], found["dataset"]["annotations_sha256"]),
    ):
        if one != other:
            raise UsageProblem(f"score.baseline was scored on other {name} ({one}, now {other}): {file}")
    return before


def _read_baseline(place: Path) -> tuple[CocoMetrics, Path]:
    file = place / METRICS if place.is_dir() else place
    return read_document(file, CocoMetrics), file


def _timed(model: Path, part: LatencyPart, place: Path) -> CheckResult:
    done: Finished[BenchArtefacts] = call_command(bench, read_bench_run, str(model), output=place, **part.settings)
    if done.failure:
        return CheckResult(str(done.failure), done.failure)
    points = grouped(done.document.records, lambda one: (one.work, one.runtime))
    found = {name: repetition_medians(records).get(name[1]) for name, records in points.items()}
    medians = {f"{work} on {runtime}": median_interval(times) for (work, runtime), times in found.items() if times}
    most = part.at_most_ms
    margins = {name: margin(one.median, "at_most_ms", most, 3, " ms") for name, one in medians.items() if most}
    passed = all(meets for _, meets in margins.values())
    text = "; ".join(
        f"{name}: {one.in_words}" + (f", {margins[name][0]}" if margins else "") for name, one in medians.items()
    )
    doubtful = [one for one in unstable(done.document.records) if len(one["repetitions"]) == one["measured"]]
    certain = not doubtful
    if doubtful:
        text += f"; unreliable at {counted(len(doubtful), 'point')}: {doubtful[0]['reasons'][0]}"
    if part.baseline:
        given = {"tolerance": part.tolerance, "allow_different_machines": part.allow_different_machines}
        compared, failure = called(inspect.unwrap(compare), {"a": part.baseline, "b": place, **given})
        tally = Counter(str(one["outcome"]) for one in compared["points"])
        # a gate passes a point without an answer, and says so
        unclear = " (measure on a quiet machine, or more repetitions)" if _UNCLEAR in tally else ""
        text += (
            f"; against the baseline: {', '.join(f'{count} {outcome}' for outcome, count in tally.items())}{unclear}"
        )
        passed, text = passed and not failure, f"{text}; {failure}" if failure else text
        certain = certain and all(one["outcome"] != _UNCLEAR for one in compared["points"])
    return _judged(text, passed=passed, certain=certain)


def _judged(text: str, *, passed: bool, certain: bool) -> CheckResult:
    return CheckResult(text, None if passed else CheckFailed(text), certain=certain)
