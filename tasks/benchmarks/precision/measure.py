"""AP of a detector as int8 and fp8 candidates, by method and by what is left alone, on images seen and not seen.

Usage: measure.py MODEL IMAGES ANNOTATIONS OUT.jsonl
       measure.py --embedded OUT.jsonl

The images at even places of the annotation file calibrate, and "unseen" are the others. The embedded detector is
calibrated on 128 scenes of another seed than those that are scored.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trt_workbench.core.workspace import embedded_model
from trt_workbench.model.low_precision.kinds import Method
from trt_workbench.model.low_precision.preparation import prepare, raise_opset
from trt_workbench.model.opened import Model
from trt_workbench.model.weights import save_model
from trt_workbench.quantize.calibrate import calibrate
from trt_workbench.quantize.candidates import make_candidate
from trt_workbench.quantize.data import CalibrationData, calibration_data
from trt_workbench.quantize.settings import CalibrationSettings, PlacementSettings
from trt_workbench.vision.run import CocoEvaluation, CocoRequest
from trt_workbench.vision.scenes.dataset import make_embedded_dataset
from trt_workbench.vision.scenes.scenes import write_dataset

_CALIBRATION_SEED = 17
METHODS: tuple[Method, ...] = ("max", "entropy", "percentile", "mse")
DEPTHWISE, FEW, HEADS = "depthwise", "at most 16 input channels", "it makes an output"
LEFT_ALONE = {
    "nothing": (),
    "depthwise": (DEPTHWISE,),
    "depthwise, few channels": (DEPTHWISE, FEW),
    "depthwise, heads": (DEPTHWISE, HEADS),
    "depthwise, few channels, heads": (DEPTHWISE, FEW, HEADS),
}


def split(images: Path, annotations: Path, folder: Path) -> tuple[Path, Path]:
    """Return a folder with links to every other image, and the annotations of those between."""
    document = json.loads(annotations.read_text())
    ordered = sorted(document["images"], key=lambda one: one["id"])
    seen = folder / "seen"
    seen.mkdir()
    for image in ordered[::2]:
        (seen / image["file_name"]).symlink_to((images / image["file_name"]).resolve())
    rest = {image["id"] for image in ordered[1::2]}
    document["images"] = [image for image in ordered if image["id"] in rest]
    document["annotations"] = [one for one in document["annotations"] if one["image_id"] in rest]
    unseen = folder / "unseen.json"
    unseen.write_text(json.dumps(document))
    return seen, unseen


def average_precision(model: Path, images: Path, annotations: Path, to: str) -> tuple[float, int]:
    """Return AP and the number of images."""
    options = {"graph_optimization_level": "basic"} if to == "fp8" else {}
    request = CocoRequest(model=model, images=images, annotations=annotations, backend="ort-cpu", options=options)
    with CocoEvaluation(request) as evaluation, tempfile.TemporaryDirectory() as folder:
        metrics = evaluation.run(Path(folder)).metrics
    return float(metrics["AP"]), metrics["images"]


def onnxruntime_static(model: Path, data: CalibrationData, method: str, path: Path) -> None:
    """Quantise by ONNX Runtime's own quantiser: symmetric, per channel, convolutions alone."""
    from onnxruntime import quantization as ort

    class Reader(ort.CalibrationDataReader):
        def __init__(self) -> None:
            self._samples = ({name: row[None] for name, row in sample.items()} for sample in data.read())

        def get_next(self) -> Any:
            return next(self._samples, None)

    ort.quantize_static(
        raise_opset(prepare(Model.open(model))[0], "int8", model),
        path,
        Reader(),
        quant_format=ort.QuantFormat.QDQ,
        op_types_to_quantize=["Conv"],
        per_channel=True,
        weight_type=ort.QuantType.QInt8,
        activation_type=ort.QuantType.QInt8,
        calibrate_method=getattr(ort.CalibrationMethod, method),
        extra_options={"ActivationSymmetric": True, "WeightSymmetric": True, "CalibPercentile": 99.99},
    )


def modelopt(python: Path, model: Path, data: CalibrationData, method: str, left: Sequence[str], path: Path) -> None:
    """Quantise by Model Optimizer in the environment of another Python, as its versions of onnx are others.

    Args:
        python: the interpreter that has nvidia-modelopt with its extra onnx.
        model: the float model, opset 13 at least, every node with a name.
        data: calibration samples of the one input.
        method: "max" or "entropy".
        left: nodes that are left alone.
        path: the file to write.
    """
    samples = path.with_suffix(".npy")
    np.save(samples, np.stack([next(iter(sample.values())) for sample in data.read()]))
    command = [str(python), "-m", "modelopt.onnx.quantization", "--onnx_path", str(model), "--quantize_mode", "int8"]
    command += ["--calibration_method", method, "--calibration_data_path", str(samples), "--calibration_eps", "cpu"]
    command += ["--high_precision_dtype", "fp32", "--output_path", str(path)]
    if left:
        command += ["--nodes_to_exclude", *(f"^{re.escape(name)}$" for name in left)]
    subprocess.run(command, check=True)


def plans(arguments: argparse.Namespace) -> Iterator[tuple[str, Method, str]]:
    """Yield format, method and what is left alone."""
    for to in arguments.to.split(","):
        for method in METHODS:
            for left in arguments.left.split(";") if arguments.left else LEFT_ALONE:
                if not (to == "fp8" and method == "entropy"):
                    yield to, method, left


def main() -> None:
    """Measure and append one line a candidate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--embedded", action="store_true")
    parser.add_argument("--to", default="int8,fp8")
    parser.add_argument("--left", help="names of LEFT_ALONE, separated by semicolons")
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument(
        "--modelopt", type=Path, help="measure this Python's Model Optimizer, and the default for comparison"
    )
    parser.add_argument("--onnxruntime", action="store_true", help="measure ONNX Runtime's own quantiser instead")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, arguments.files[-1].open("a", encoding="utf-8") as out:
        folder = Path(name)
        if arguments.embedded:
            model, place = embedded_model(), make_embedded_dataset()
            images, sets = place.images, {"all": place.annotations}
            write_dataset(folder, "calibration", 128, _CALIBRATION_SEED)
            data = folder / "calibration"
        else:
            model, images, annotations, _ = arguments.files
            data, unseen = split(images, annotations, folder)
            sets = {"all": annotations, "unseen": unseen}

        def record(**fields: Any) -> None:
            sys.stdout.write(f"{fields}\n")
            out.write(json.dumps({"model": model.name, **fields}) + "\n")
            out.flush()

        def scores(path: Path, to: str) -> dict[str, Any]:
            found = {name: average_precision(path, images, file, to) for name, file in sets.items()}
            return {f"AP_{name}": ap for name, (ap, _) in found.items()} | {
                f"images_{name}": count for name, (_, count) in found.items()
            }

        record(to="fp32", **scores(model, "fp32"))
        _, groups = prepare(Model.open(model))
        settings = CalibrationSettings(calibration=str(data), samples=arguments.samples)
        if arguments.onnxruntime:
            for name in ("MinMax", "Entropy", "Percentile"):
                path = folder / "ort.onnx"
                onnxruntime_static(model, calibration_data(Model.open(model), settings), name, path)
                record(to="int8", method=f"onnxruntime {name}", samples=settings.samples, **scores(path, "int8"))
            return
        if arguments.modelopt:
            path, named = folder / "modelopt.onnx", folder / model.name
            save_model(raise_opset(prepare(Model.open(model))[0], "int8", model), named)
            depthwise = [group.name for group in groups if group.sensitive == DEPTHWISE]
            for method, left in (("max", ()), ("entropy", ()), ("max", depthwise), ("entropy", depthwise)):
                modelopt(arguments.modelopt, named, calibration_data(Model.open(model), settings), method, left, path)
                left_alone = DEPTHWISE if left else "nothing"
                found = scores(path, "int8")
                record(to="int8", method=f"modelopt {method}", left_alone=left_alone, samples=settings.samples, **found)
            path = folder / "ours.onnx"
            make_candidate(Model.open(model), "int8", path, calibration=settings)
            found = scores(path, "int8")
            record(to="int8", method="mse", left_alone="depthwise, heads", samples=settings.samples, **found)
            return
        calibrated = calibrate(Model.open(model), settings)
        for to, method, left in plans(arguments):
            keep = tuple(group.name for group in groups if group.sensitive in LEFT_ALONE[left] and group.sensitive)
            placement = PlacementSettings(method=method, keep_sensitive=False, keep=keep)
            path = folder / f"model.{to}.onnx"
            made = make_candidate(Model.open(model), to, path, calibration=calibrated, placement=placement)
            evidence = made.evidence
            record(
                to=to,
                method=method,
                left_alone=left,
                low_macs=evidence.low_macs,
                samples=calibrated.evidence.samples,
                **scores(path, to),
            )


if __name__ == "__main__":
    main()
