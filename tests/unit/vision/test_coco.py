"""eval-coco of a quantised model: what its ranges were found on is compared with the images."""

from pathlib import Path
from typing import Any

import onnx
import pytest
from tests.texts import held

from trt_workbench.core.workspace import embedded_model
from trt_workbench.model.low_precision.evidence import METADATA_KEY, CalibrationEvidence, Evidence, InputStatistics
from trt_workbench.vision.run import CocoEvaluation, CocoRequest
from trt_workbench.vision.scenes.scenes import write_dataset


@pytest.fixture(scope="module")
def annotations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("scenes"), "val", images=8)


def notes(folder: Path, annotations: Path, *, kind: Any = "data", **fed: Any) -> list[str]:
    """Return what an evaluation of the embedded detector says whose metadata tell of a calibration."""
    inputs = {"images": InputStatistics(mean=(0.45,) * 3, image=True, **{"spread": (0.2,) * 3, **fed})}
    data = CalibrationEvidence(
        kind=kind, samples=8, available=8, data_sha256=None, transform="", seed=0, percentile=99.99, inputs=inputs
    )
    evidence = Evidence(
        to="int8", calibrated=True, calibration=data, low_macs=1.0, low_weights=1.0, opset=17, source_opset=17,
        source="m.onnx", source_sha256="0", versions={},
    )  # fmt: skip
    document = onnx.load(embedded_model())
    document.metadata_props.add(key=METADATA_KEY, value=evidence.short())
    onnx.save(document, folder / "m.onnx")
    images = annotations.parents[1] / "val"
    request = CocoRequest(model=folder / "m.onnx", images=images, annotations=annotations, backend="ort-cpu")
    with CocoEvaluation(request) as evaluation:
        return evaluation.notes


def test_ranges_found_on_another_normalisation_are_noted(tmp_path: Path, annotations: Path) -> None:
    (note,) = notes(tmp_path, annotations, spread=(51.0,) * 3)
    held(note)


def test_nothing_is_noted_of_like_images_or_of_noise(tmp_path: Path, annotations: Path) -> None:
    assert notes(tmp_path, annotations) == []
    assert notes(tmp_path, annotations, spread=(51.0,) * 3, kind="random") == []
