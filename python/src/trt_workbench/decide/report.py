"""The page of a decision, made only from the files of its run directory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, cast

from trt_workbench.core.artefacts import command_of, foreign_files, read_bench_run, read_environment
from trt_workbench.core.builds import builds_of
from trt_workbench.core.counts import counted, grouped
from trt_workbench.core.documents import read_document, read_lines, reader, write_json
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import anything, write_text
from trt_workbench.core.records import Record, by_work
from trt_workbench.decide.chart import draw_decision
from trt_workbench.decide.document import BASELINE, Decision, DecisionRow
from trt_workbench.decide.judge import judged
from trt_workbench.decide.settings import DecideSettings
from trt_workbench.decide.tried import DraftRow
from trt_workbench.model.low_precision.evidence import Evidence, evidence_in
from trt_workbench.model.opened import Model, sha256_of
from trt_workbench.model.precision import precision_label
from trt_workbench.quantize import TRANSCRIPTION, Detection, coco_scores, draw_groups, points, speech
from trt_workbench.report.page import render
from trt_workbench.report.style import WIDE, label, plots_folder
from trt_workbench.report.tables import Cell, Column, Table
from trt_workbench.report.verdict import Headline
from trt_workbench.vision import (
    LEAST_ANNOTATIONS,
    SCORE_THRESHOLD,
    CocoMetrics,
    GalleryEntry,
    ImageRecord,
    f1,
    image_path,
    is_made_here,
    kept_picture,
    predictions_of,
    save_picture,
    side_by_side,
    task_in,
)


def decision_about(
    evaluations: Sequence[Path], benches: Sequence[Path], max_loss: float, root: Path
) -> Decision | None:
    """Return the decision that finished runs allow; None where no evaluation is in fp32.

    A latency belongs to an evaluation if it is of the same model file on the same runtime at the same precision.
    Latencies of different works are not compared: the work that most of the evaluations have counts.

    Args:
        evaluations: run directories of eval-coco; the first one in fp32 is what losses are measured from.
        benches: run directories of bench.
        max_loss: the bound.
        root: folder that the decision is written into.

    Raises:
        UsageProblem: a run is damaged.
    """
    documents = [read_document(directory / "metrics.json", CocoMetrics) for directory in evaluations]
    records = [record for directory in benches for record in read_bench_run(directory).records]
    tried = [_tried(directory, metrics) for directory, metrics in zip(evaluations, documents, strict=True)]
    _name_apart(tried, documents)
    baseline = next((place for place, one in enumerate(tried) if one.precision == BASELINE), None)
    if baseline is None:
        return None
    chosen = _one_work(tried, documents, records)
    return judged(
        tried,
        chosen,
        model=Path(documents[baseline]["model"]["path"]),
        model_sha256=documents[baseline]["model"]["sha256"],
        task=_detection(documents[baseline]),
        settings=DecideSettings(max_loss=max_loss, batch=chosen[0].batch if chosen else 1),
        command=lambda _: "",
        notes=["Combined from separate runs; latencies are from bench."],
        left_out=[],
        wall_s=0.0,
        root=root,
    )


def _detection(metrics: CocoMetrics) -> Detection:
    used, kept = metrics["dataset"], Detection.kept(DecideSettings.keep, task_in(metrics).decided_by)
    return Detection(Path(used["images"]), Path(used["annotations"]), **kept)


def _tried(directory: Path, metrics: CocoMetrics) -> DraftRow:
    path = Path(metrics["model"]["path"])
    computed = precision_label(metrics) or metrics["settings"].get("precision", "unknown")
    found = DraftRow(
        computed.partition(" (")[0],  # that it is simulated stands in its row
        metrics["backend"],
        asked=metrics["settings"].get("precision", BASELINE),
        path=path if path.is_file() else None,
        evidence=_evidence(path, metrics["model"]["sha256"]),
        folder=directory,
        provenance={**metrics["provenance"], "precision_ran": metrics.get("precision_ran")},
    )
    try:
        found.scores = coco_scores(directory, 0, _detection(metrics).published)
    except UsageProblem as problem:  # its images are gone, for example; the others can still be judged
        found.fail("failed", str(problem))
    return found


def _evidence(path: Path, sha256: str) -> Evidence | None:
    """Return how the file was made that was evaluated; None where it has no evidence, is missing or has changed."""
    if path.suffix != ".onnx" or not path.is_file() or sha256_of(path) != sha256:
        return None
    return evidence_in(Model.open(path).facts.metadata)


def _name_apart(tried: Sequence[DraftRow], documents: Sequence[CocoMetrics]) -> None:
    """Give rows of one precision on one runtime the names of their files as well."""
    counts = Counter(one.label for one in tried)
    for one, metrics in zip(tried, documents, strict=True):
        if counts[one.label] > 1:
            one.precision = f"{one.precision} {Path(metrics['model']['path']).stem}"


def _one_work(tried: Sequence[DraftRow], documents: Sequence[CocoMetrics], records: Sequence[Record]) -> list[Record]:
    """Return the records of the work that most rows have, and give the rows the names of their runtimes."""
    best: list[Record] = []
    names: dict[int, str] = {}
    for group in by_work(records).values():
        found = {}
        for place, (one, metrics) in enumerate(zip(tried, documents, strict=True)):
            key = (metrics["model"]["sha256"], one.backend, one.asked)
            mine = [record for record in group if (record.model_sha256, record.backend, record.precision) == key]
            if mine:
                found[place] = mine[0].runtime
        if len(found) > len(names):
            best, names = [record for record in group if record.runtime in found.values()], found
    for place, name in names.items():
        tried[place].runtime = name
    return best


_PHONE = 4.0  # inches, in which text keeps its size on a phone
_CLASSES, _PICTURES, _TEXTS = 8, 4, 8


_CLASS_LOSSES = (
    Column("class", "name"),
    Column("annotations", "annotations"),
    Column(f"AP of {BASELINE}", "baseline", 4),
    Column("AP", "value", 4),
    Column("loss", lambda one: one.baseline - one.value, 4, better="lower"),
    Column("95 % interval", "loss_ci95", 4),
)


read = reader("decision.json", Decision)


def answer(decision: Decision) -> Headline:
    """Return what the page of a run says first."""
    *halves, then = decision.halves()
    bad = "regression" if any(row.verdict == "regression" for row in decision.rows) else "infeasible"
    word = decision.reach.word("recommended" if decision.recommended else "accepted", bad)
    return Headline([then.removeprefix("Then: "), *halves, *decision.recommendation.doubts], word)


def view(decision: Decision, directory: Path) -> dict[str, Any]:
    """Return what the page of a decision shows besides.

    Args:
        decision: what it shows.
        directory: that the folders of the scores are relative to, and `plots/` is written into.

    Raises:
        UsageProblem: a file of a score is missing or damaged.
    """
    search, plots, row = decision.search, plots_folder(directory), looked_at(decision)
    return {
        "decision": decision,
        "name": Path(decision.model).name,
        "baseline_name": BASELINE,
        "wide": draw_decision(decision, plots / "decision.svg", WIDE),
        "narrow": draw_decision(decision, plots / "decision-phone.svg", _PHONE),
        "lower": row.precision if row else "candidate",
        "also": _also(decision),
        "classes": class_losses(decision),
        "pictures": _pictures(directory, decision),
        "builds": builds_of(directory),
        "texts": _texts(directory, decision),
        "search": search,
        "search_points": points(search.evidence) if search else None,
        "search_picture": draw_groups(search.sensitivity, plots / "search-groups.svg") if search else None,
    }


def _also(decision: Decision) -> Table:
    """Return the further scores that the baseline has."""
    baseline = decision.row(*decision.baseline) if decision.baseline else None
    names = list(baseline.score.others) if baseline and baseline.score else []
    columns = [
        column
        for name in names
        for column in (
            Column(name, lambda row, name=name: _other(row, name, "value"), 4),  # type: ignore[misc]
            Column("loss", lambda row, name=name: _other(row, name, "loss", decision), 4, better="lower"),  # type: ignore[misc]
        )
    ]
    words = decision.task == TRANSCRIPTION
    notes = [
        "A loss is the rise of the rate; tokens are the pieces of the vocabulary."
        if words
        else "A score after @ is the threshold that the model is shipped with. f1 is of boxes at IoU 0.50; ece is the "
        "difference between confidence and the share that is right, and its loss the rise of it.",
        f"Intervals are paired, as those of {decision.figure}.",
        f"Kept are {', '.join(decision.kept)}."
        if len(decision.kept) > 1
        else f"Only {decision.figure} is a gate; --keep adds others.",
    ]
    return Table(
        [Column("precision", "precision"), Column("runtime", "backend"), *columns],
        [row for row in decision.rows if row.score] if names else [],
        "Further scores" if words else "Scores as they are used",
        [" ".join(notes)],
    )


def _other(row: DecisionRow, name: str, which: Literal["value", "loss"], decision: Decision | None = None) -> Cell:
    """Return a further score of a row, or its loss with the interval; beyond the bound of what is kept it is lost."""
    if (one := row.score.others.get(name) if row.score else None) is None:
        return Cell("nothing found")
    lost = decision and name in decision.kept and one.loss > decision.max_loss
    ends = " to ".join(map(one.words, one.loss_ci95)) if decision and one.loss_ci95 else ""
    return Cell(one.words(getattr(one, which)), soft=ends, verdict="lost" if lost else "")


def write_decision(directories: Sequence[Path], output: Path, max_loss: float) -> Path | None:
    """Write `decision.json` and `decision.html` about existing runs.

    Args:
        directories: run directories of any commands.
        output: folder, made if absent.
        max_loss: loss of AP that is acceptable.

    Returns:
        The path of decision.html; None where there are not two evaluations, one of them in fp32.

    Raises:
        UsageProblem: a run is damaged, or the evaluations are of different images.
    """
    by_command = {"eval-coco": [], "bench": [], **grouped(directories, command_of)}
    evaluations = by_command["eval-coco"]
    if len(evaluations) < 2:
        return None
    with foreign_files(evaluations[0]):
        decision = decision_about(evaluations, by_command["bench"], max_loss, output.absolute())
        if decision is None:
            return None
        write_json(output / "decision.json", decision, over=anything)
        values = {"environment": read_environment(evaluations[0]), **answer(decision)._asdict()}
        page = render("decide/report.html.j2", **values, **view(decision, output))
        write_text(output / "decision.html", page, over=anything)
        return output / "decision.html"


def looked_at(decision: Decision) -> DecisionRow | None:
    """Return the row for the class tables and pictures: the recommended one, or the lower one that loses least."""
    lower = [row for row in decision.rows if row.precision != BASELINE and row.score]
    chosen = decision.recommended
    if chosen in lower:
        return chosen
    return min(lower, key=lambda row: row.score.loss if row.score else 0.0, default=None)


def class_losses(decision: Decision) -> Table:
    """Return the classes that lose most; none where there are no classes."""
    row = looked_at(decision)
    classes = row.score.classes if row and row.score else []
    enough = sorted(
        (one for one in classes if one.annotations >= LEAST_ANNOTATIONS), key=lambda one: one.value - one.baseline
    )
    left_out = counted(len(classes) - len(enough), "class", "classes")
    few = f"Not shown: {left_out} with fewer than {LEAST_ANNOTATIONS} annotations: one object can change AP by tenths."
    notes = [few] if len(enough) < len(classes) else []
    return Table(_CLASS_LOSSES, enough[:_CLASSES], f"Loss of {row.label if row else ''} by class", notes)


def _pictures(directory: Path, decision: Decision) -> list[GalleryEntry]:
    """Draw the images on which a row differs most from the baseline: baseline left, row right."""
    baseline = decision.row(*decision.baseline) if decision.baseline else None
    row = looked_at(decision)
    if baseline is None or row is None or not (baseline.directory and row.directory) or decision.task != "detection":
        return []
    made_here, gallery = is_made_here(directory), plots_folder(directory) / "gallery"
    folders = [directory / baseline.directory, directory / row.directory]
    metrics = read_document(folders[0] / "metrics.json", CocoMetrics)
    images = Path(metrics["dataset"]["images"])
    if made_here and not images.is_dir():
        return []
    exif, least = metrics["settings"].get("exif", "ignore"), metrics["settings"].get("threshold", SCORE_THRESHOLD)
    before, after = ({one["image_id"]: one for one in _records(folder)} for folder in folders)
    apart = {number: _apart(before[number], after[number]) for number in sorted(before.keys() & after.keys())}
    ids = sorted((one for one in apart if any(apart[one])), key=lambda one: apart[one], reverse=True)[:_PICTURES]
    if not made_here:
        urls = [(number, kept_picture(gallery / f"difference-{place}.jpg")) for place, number in enumerate(ids, 1)]
        return [GalleryEntry(_caption(before[number], after[number], row), url) for number, url in urls if url]
    left, right = (predictions_of(folder, set(ids)) for folder in folders)
    names = {one["category_id"]: label(one["name"], 40) for one in metrics["per_class"]}
    drawn = []
    for number, image_id in enumerate(ids, 1):
        old, new = ([box for box in found[image_id] if box.get("score", 0.0) >= least] for found in (left, right))
        picture = side_by_side(image_path(images, before[image_id]), old, new, names, task_in(metrics), exif)
        if picture is not None:
            url = save_picture(picture, gallery / f"difference-{number}.jpg")
            drawn.append(GalleryEntry(_caption(before[image_id], after[image_id], row), url))
    return drawn


def _texts(directory: Path, decision: Decision) -> Table:
    """Return utterances that a row writes in another way than the baseline, those with most further errors first."""
    baseline = decision.row(*decision.baseline) if decision.baseline else None
    row = looked_at(decision)
    if baseline is None or row is None or not (baseline.directory and row.directory) or decision.task != TRANSCRIPTION:
        return Table((), ())
    folders = (directory / str(one.directory) for one in (baseline, row))
    return cast("Table", speech().changed_texts(*folders, (BASELINE, row.label), _TEXTS))


def _apart(before: ImageRecord, after: ImageRecord) -> tuple[float, int]:
    """Return how far two records of an image are apart: by their F1, and of equal ones by their errors of each kind."""
    kinds, others = before.get("errors", {}), after.get("errors", {})
    changed = sum(abs(kinds.get(kind, 0) - others.get(kind, 0)) for kind in {**kinds, **others})
    return abs(f1(before) - f1(after)), changed


def _records(folder: Path) -> list[ImageRecord]:
    found: list[ImageRecord] = read_lines(folder / "records.jsonl", ImageRecord)
    return found


def _caption(before: ImageRecord, after: ImageRecord, row: DecisionRow) -> str:
    return f"{before['file_name']}: {BASELINE} {_counts(before)}; {row.precision} {_counts(after)}"


def _counts(record: ImageRecord) -> str:
    found = f"{record['true_positives']} found, {record['false_negatives']} missed, {record['false_positives']} wrong"
    kinds = [f"{count} {kind}" for kind, count in record.get("errors", {}).items() if count and kind != "missed"]
    return f"{found} ({', '.join(kinds)})" if kinds else found
