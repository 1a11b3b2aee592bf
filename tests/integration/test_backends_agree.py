"""The same detector, the same images, two runtimes: the same figures."""

import os
from pathlib import Path
from typing import Any

import pytest

from trt_workbench.backends.registry import availability
from trt_workbench.vision.run import CocoEvaluation, CocoRequest

SHARED = Path(os.environ.get("TRTW_SHARED") or Path(__file__).parents[2].parent / "shared")
MODEL = SHARED / "models" / "yolox_nano.onnx"
IMAGES = SHARED / "data" / "coco-tiny" / "val2017"
ANNOTATIONS = SHARED / "data" / "coco-tiny" / "annotations" / "instances_val2017.json"
FIGURES = ("AP", "AP50", "AP75", "AR_100")

pytestmark = pytest.mark.skipif(
    not (MODEL.is_file() and ANNOTATIONS.is_file()),
    reason=f"needs yolox_nano.onnx and coco-tiny under {SHARED} (or TRTW_SHARED)",
)


def figures(backend: str, folder: Path) -> dict[str, Any]:
    found = availability(backend)
    if not found.ok:
        pytest.skip(f"{backend}: {found.reason}")
    request = CocoRequest(model=MODEL, images=IMAGES, annotations=ANNOTATIONS, backend=backend, limit=20)
    with CocoEvaluation(request) as evaluation:
        metrics = evaluation.run(folder).metrics
    assert metrics["backend"] == backend
    return metrics


@pytest.mark.parametrize("backend", ["torch", pytest.param("ort-cuda", marks=pytest.mark.gpu)])
def test_a_backend_gives_the_figures_of_ort_cpu(backend: str, tmp_path: Path) -> None:
    ours = figures(backend, tmp_path / "ours")
    reference = figures("ort-cpu", tmp_path / "reference")
    assert reference["AP"] > 0.2
    for name in FIGURES:
        assert ours[name] == pytest.approx(reference[name], abs=0.001)
