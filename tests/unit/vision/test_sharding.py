"""Shards of any number over data sets of any size, put together: what one process writes, to the last bit."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.shards import assert_scored_alike

from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.core import environment
from trt_workbench.core.directory import run_directory
from trt_workbench.core.documents import json_values
from trt_workbench.core.environment import collect_environment
from trt_workbench.core.shard import Shard
from trt_workbench.core.shard_files import read_part, read_shards
from trt_workbench.core.work import identity
from trt_workbench.vision import sharding
from trt_workbench.vision.class_map import ClassMap
from trt_workbench.vision.dataset import READ_BY, CocoDataset, read_dataset
from trt_workbench.vision.decode import ImageReader
from trt_workbench.vision.detections import DetectionTable
from trt_workbench.vision.document import STAGES
from trt_workbench.vision.loop import LoopResult
from trt_workbench.vision.run import CocoRequest
from trt_workbench.vision.scoring import Found, score
from trt_workbench.vision.sharding import found_of as found_in
from trt_workbench.vision.sharding import joined, merge_shards, write_shard
from trt_workbench.vision.tasks.registry import task_of

hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")
_SIDE, _IDS = 64, (3, 17)
_FACTS: dict[str, Any] = {
    "model": {"path": "m.onnx", "sha256": "0" * 64, "family": "yolov10", "task": "boxes", "class_count": 2},
    "backend": "ort-cpu",
    "precision_ran": None,
    "provenance": {},
    "verification": None,
    "settings": {"seed": 0, "threshold": 0.25, "exif": "ignore", "limit": None},
    "probe": None,
    "notes": ["The model has no names."],
}


@pytest.fixture(scope="module", autouse=True)
def _asked_once() -> Iterator[None]:
    """Ask git and the driver once, and not for each of a thousand shards."""
    known, where = collect_environment([]), identity({}, [None])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "collect_environment", lambda _: known)
        patch.setattr(sharding, "identity", lambda job, *_, **__: {**json_values(job, str), **where})
        yield


def data_of(folder: Path, images: int, rng: np.random.Generator) -> CocoDataset:
    """Write a data set of which no image is ever decoded."""
    ids = np.sort(rng.choice(10_000, images, replace=False)) + 1
    boxes = [(int(id_), *rng.uniform(1, 30, 4).round(2).tolist()) for id_ in ids for _ in range(rng.integers(0, 4))]
    boxes = boxes or [(int(ids[0]), 5, 5, 20, 20)]
    for id_ in ids:
        (folder / f"{id_}.png").touch()
    (folder / "truth.json").write_text(
        json.dumps(
            {
                "images": [{"id": int(id_), "file_name": f"{id_}.png", "width": 64, "height": 64} for id_ in ids],
                "categories": [{"id": id_, "name": f"class {id_}"} for id_ in _IDS],
                "annotations": [
                    {"id": at, "image_id": id_, "category_id": int(rng.choice(_IDS)), "bbox": box, "area": 99.0}
                    for at, (id_, *box) in enumerate(boxes, 1)
                ],
            }
        )
    )
    return read_dataset(folder, folder / "truth.json", task=task_of("boxes"))


def found_of(dataset: CocoDataset, rng: np.random.Generator) -> Found:
    """Detect something near objects, something elsewhere, and on some images nothing."""
    done, rows = np.array([image.id for image in dataset.images], np.int64), []
    for id_ in done:
        near = dataset.truth.boxes[dataset.truth.image_ids == id_] + rng.normal(0, 1, 4)
        boxes = np.concatenate([near, rng.uniform(1, 30, (rng.integers(0, 5), 4))])
        scores = np.sort(rng.uniform(0, 1, len(boxes)))[::-1]
        rows += [(id_, rng.choice(_IDS), *np.maximum(box, 1), one) for box, one in zip(boxes, scores, strict=True)]
    table = np.array(rows).reshape(-1, 7)
    columns = (table[:, 0].astype(np.int64), table[:, 1].astype(np.int64))
    detections = DetectionTable(*columns, table[:, 2:6].astype(np.float32), table[:, 6].astype(np.float32))
    read = ImageReader()
    read.add(turned=len(done) // 3, deep=0, largest=0)
    return Found(done, looped(len(done), rng), detections, read)


def looped(images: int, rng: np.random.Generator) -> LoopResult:
    sizes = np.full((images, 2), _SIDE, np.int32)
    return LoopResult(np.ones(images, np.bool_), sizes, rng.uniform(0, 9, (images, len(STAGES))), 2.0, False)


def part_of(whole: Found, block: range, number: int) -> Found:
    """Return what a process that has only a block of the images finds."""
    rows, result = slice(block.start, block.stop), whole.result
    ids = whole.done[rows]
    taken = {name: getattr(result, name)[rows] for name in ("done", "sizes", "stage_ms")}
    read = ImageReader()
    read.add(turned=len(whole.done) // 3 if number == 0 else 0, deep=0, largest=0)
    kept = np.flatnonzero(np.isin(whole.detections.image_ids, ids))
    return Found(ids, dataclasses.replace(result, **taken), whole.detections.select(kept), read)


def evaluation_of(root: Path, dataset: CocoDataset, shard: Shard | None, block: range) -> Any:
    """As much of an evaluation as writing its results takes."""
    data = root / "data"
    asked = CocoRequest(model=root / "m.onnx", images=data, annotations=data / "truth.json", shard=shard)
    return SimpleNamespace(
        request=asked,
        dataset=dataset,
        facts=lambda: _FACTS,
        block=block,
        detector=SimpleNamespace(backend=OrtCpuBackend()),
        classes=ClassMap(np.array(_IDS), np.ones(2, np.bool_)),
    )


@pytest.mark.long
@hypothesis.settings(max_examples=15, deadline=None, derandomize=True)
@hypothesis.given(images=st.integers(1, 40), count=st.integers(1, 16), batch=st.integers(1, 5), seed=st.integers(0, 99))
@hypothesis.example(images=1, count=64, batch=1, seed=0)
@hypothesis.example(images=40, count=64, batch=5, seed=1)
def test_any_shards_give_what_one_process_gives(images: int, count: int, batch: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    with TemporaryDirectory() as name:
        root = Path(name)
        (root / "m.onnx").write_bytes(b"model")
        (data := root / "data").mkdir()
        (one := root / "one").mkdir()
        dataset = data_of(data, images, rng)
        found = found_of(dataset, rng)
        score(one, dataset, found, _FACTS)
        for index in range(count):
            shard = Shard(index, count)
            stub = evaluation_of(root, dataset, shard, shard.block(images, batch))
            with run_directory("eval-coco", root / "shards" / str(index)) as run:
                write_shard(run.path, stub, part_of(found, stub.block, index))
                run.commit("complete")
        (merged := root / "merged").mkdir()
        shards = read_shards([root / "shards"], partial=False)
        metrics = merge_shards(shards, merged)
        assert_scored_alike(merged, one)
        alone = json.loads((one / "metrics.json").read_text())
        assert metrics["latency_ms"] == alone["latency_ms"]
        assert [note for note in metrics["notes"] if not note.startswith("Merged")] == alone["notes"]


@pytest.mark.long
@hypothesis.settings(max_examples=30, deadline=None, derandomize=True)
@hypothesis.given(images=st.integers(1, 40), cuts=st.sets(st.integers(0, 40), max_size=3), seed=st.integers(0, 99))
def test_wherever_a_run_is_interrupted_it_gives_what_one_that_is_not_gives(
    images: int, cuts: set[int], seed: int
) -> None:
    """Each time, what is done by then is read again, and becomes the first part of the next run."""
    rng = np.random.default_rng(seed)
    with TemporaryDirectory() as name:
        root = Path(name)
        (root / "m.onnx").write_bytes(b"model")
        (data := root / "data").mkdir()
        dataset = data_of(data, images, rng)
        whole = found_of(dataset, rng)
        stub, task = evaluation_of(root, dataset, None, range(images)), task_of("boxes")
        begin, before = 0, None
        for end in [*sorted({min(cut, images) for cut in cuts}), images]:
            now = part_of(whole, range(begin, end), begin)
            found = joined([(0, before), (begin, now)], images) if before else now
            (place := root / f"part-{end}-{begin}").mkdir()
            write_shard(place, stub, found)
            begin, before = end, found_in(read_part(place), task)
        for folder, one in ((root / "one", whole), (root / "continued", before)):
            folder.mkdir()
            assert one
            score(folder, dataset, one, _FACTS)
        assert_scored_alike(root / "continued", root / "one")
        metrics = [json.loads((root / name / "metrics.json").read_text()) for name in ("one", "continued")]
        for found in metrics:
            del found["wall_s"], found["images_per_s"]
        assert metrics[0] == metrics[1]


def test_a_data_set_is_read_again_with_all_that_it_was_read_with() -> None:
    assert {*READ_BY, "task"} == set(read_dataset.__kwdefaults__)
