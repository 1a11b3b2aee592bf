"""What int8, fp8 and fp16 lose against fp32 by model, and what could be known of it before: one line a model.

Usage: measure.py WHEELS DATA WORK OUT.jsonl [NAME…]

WHEELS holds the wheels of `subjects.py`, DATA has data/coco-tiny, data/wikitext-2 and models; models and candidates are
written to WORK. Ranges are found on every other sample, losses on those between. Models that OUT has already are left
out.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from subjects import SUBJECTS, Places, Subject, member, wheel

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.registry import load_reference
from trt_workbench.core.errors import WorkbenchError
from trt_workbench.core.precision import DEPTHWISE
from trt_workbench.model.constants import constants
from trt_workbench.model.low_precision.groups import PrecisionGroup, quantisable
from trt_workbench.model.low_precision.preparation import prepare
from trt_workbench.model.opened import Model
from trt_workbench.quantize.calibrate import Calibrated, calibrate, fixed_batch
from trt_workbench.quantize.candidates import kept_groups, make_candidate
from trt_workbench.quantize.data import batches, calibration_data
from trt_workbench.quantize.sensitivity import measure_sensitivity
from trt_workbench.quantize.settings import CalibrationSettings, PlacementSettings

Array = NDArray[Any]
Outputs = list[Mapping[str, Array]]
FORMATS = ("fp16", "int8", "fp8")
_OPTIONS = SessionOptions(threads=1)
_MOST = 1e9
_LOOKED_AT = 4


def main() -> None:
    """Measure the models that are asked for, and append a line for each."""
    wheels, data, work, out, *names = sys.argv[1:]
    places, target = Places(Path(wheels), Path(data)), Path(out)
    done = [json.loads(line)["model"] for line in target.read_text().splitlines()] if target.is_file() else []
    for subject in SUBJECTS:
        if subject.name in done or (names and subject.name not in names):
            continue
        try:
            record = measure(subject, places, Path(work) / subject.name)
        except WorkbenchError as error:
            print(subject.name, f"refused: {error}", flush=True)
            continue
        with target.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        losses = {name: record[name].get("loss") for name in FORMATS}
        print(subject.name, losses, f"{record['wall_s']} s", flush=True)


def measure(subject: Subject, places: Places, folder: Path) -> dict[str, Any]:
    """Return the record of one model."""
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    given, source = written(subject, places, folder)
    model = Model.open(given)
    inputs = subject.inputs(places)
    halves = [folder / "calibration.npz", folder / "evaluation.npz"]
    for half, path in enumerate(halves):
        np.savez(path, **{name: array[half::2] for name, array in inputs.items()})
    settings = CalibrationSettings(calibration=str(halves[0]), samples=10_000, threads=1)
    calibrated = calibrate(model, settings)
    record = {"model": subject.name, "design": subject.design, "kind": subject.kind} | source
    record |= {"samples": [len(next(iter(inputs.values()))[half::2]) for half in (0, 1)]}
    record |= {"before": expected(model, calibrated, settings)}
    reference, few = outputs(given, settings, halves[1]), outputs(given, settings, halves[0], _LOOKED_AT)
    names = subject.scores or tuple(reference[0])
    for precision in FORMATS:
        made = folder / f"{subject.name}.{precision}.onnx"
        try:
            evidence = make_candidate(model, precision, made, calibration=calibrated).evidence
            glance, found = outputs(made, settings, halves[0], _LOOKED_AT), outputs(made, settings, halves[1])
        except WorkbenchError as error:
            record[precision] = {"error": f"{error!s:.300}"}
            continue
        record[precision] = {
            "loss": loss(subject, reference, found, names),
            "noise": noise(reference, found, names),
            "noise of four samples": noise(few, glance, names),
            "loss on four samples": loss(subject, few, glance, names),
            "low_macs": evidence.low_macs,
            "notes": list(evidence.notes),
        }
    return record | {"wall_s": round(time.monotonic() - began, 1)}


def written(subject: Subject, places: Places, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Write the model as its package loads it; return its path and where it is from."""
    target = folder / f"{subject.name}.onnx"
    if not subject.wheel:
        own = next(one for one in (places.data / subject.member, places.repository / subject.member) if one.is_file())
        data = own.read_bytes()
        source: dict[str, Any] = {"from": subject.member}
    else:
        data = member(places, subject.wheel, subject.member)
        source = {"from": wheel(places, subject.wheel).name, "file": subject.member}
        if subject.beside:
            (folder / subject.beside).write_bytes(member(places, subject.wheel, subject.beside))
    source["sha256"] = hashlib.sha256(data).hexdigest()
    if subject.fixed or subject.sizes:
        model = onnx.load_from_string(data)
        for name, value in (subject.fixed or {}).items():
            model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
            model.graph.input.remove(next(one for one in model.graph.input if one.name == name))
        for value in (*model.graph.input, *model.graph.output):
            for dim, size in zip(
                value.type.tensor_type.shape.dim, (subject.sizes or {}).get(value.name, ()), strict=False
            ):
                dim.Clear()
                setattr(dim, "dim_param" if isinstance(size, str) else "dim_value", size)
        data = model.SerializeToString()
    target.write_bytes(data)
    return target, source


def outputs(path: Path, settings: CalibrationSettings, samples: Path, most: int | None = None) -> Outputs:
    """Return what a model makes of each sample, or of the first few, by ONNX Runtime on the CPU."""
    model = Model.open(path)
    data = calibration_data(model, replace(settings, calibration=str(samples)))
    with load_reference(path, _OPTIONS) as session:
        return [session.run(batch.inputs) for batch in islice(batches(data, fixed_batch(model)), most)]


def noise(reference: Outputs, found: Outputs, names: tuple[str, ...]) -> float:
    """Return the power of the difference over that of the reference, mean over the outputs."""
    ratios = []
    for name in names:
        pairs = [
            (one[name].astype(np.float64), other[name].astype(np.float64))
            for one, other in zip(reference, found, strict=False)
        ]
        power = sum(float(np.square(one).sum()) for one, _ in pairs)
        apart = sum(float(np.square(one - other).sum()) for one, other in pairs)
        ratios.append(apart / power if power else 0.0)
    return float(np.mean(ratios))


def loss(subject: Subject, reference: Outputs, found: Outputs, names: tuple[str, ...]) -> float:
    """Return the share of what fp32 answers that the other answers otherwise, 0 to 1.

    Of `classes`, elements with another largest class; of `text`, edits a character; of `marks`, 1 - F1 of what is
    marked; of `boxes`, 1 - F1 of boxes of the same class that overlap by 0.7; of `values`, 1 - R2.
    """
    one, other = (
        [
            np.concatenate([subject.reads(call[name]).reshape(-1) for name in names])
            if subject.reads
            else call[names[0]]
            for call in calls
        ]
        for calls in (reference, found)
    )
    if subject.kind == "values":
        first, second = np.stack(one).astype(np.float64), np.stack(other).astype(np.float64)
        return float(min(1, np.square(first - second).sum() / np.square(first - first.mean(axis=0)).sum()))
    if subject.kind == "text":
        texts = [(_read(first), _read(second)) for first, second in zip(one, other, strict=False)]
        return min(1.0, sum(_edits(*pair) for pair in texts) / sum(len(first) for first, _ in texts))
    if subject.kind == "boxes":
        matched, total = np.sum([_matches(first, second) for first, second in zip(one, other, strict=False)], axis=0)
        return float(1 - 2 * matched / total)
    first, second = np.concatenate(one), np.concatenate(other)
    if subject.kind == "marks":
        return float(1 - 2 * (first & second).sum() / (first.sum() + second.sum()))
    return float((first != second).mean())


def _read(output: Array) -> list[int]:
    codes = output.argmax(axis=-1).ravel() if output.ndim > 2 else output.ravel()
    return [int(code) for at, code in enumerate(codes) if code and (at == 0 or codes[at - 1] != code)]


def _edits(first: list[int], second: list[int]) -> int:
    row = list(range(len(second) + 1))
    for at, code in enumerate(first):
        before, row[0] = row[0], at + 1
        for place, other in enumerate(second):
            before, row[place + 1] = row[place + 1], min(before + (code != other), row[place] + 1, row[place + 1] + 1)
    return row[-1]


def _matches(first: Array, second: Array) -> tuple[int, int]:
    one, other = ([box for box in boxes.reshape(-1, 6) if box[4] > 0.3] for boxes in (first, second))
    total, matched = len(one) + len(other), 0
    for box in one:
        for place, rival in enumerate(other):
            low, high = np.maximum(box[:2], rival[:2]), np.minimum(box[2:4], rival[2:4])
            shared = float(np.prod(np.maximum(high - low, 0)))
            both = float(np.prod(box[2:4] - box[:2]) + np.prod(rival[2:4] - rival[:2])) - shared
            if box[5] == rival[5] and shared > 0.7 * both:
                matched, other = matched + 1, [*other[:place], *other[place + 1 :]]
                break
    return matched, total


def expected(model: Model, calibrated: Calibrated, settings: CalibrationSettings) -> dict[str, Any]:
    """Return what can be known before a trial, of the groups that `quantize --to int8` would make low."""
    placement = PlacementSettings()
    document, _ = prepare(model)
    groups = quantisable(document, calibrated.shapes)
    kept = kept_groups(document, groups, "int8", placement, model.path)
    low = [group for group in groups if group.name not in kept]
    found = dict(_facts(document, low, groups, calibrated))
    found |= _activations(model, document, low, settings)
    began = time.monotonic()
    measured = measure_sensitivity(model, "int8", calibrated, settings, placement)
    noises = [group.noise for group in measured.free]
    found |= {"all groups' noise at once": measured.plain or 0.0, "sum of groups' noise": sum(noises)}
    found |= {"largest group's noise": max(noises, default=0.0)}
    # how well a group's own ratios follow its own noise: what the advice of a group would rest on
    return {name: float(min(value, _MOST)) for name, value in found.items()} | {
        "groups": len(low),
        "of groups": _by_group(document, low, measured.free, calibrated),
        "noise_s": round(time.monotonic() - began, 1),
    }


def _facts(
    document: onnx.ModelProto, low: list[PrecisionGroup], groups: tuple[PrecisionGroup, ...], calibrated: Calibrated
) -> Iterator[tuple[str, float]]:
    weights = constants(document.graph)
    rows = [_channels(weights[one.weight], one.axis) for one in low if one.weight in weights]
    ranges = [np.abs(row).max(axis=1) for row in rows]
    yield "weights, largest / median channel", max(float(one.max() / np.median(one[one > 0])) for one in ranges)
    yield "weights, largest / least channel", max(float(one.max() / one[one > 0].min()) for one in ranges)
    yield "weights, kurtosis, largest", max(map(_kurtosis, rows))
    yield "weights, kurtosis, median", float(np.median([*map(_kurtosis, rows)]))
    tails = [*_tails({name for one in low for name in one.activations}, calibrated).values()]
    yield "activations, largest / 99.9th percentile", max(tails)
    yield "activations, the same, median", float(np.median(tails))
    deep = [one for one in groups if one.sensitive == DEPTHWISE]
    yield "share of depthwise groups", len(deep) / len(groups)
    yield "groups in the format", float(len(low))
    yield "multiplications, deepest", float(np.log10(max(1, sum(one.macs for one in low))))


def _tails(names: set[str], calibrated: Calibrated) -> dict[str, float]:
    found = {}
    for name in names:
        histogram = calibrated.histograms[name]
        most = histogram.threshold("percentile", "int8", 99.9)
        found[name] = histogram.largest / most if most else 1.0
    return found


def _channels(weight: Array, axis: int | None) -> Array:
    return np.moveaxis(weight, axis or 0, 0).reshape(weight.shape[axis or 0], -1).astype(np.float64)


def _kurtosis(values: Array) -> float:
    apart = values - values.mean()
    return float((apart**4).mean() / max((apart**2).mean() ** 2, 1e-30))


def _activations(
    model: Model, document: onnx.ModelProto, low: list[PrecisionGroup], settings: CalibrationSettings
) -> dict[str, float]:
    """Return ratios of channels' ranges of what the groups multiply, on a few samples."""
    axes = {name: 1 if "Conv" in one.op_type else -1 for one in low for name in one.activations}
    there = {value.name for value in (*document.graph.input, *document.graph.output)}
    wanted = [name for name in axes if name not in there]
    copy = onnx.ModelProto()
    copy.CopyFrom(document)
    copy.graph.output.extend(onnx.helper.make_tensor_value_info(name, 1, None) for name in wanted)
    path = Path(settings.calibration or "").with_name("watched.onnx")
    onnx.save_model(copy, path)
    data = calibration_data(model, settings)
    most: dict[str, Array] = {}
    with load_reference(path, _OPTIONS) as session:
        for _, batch in zip(range(_LOOKED_AT), batches(data, fixed_batch(model)), strict=False):
            for name, array in session.run(batch.inputs).items():
                if name in wanted and array.ndim > 1:
                    axis = axes[name] % array.ndim
                    top = np.abs(array).max(axis=tuple(at for at in range(array.ndim) if at != axis))
                    known = most.get(name, top)
                    most[name] = np.maximum(known, top) if known.shape == top.shape else known
    ratios = [float(one.max() / np.median(one[one > 0])) for one in most.values() if (one > 0).any() and one.size > 1]
    return {
        "activations, largest / median channel": max(ratios, default=1.0),
        "activations, the same, median of groups": float(np.median(ratios)) if ratios else 1.0,
    }


def _by_group(document: onnx.ModelProto, low: list[PrecisionGroup], measured: list[Any], calibrated: Calibrated) -> Any:
    """Return rank correlations of groups' ratios with their own noise."""
    from scipy.stats import spearmanr

    weights = constants(document.graph)
    own = {one.name: one.noise for one in measured}
    rows = []
    for one in (one for one in low if one.weight in weights and one.name in own and one.activations):
        ranges = np.abs(_channels(weights[one.weight], one.axis)).max(axis=1)
        tail = max(_tails(set(one.activations), calibrated).values())
        rows.append((own[one.name], float(ranges.max() / np.median(ranges[ranges > 0])), tail))
    if len(rows) < 8:
        return None
    noises, ratios, tails = zip(*rows, strict=True)
    return [round(float(spearmanr(noises, one).statistic), 3) for one in (ratios, tails)]


if __name__ == "__main__":
    main()
