"""A tiny detector, whose score is the brightness of the image, and four images for it."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import cv2
import numpy as np
import pytest
from tests.onnx_text import write_detector
from typer.testing import CliRunner, Result

from trt_workbench.bench.config import RepetitionSettings
from trt_workbench.console.common import single_command_app
from trt_workbench.core import workers
from trt_workbench.core.directory import ARTEFACTS, RunDirectory
from trt_workbench.decide import run as decide_run
from trt_workbench.evaluate.cli import eval_coco


@pytest.fixture(scope="module", autouse=True)
def _forked_workers(forking: Any) -> Iterator[None]:
    """Start workers fast."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "subprocess", forking)
        yield


@pytest.fixture(scope="module", autouse=True)
def _latencies_of_few_calls() -> Iterator[None]:
    """Let `decide` measure each row for a moment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            decide_run, "MEASURE", RepetitionSettings(warmup_ms=1, duration_s=0.02, min_iterations=2, slices=2)
        )
        yield


@pytest.fixture(scope="module", autouse=True)
def _no_unheard_of_artefacts() -> Iterator[None]:
    """Refuse what a command puts into its run directory under a name that a later run there takes for the user's."""
    commit = RunDirectory.commit

    def checked(run: RunDirectory, *words: Any, **facts: Any) -> Path:
        assert {one.name for one in run.path.iterdir()} <= ARTEFACTS
        return commit(run, *words, **facts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunDirectory, "commit", checked)
        yield


@dataclass(frozen=True)
class CocoSetup:
    """Files for one evaluation, with the commands on them."""

    side: ClassVar[int] = 32
    grey_levels: ClassVar[tuple[int, ...]] = (40, 120, 200, 80)
    # x, y, width, height: the object of every image, and where the detector always sees it.
    box: ClassVar[list[int]] = [4, 6, 16, 12]

    root: Path
    model: Path
    images: Path
    annotations: Path

    @property
    def output(self) -> Path:
        return self.root / "runs" / "one"

    def write_images(self) -> None:
        self.images.mkdir()
        (self.root / "runs").mkdir()
        categories = [{"id": 3, "name": "square"}, {"id": 17, "name": "circle"}]
        document: dict[str, Any] = {"images": [], "annotations": [], "categories": categories}
        for number, level in enumerate(self.grey_levels, start=1):
            name = f"{number}.png"
            cv2.imwrite(str(self.images / name), np.full((self.side, self.side, 3), level, np.uint8))
            document["images"].append({"id": number, "file_name": name, "width": self.side, "height": self.side})
            annotation = {"id": number, "image_id": number, "category_id": 3, "bbox": self.box, "area": 192}
            document["annotations"].append({**annotation, "iscrowd": 0})
        self.annotations.write_text(json.dumps(document))

    def write_model(
        self,
        *,
        batch: int | str = "N",
        size: int | str = side,
        classes: str = "['square', 'circle']",
        gain: float = 1,
        label: int = 0,
        metadata: dict[str, str] | None = None,
        shares: bool = False,
    ) -> None:
        """A yolov10-like model: three boxes, the first one `box` with the image's mean value as its score.

        With `shares`, the boxes are those of an RT-DETR: centre and size as shares of the input.
        """
        x, y, width, height = self.box
        rows = [[x, y, x + width, y + height, 0, label], [0, 0, 9, 9, 0, 1], [1, 1, 8, 8, 0, 0]]
        if shares:
            corners = np.array(rows)[:, :4] / self.side
            low, high = corners[:, :2], corners[:, 2:]
            rows = np.column_stack([(low + high) / 2, high - low, np.array(rows)[:, 4:]]).tolist()
        own = {"family": "yolov10"} if metadata is None else metadata
        properties = {**own, **({"names": classes} if classes else {})}
        write_detector(self.model, rows, properties, batch=batch, size=size, gain=gain)

    def rewrite(self, **parts: Any) -> None:
        """Replace parts of the annotation file."""
        document = json.loads(self.annotations.read_text())
        self.annotations.write_text(json.dumps({**document, **parts}))

    def arguments(self, *more: str) -> list[str]:
        given = {"--model": self.model, "--data": self.images, "--annotations": self.annotations}
        fixed = [str(part) for pair in given.items() for part in pair]
        return [*fixed, "--output", str(self.output), *more]

    def invoke(self, *more: str) -> Result:
        return self.invoke_exactly(self.arguments(*more))

    def invoke_exactly(self, arguments: list[str]) -> Result:
        return CliRunner().invoke(single_command_app(eval_coco), arguments, catch_exceptions=False)

    def predictions(self, place: str) -> str:
        """What is found on the double of the native core where boxes are found in this place."""
        result = self.invoke("--backend", "trt", "--allow-unverified", "--no-report", "--json", "--postprocess", place)
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["settings"]["postprocess"] == place
        assert ("which finds the boxes" in result.stderr) == (place == "device")
        return (self.output / "predictions.json").read_text()

    def assert_refused(self, result: Result, *texts: str, exit_code: int = 2, left: Sequence[str] = ()) -> None:
        """One clear paragraph on stderr, nothing on stdout, nothing left behind."""
        assert result.exit_code == exit_code, result.output
        for text in texts:
            assert text in result.stderr
        errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1
        assert "Traceback" not in result.stderr
        assert result.stdout == ""
        assert [entry.name for entry in (self.root / "runs").iterdir()] == [*left]


@pytest.fixture
def make_coco(tmp_path: Path) -> Callable[[], CocoSetup]:
    def make() -> CocoSetup:
        made = CocoSetup(tmp_path, tmp_path / "model.onnx", tmp_path / "images", tmp_path / "annotations.json")
        made.write_images()
        made.write_model()
        return made

    return make


@pytest.fixture
def coco(make_coco: Callable[[], CocoSetup]) -> CocoSetup:
    return make_coco()
