"""A decision about runs that are there already: evaluations of one data set, and benches of their models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from trt_workbench.core.artefacts import read_bench_run
from trt_workbench.core.documents import read_document
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.records import Record, by_work
from trt_workbench.decide.document import BASELINE, Decision
from trt_workbench.decide.judge import judged
from trt_workbench.decide.settings import DecideSettings
from trt_workbench.decide.task import Detection
from trt_workbench.decide.tried import DraftRow
from trt_workbench.model.identity import sha256_of
from trt_workbench.model.low_precision.evidence import Evidence, evidence_in
from trt_workbench.model.opened import Model
from trt_workbench.model.precision import precision_label
from trt_workbench.quantize import coco_scores
from trt_workbench.vision import CocoMetrics


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
    dataset = documents[baseline]["dataset"]
    return judged(
        tried,
        chosen,
        model=Path(documents[baseline]["model"]["path"]),
        model_sha256=documents[baseline]["model"]["sha256"],
        task=Detection(Path(dataset["images"]), Path(dataset["annotations"])),
        settings=DecideSettings(max_loss=max_loss, batch=chosen[0].batch if chosen else 1),
        notes=["Put together from runs that were made one by one; latencies are those of bench."],
        left_out=[],
        wall_s=0.0,
        root=root,
    )


def _tried(directory: Path, metrics: CocoMetrics) -> DraftRow:
    path = Path(metrics["model"]["path"])
    found = DraftRow(
        precision_label(metrics) or metrics["settings"].get("precision", "unknown"),
        metrics["backend"],
        asked=metrics["settings"].get("precision", BASELINE),
        path=path if path.is_file() else None,
        evidence=_evidence(path, metrics["model"]["sha256"]),
        folder=directory,
        provenance={**metrics["provenance"], "precision_ran": metrics.get("precision_ran")},
    )
    try:
        found.scores = coco_scores(directory, 0)
    except UsageProblem as problem:  # its images are gone, for example; the others can still be judged
        found.fail("failed", str(problem))
    return found


def _evidence(path: Path, sha256: str) -> Evidence | None:
    """Return how the file was made that was evaluated; None where it says nothing, is gone or is another one now."""
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
