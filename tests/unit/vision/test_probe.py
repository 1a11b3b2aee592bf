"""What nobody says of the images is found out on images of its own, and refused where two ways are alike."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.in_app import json_of
from tests.texts import refused
from tests.wrapped import as_detr

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.preparation import Preparation
from trt_workbench.core.errors import CheckFailed, UsageProblem
from trt_workbench.core.workspace import embedded_model
from trt_workbench.vision.dataset import Category, CocoDataset, read_dataset
from trt_workbench.vision.detections import DetectionTable
from trt_workbench.vision.families import recognise
from trt_workbench.vision.predict import Predictor, PredictRequest
from trt_workbench.vision.probe import IMAGES, Way, chosen, open_ways, probe, split
from trt_workbench.vision.run import CocoEvaluation, CocoRequest
from trt_workbench.vision.scenes.scenes import write_dataset

CATEGORIES = tuple(Category(number, name) for number, name in enumerate("abc", 1))
SETTINGS = ("normalize", "channel_order")


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: Any) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("scenes")
    return root / "val", write_dataset(root, "val", 2 * IMAGES, 5)


def evaluation(scenes: tuple[Path, Path], model: Path, lines: list[str] | None = None, **said: Any) -> CocoEvaluation:
    request = CocoRequest(
        model=model, images=scenes[0], annotations=scenes[1], backend="ort-cpu", find_out=lines is not None, **said
    )
    return CocoEvaluation(request, None if lines is None else lines.append)


@pytest.mark.long
@pytest.mark.parametrize(("normalize", "order"), [("none", "rgb"), ("imagenet", "bgr")])
def test_the_normalisation_of_a_known_detector_is_found(
    scenes: Any, tmp_path: Path, normalize: str, order: str
) -> None:
    lines: list[str] = []
    model = as_detr(embedded_model(), tmp_path / "m.onnx", normalize, order, 9)  # the ninth slot is of no class
    with evaluation(scenes, model, lines, channel_order=order, background="last") as found:
        outcome = found.run(tmp_path)
    probed, settings = outcome.metrics["probe"], outcome.metrics["settings"]
    assert probed["chosen"] == {"normalize": normalize}
    assert (settings["normalize"], settings["channel_order"], settings["background"]) == (normalize, order, "last")
    done = [json.loads(line)["image_id"] for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert (len(done), len(probed["images"]), {*done} & {*probed["images"]}) == (IMAGES, IMAGES, set())
    assert outcome.metrics["AP"] > 0.75
    assert [f"--normalize {normalize}: AP 0.8" in line for line in lines].count(True) == 1
    assert any(f"prepared with --normalize {normalize}" in note for note in outcome.metrics["notes"])


@pytest.mark.long
def test_the_background_is_found_by_the_classes_that_are_left(scenes: Any, tmp_path: Path) -> None:
    model = as_detr(embedded_model(), tmp_path / "m.onnx", "none", "rgb", 9)
    where = ("--data", scenes[0], "--annotations", scenes[1], "--output", tmp_path / "run")
    metrics = json_of("eval-coco", model, *where, "--normalize", "none", "--backend", "ort-cpu")
    assert metrics["probe"]["chosen"] == {"background": "last"}
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "what was tried" in page
    assert f'<td class="text">last</td><td>{metrics["probe"]["ways"][0]["AP"]:.4f}</td>' in page
    with refused(UsageProblem):
        evaluation(scenes, model, normalize="none")


@pytest.mark.long
def test_what_is_alike_is_refused_with_the_options_that_decide(scenes: Any, tmp_path: Path) -> None:
    model = as_detr(embedded_model(), tmp_path / "m.onnx", "itself", "rgb", 8)
    with pytest.raises(UsageProblem, match=r"certain: --normalize .* not distinguishable from .* Pass --normalize as"):
        evaluation(scenes, model, [], channel_order="rgb")
    with refused(UsageProblem):
        evaluation(scenes, model)
    with refused(UsageProblem):
        Predictor(PredictRequest(model=model, sources=(scenes[0],), backend="ort-cpu"))


def row(normalize: str, order: str, ap: float | None, behind: Any = None) -> dict[str, Any]:
    reason = "NaN" if ap is None else None
    return {"normalize": normalize, "channel_order": order, "AP": ap, "behind_ci95": behind, "reason": reason}


def test_only_what_is_clear_of_all_others_is_taken() -> None:
    best = row("none", "rgb", 0.5)
    rows = [best, row("none", "bgr", 0.4, (0.01, 0.2)), row("imagenet", "rgb", None)]
    assert chosen(rows, SETTINGS) == {"normalize": "none", "channel_order": "rgb"}
    for alike in ((0.49, (-0.01, 0.03)), (0.5, (0.0, 0.0)), (0.1, None)):
        with refused(UsageProblem):
            chosen([best, row("none", "bgr", *alike)], SETTINGS)
    with refused(UsageProblem):
        chosen([best, row("none", "bgr", 0.5, (-1, 1)), row("imagenet", "rgb", 0.4, (-1, 1))], SETTINGS)
    for nothing in (row("none", "rgb", 0.0), row("none", "rgb", None)):
        with refused(UsageProblem):
            chosen([nothing], SETTINGS)


@pytest.mark.long
def test_a_way_that_the_model_cannot_run_is_no_candidate(scenes: Any) -> None:
    dataset = read_dataset(*scenes)
    truth = dataset.truth

    def run(way: Way) -> DetectionTable:
        if way.tried["normalize"] == "0-255":
            raise CheckFailed("The model returned NaN")
        half = slice(None, None, 1 if way.tried["normalize"] == "imagenet" else 2)
        scores = np.ones(len(truth.boxes[half]), np.float32)
        return DetectionTable(
            truth.image_ids[half], truth.category_ids[half], truth.boxes[half].astype(np.float32), scores
        )

    ways: Any = [Way({"normalize": name}, None, None) for name in ("none", "0-255", "imagenet")]  # type: ignore[arg-type]
    rows = probe(ways, dataset, run, 0)
    assert [one["normalize"] for one in rows] == ["imagenet", "none", "0-255"]
    assert (rows[0]["AP"], rows[2]["reason"], rows[2]["AP"]) == (pytest.approx(1), "The model returned NaN", None)
    assert rows == probe(ways, dataset, run, 0)
    assert chosen(rows, ("normalize",)) == {"normalize": "imagenet"}


def test_no_image_is_tried_and_scored(scenes: Any) -> None:
    whole = read_dataset(*scenes)

    def ids(dataset: CocoDataset) -> set[int]:
        return {image.id for image in dataset.images}

    on, scored = split(whole, whole, 0, ["normalize"])
    assert (len(on.images), ids(on) | ids(scored), ids(on) & ids(scored)) == (IMAGES, ids(whole), set())
    assert ids(on) == ids(split(whole, whole, 0, ["normalize"])[0]) != ids(split(whole, whole, 1, ["normalize"])[0])
    limited = read_dataset(*scenes, limit=20)
    on, scored = split(whole, limited, 0, ["normalize"])
    assert (ids(scored), len(on.images), ids(on) & ids(limited)) == (ids(limited), IMAGES, set())
    for few, some in ((limited, limited), (whole, read_dataset(*scenes, limit=40))):
        with refused(UsageProblem):
            split(few, some, 0, ["normalize", "channel_order"])


def ways(slots: int, how: str | None = None, names: str = "", **said: Any) -> list[dict[str, str]]:
    image, boxes = TensorSpec("x", "float32", (1, 3, 64, 64)), TensorSpec("dets", "float32", (1, 5, 4))
    logits, metadata = TensorSpec("labels", "float32", (1, 5, slots)), {"names": names} if names else {}
    family = recognise((image,), (boxes, logits), metadata, Preparation(**said))
    return [way.tried for way in open_ways(family, CATEGORIES, how)]


def test_what_is_left_open_is_tried_and_nothing_else() -> None:
    assert len(ways(3)) == 6
    assert ways(3, normalize="none") == ways(3, "by-id", normalize="none") == [{"background": "none"}]
    assert ways(4, normalize="none") == [{"background": "first"}, {"background": "last"}]
    assert ways(4, names="['a', 'b', 'c']", normalize="none") == ways(4, normalize="none")
    normalised = [{"normalize": one} for one in ("none", "imagenet", "0-255")]
    assert ways(4, channel_order="rgb", background="last") == normalised
    with refused(UsageProblem):
        ways(5)
