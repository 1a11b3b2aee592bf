"""An ensemble around a detector: encoded images to boxes, by three models that Triton runs one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trt_workbench.backends.preparation import Preparation
from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision import recognise
from trt_workbench_serving.config import Config, data_type, step_config
from trt_workbench_serving.settings import TritonSettings
from trt_workbench_serving.sources import TritonSource
from trt_workbench_serving.steps import BOXES, COUNT, IMAGE, LABELS, SCORES, SIZE, detector_document


@dataclass(frozen=True)
class Ensemble:
    """The models around a detector: the configurations of both steps and of the whole, and the classes' names."""

    letterbox: Config
    boxes: Config
    whole: Config
    names: tuple[str, ...] | None


def make_ensemble(name: str, source: TritonSource, preparation: Preparation, settings: TritonSettings) -> Ensemble:
    """Return the models around a detector.

    Raises:
        UsageProblem: the model is no detector of boxes, or nobody says how its images are prepared.
    """
    family = recognise(source.inputs, source.outputs, dict(source.metadata), preparation)
    if family.task != "boxes":
        raise UsageProblem(f"--ensemble writes boxes, and the model finds {family.task} (family {family.name}).")
    if family.constants(1):
        raise UsageProblem(f"--ensemble feeds only images, and family {family.name} takes the images' sizes, too.")
    transform, image = family.preparation(), source.inputs[0]
    thresholds = {"conf": settings.conf, "iou": settings.iou, "max_dets": settings.max_dets}
    document = detector_document(source.inputs, source.outputs, dict(source.metadata), preparation, **thresholds)
    encoded = {"name": IMAGE, "data_type": "TYPE_STRING", "dims": [1]}
    prepared = {"name": image.name, "data_type": data_type(image.dtype), "dims": list(transform.shape)}
    size = {"name": SIZE, "data_type": "TYPE_INT32", "dims": [2]}
    found = [
        {"name": one.name, "data_type": data_type(one.dtype), "dims": [-1 if d is None else d for d in one.shape[1:]]}
        for one in source.outputs
    ]
    most = settings.max_dets
    boxes: list[Config] = [
        {"name": BOXES, "data_type": "TYPE_FP32", "dims": [most, 4]},
        {"name": SCORES, "data_type": "TYPE_FP32", "dims": [most]},
        {"name": LABELS, "data_type": "TYPE_INT64", "dims": [most]},
        {"name": COUNT, "data_type": "TYPE_INT32", "dims": [1]},
    ]
    steps = {"letterbox": f"{name}_letterbox", "boxes": f"{name}_boxes"}
    return Ensemble(
        step_config(steps["letterbox"], [encoded], [prepared, size], "letterbox", document, settings, source.most),
        step_config(steps["boxes"], [*found, size], boxes, "boxes", document, settings, source.most),
        {
            "name": f"{name}_detector",
            "platform": "ensemble",
            "max_batch_size": source.most,
            "input": [encoded],
            "output": boxes,
            "ensemble_scheduling": {
                "step": [
                    _step(steps["letterbox"], {IMAGE: IMAGE}, {image.name: "prepared", SIZE: "size"}),
                    _step(name, {image.name: "prepared"}, {one.name: f"found {one.name}" for one in source.outputs}),
                    _step(
                        steps["boxes"],
                        {**{one.name: f"found {one.name}" for one in source.outputs}, SIZE: "size"},
                        {one["name"]: one["name"] for one in boxes},
                    ),
                ]
            },
        },
        family.names,
    )


def _step(model: str, inputs: dict[str, str], outputs: dict[str, str]) -> dict[str, Any]:
    return {"model_name": model, "model_version": -1, "input_map": inputs, "output_map": outputs}
