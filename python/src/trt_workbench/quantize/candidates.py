"""Candidates: the one way from a float model to one in another format, for every format."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from trt_workbench import __version__
from trt_workbench.core.counts import some
from trt_workbench.core.documents import read_document, write_json
from trt_workbench.core.environment import installed_packages
from trt_workbench.core.errors import ComponentMissing, UsageProblem, did_you_mean
from trt_workbench.core.files import refuse_foreign, scratch_folder
from trt_workbench.core.input_files import refuse_special
from trt_workbench.core.memory import give_back
from trt_workbench.core.precision import WEIGHTS, read
from trt_workbench.engine import native
from trt_workbench.engine.written_models import check_model_output
from trt_workbench.model.low_precision.blocks import heads, quantize_blocks, without_form
from trt_workbench.model.low_precision.cast import cast_model
from trt_workbench.model.low_precision.evidence import METADATA_KEY, Evidence, SearchEvidence, TensorRange
from trt_workbench.model.low_precision.groups import ATTENTION, Outsider, PrecisionGroup, Shapes, outsiders, quantisable
from trt_workbench.model.low_precision.kinds import Method
from trt_workbench.model.low_precision.preparation import DoesNotApply, Lowered, prepare, raise_opset
from trt_workbench.model.low_precision.qdq import insert_pairs, ranged_tensors
from trt_workbench.model.opened import Model
from trt_workbench.model.opsets import OPSETS
from trt_workbench.model.proto import integer, opset
from trt_workbench.model.weights import save_model
from trt_workbench.quantize.calibrate import Calibrated, Progress, calibrate
from trt_workbench.quantize.settings import CalibrationSettings, PlacementSettings
from trt_workbench.quantize.written import check_written


@dataclass(frozen=True)
class Candidate:
    """A model in another format.

    Attributes:
        path: the ONNX file; its evidence is next to it as `NAME.json` (`model.int8.onnx`: `model.int8.json`).
        precision: the format.
        evidence: how it was made.
    """

    path: Path
    precision: str
    evidence: Evidence


def make_candidate(
    model: Model,
    precision: str,
    output: Path,
    *,
    calibration: CalibrationSettings | Calibrated | None = None,
    placement: PlacementSettings | None = None,
    search: SearchEvidence | None = None,
    on_progress: Progress | None = None,
    check: bool = True,
) -> Candidate:
    """Make `model` in the format `to`, compare the two, and write it with its evidence, whole or not at all.

    Args:
        model: of floats.
        precision: the format.
        output: the ONNX file to write.
        calibration: the data, or what `calibrate` made of it (for several candidates of one model); formats with
            scales found while running (mxfp8, nvfp4) and weight-only formats need none.
        placement: what is unchanged, and how ranges are chosen; by default the format's own method, with what is
            known to be sensitive left alone.
        search: how `placement.keep` was chosen, where that was by a score.
        on_progress: called with the samples done and their total while ranges are found.
        check: compare the candidate with the model; of one that is only scored, the score does.

    Returns:
        The candidate.

    Raises:
        UsageProblem: the model cannot be made so, is quantised already, or the data do not fit it.
        CheckFailed: the candidate does not load or run, or its results are not those of the model (`check_written`).
        ComponentMissing: ONNX Runtime is absent, or transformers for a text.
        OSError: the output cannot be written.
    """
    placement = placement or PlacementSettings()
    check_output(model, output)
    (row, mode), method = read(precision), method_of(precision, placement)
    document, groups = prepare(model, products=not _is_cast(precision))
    kept = kept_groups(document, groups, precision, placement, model.path)
    if search:
        kept |= dict.fromkeys((name for name in placement.keep if name in kept), "chosen by the score")
    low = [group for group in groups if group.name not in kept]
    source = document
    others = other_products(document, precision)
    kept |= {name: one.reason for name, one in others.items()}
    if groups and not low:
        reasons = ", ".join(dict.fromkeys(kept[group.name] for group in groups))
        raise DoesNotApply(
            f"{all_groups(len(groups))} kept in fp32 ({reasons}), so nothing becomes {precision}: {model.path}"
        )
    document = raise_opset(document, precision, model.path)  # before calibration, which takes minutes
    calibrated = _calibrated(model, calibration, on_progress) if row.is_calibrated else None
    ranges = calibrated.ranges(ranged_tensors(document, low), method, precision) if calibrated else {}
    if calibrated:  # arithmetic by the shapes that the data have
        macs_of = {group.name: group.macs for group in quantisable(source, calibrated.shapes)}
        groups = tuple(replace(group, macs=macs_of[group.name]) for group in groups)
        low = [group for group in groups if group.name not in kept]
        others = other_products(source, precision, calibrated.shapes)
    made = lowered(document, low, precision, ranges, placement)
    names = {group.name for group in low}
    kept |= {name: reason for name, reason in made.kept.items() if name in names}
    notes = tuple(f"{name} is unchanged: {reason}." for name, reason in made.kept.items() if name not in names)
    low = [group for group in low if group.name not in kept]
    products: list[PrecisionGroup | Outsider] = [*groups, *others.values()]
    # weights of 4 bits are widened in front of the products
    macs = 0.0 if mode == WEIGHTS else _share([group.macs for group in low], [one.macs for one in products])
    evidence = Evidence(
        to=precision,
        method=method if calibrated else None,
        calibrated=calibrated is None or calibrated.evidence.kind == "data",
        calibration=calibrated.evidence if calibrated else None,
        ranges=ranges,
        kept=kept,
        low_macs=macs,
        low_weights=_share(weight_elements(low), weight_elements(products)),
        opset=opset(made.model),
        source_opset=model.facts.opset,
        notes=(
            *made.notes,
            *notes,
            *(calibrated.notes if calibrated else ()),
            *_zeros(ranges),
            *_notes(precision, opset(made.model), calibration),
            *_not_built(precision, [node for node in made.model.graph.node if node.name not in kept]),
        ),
        search=search,
        source=model.path.name,
        source_sha256=model.sha256,
        versions=_versions(),
    )
    del document, source  # as large as what is checked now
    give_back()
    return Candidate(output, precision, write_candidate(made.model, evidence, output, model if check else None))


def other_products(document: onnx.ModelProto, precision: str, shapes: Shapes | None = None) -> dict[str, Outsider]:
    """Return the products that a format leaves alone as they are no group; their arithmetic counts in every share."""
    return {} if _is_cast(precision) else outsiders(document, shapes)  # casts take every node


def kept_groups(
    document: onnx.ModelProto,
    groups: Sequence[PrecisionGroup],
    precision: str,
    placement: PlacementSettings,
    model: Path,
) -> dict[str, str]:
    """Return the groups that are left alone, each with the reason.

    Args:
        document: of `prepare`.
        groups: of `prepare`.
        precision: the format.
        placement: what is requested.
        model: for messages.

    Raises:
        UsageProblem: a name or pattern fits no group.
    """
    names = [group.name for group in groups]
    row, _ = read(precision)
    sensitive = row.sensitive if placement.keep_sensitive else ()
    kept = {group.name: group.sensitive for group in groups if group.sensitive in sensitive}
    if row.is_calibrated and not placement.attention:
        kept |= {group.name: "a product of two activations" for group in groups if group.op_type == ATTENTION}
    if row.block:
        kept |= without_form(document, groups, precision)
        last = heads(document, groups) if placement.keep_sensitive else {}
        kept |= last if len(kept | last) < len(groups) else {}
    for pattern in placement.keep:
        found = [pattern] if pattern in names else fnmatch.filter(names, pattern)
        if not found:
            raise UsageProblem(f"There is no group {pattern!r} to keep; {did_you_mean(pattern, names)} {model}")
        kept |= dict.fromkeys(found, "requested")
    return kept


def lowered(
    document: onnx.ModelProto,
    low: Sequence[PrecisionGroup],
    precision: str,
    ranges: Mapping[str, TensorRange],
    placement: PlacementSettings,
) -> Lowered:
    """Return the model with groups in a format."""
    if _is_cast(precision):
        names = {name for group in low for name in group.nodes}
        products = {name for group in quantisable(document) for name in group.nodes}
        return cast_model(document, precision, products - names)
    if read(precision)[0].block:
        quantize_blocks(document, low, precision)
    else:
        thresholds = {name: found.threshold for name, found in ranges.items()}
        insert_pairs(document, low, thresholds, precision, compact=placement.compact)
    return Lowered(document)


def _is_cast(precision: str) -> bool:
    return read(precision)[0].recipe == "cast"


def all_groups(count: int) -> str:
    """Return the beginning of a sentence about all groups of a model."""
    return "The only group is" if count == 1 else f"All {count} groups are"


def weight_elements(products: Sequence[PrecisionGroup | Outsider]) -> list[int]:
    """Return the elements of the weights, of one that several groups share once."""
    shared = {one.weight: one.weight_elements for one in products if isinstance(one, PrecisionGroup)}
    return [*shared.values(), *(one.weight_elements for one in products if isinstance(one, Outsider))]


def write_candidate(document: onnx.ModelProto, evidence: Evidence, output: Path, model: Model | None) -> Evidence:
    """Write a model with its evidence inside and beside it; neither is there without the other.

    Args:
        document: the model.
        evidence: how it was made.
        output: the file.
        model: what it was made of, to compare it with before it is called written; None leaves that out.

    Returns:
        The evidence, with the result of the comparison.

    Raises:
        CheckFailed: as `check_written`.
        OSError: the folder is not writable or the disk is full.
    """
    entries = {entry.key: entry.value for entry in document.metadata_props} | {METADATA_KEY: evidence.short()}
    onnx.helper.set_model_props(document, entries)
    output.parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder(f".{output.name}.", output.parent) as staging:
        save_model(document, staging / output.name)
        if model and (notes := check_written(model, staging / output.name, evidence.to)):
            evidence = evidence.model_copy(update={"notes": (*evidence.notes, *notes)})
        write_json(staging / evidence_path(output).name, evidence)
        for file in sorted(staging.iterdir(), key=lambda one: one.name == output.name):  # the model last
            file.replace(output.with_name(file.name))
    return evidence


def evidence_path(model: Path) -> Path:
    """Return where the whole evidence of a candidate lies."""
    return model.with_suffix(".json")


def candidate_files(model: Path) -> tuple[Path, ...]:
    """Return the files of a candidate: the model, its evidence, and the weights beside it, which may be absent."""
    return model, evidence_path(model), model.with_name(f"{model.name}.data")


def check_output(model: Model, output: Path) -> None:
    """Refuse an output that is no ONNX file, or that would take the place of the model, its weights or a device.

    Whether a file there may be replaced is another question (`check_user_output`): in a cache, all may.
    """
    if output.suffix != ".onnx" or output.is_dir():
        raise UsageProblem(f"The output must be an ONNX file, NAME.onnx: {output}")
    sources = {os.path.realpath(file) for file in model.files}
    for file in (output, evidence_path(output), output.with_name(f"{output.name}.data")):
        refuse_special(file)
        # not resolve(): on a ring of links it raises RuntimeError
        if os.path.realpath(file) in sources:
            raise UsageProblem(f"The output would replace the model or its weights; give it another name: {file}")


def check_user_output(model: Model, output: Path) -> None:
    """Refuse an output of the user's as `check_output`, and where it or a file beside it was not written by us."""
    check_output(model, output)
    check_model_output(output, model.files)
    refuse_foreign(evidence_path(output), lambda file: read_document(file, Evidence))


def method_of(precision: str, placement: PlacementSettings) -> Method:
    """Return how ranges are chosen. Raises UsageProblem where the format has no such method."""
    row, _ = read(precision)
    method = placement.method or row.method
    if placement.method and not row.is_calibrated:
        raise UsageProblem(f"{precision} needs no calibration; remove --method.")
    if row.is_float and method == "entropy":
        raise UsageProblem(
            f"The method entropy needs the even steps of int8; use max, percentile or mse for {precision}."
        )
    return method


def _calibrated(
    model: Model, calibration: CalibrationSettings | Calibrated | None, on_progress: Progress | None
) -> Calibrated:
    if not isinstance(calibration, Calibrated):
        return calibrate(model, calibration or CalibrationSettings(), on_progress)
    if calibration.source_sha256 != model.sha256:
        raise UsageProblem(f"The ranges were calibrated on another model: {model.path}")
    return calibration


def _zeros(ranges: Mapping[str, TensorRange]) -> tuple[str, ...]:
    """Say which activations have almost no range."""
    zeros = [name for name, found in ranges.items() if not found.largest]
    return (f"Always 0 in the calibration data, so the range is meaningless: {some(zeros, 5)}.",) if zeros else ()


def _notes(precision: str, version: int, calibration: CalibrationSettings | Calibrated | None) -> tuple[str, ...]:
    if (
        not read(precision)[0].is_calibrated
        and isinstance(calibration, CalibrationSettings)
        and calibration.calibration
    ):
        return (f"The calibration data were not used: {precision} needs no calibration.",)
    if precision == "int8" and version > OPSETS["8.6"]:
        return (
            f"TensorRT 8.6 reads operator sets up to {OPSETS['8.6']}; this model has {version}, which 10 and 11 read.",
        )
    return ()


def _not_built(precision: str, nodes: Sequence[onnx.NodeProto]) -> tuple[str, ...]:
    """Say what the TensorRT here is known not to build (docs/reference/known-faults.md)."""
    grouped = [node.name for node in nodes if node.op_type == "Conv" and integer(node, "group", 1) > 1]
    if precision == "fp16" and grouped:
        with suppress(ComponentMissing):
            if (version := str(native.tensorrt_status()["version"])).startswith("11.2.1"):
                options = " ".join(f"--keep {name}" for name in grouped)
                return (
                    f"TensorRT {version} does not build grouped convolutions in fp16; keep them in fp32: {options}",
                )
    return ()


def _share(parts: Sequence[int], all_of: Sequence[int]) -> float:
    return sum(parts) / total if (total := sum(all_of)) else 0.0


def _versions() -> dict[str, str]:
    found = installed_packages()
    found.setdefault("onnxruntime", found.get("onnxruntime-gpu", "unknown"))  # either brings the module
    return {"trt-workbench": __version__} | {
        name: found.get(name, "unknown") for name in ("onnx", "onnxruntime", "numpy")
    }
