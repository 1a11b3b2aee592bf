"""`--shard` and `merge` through the command line: shards give what one process gives, and nothing else is merged."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.in_app import json_of, stderr_of, stdout_of, trtw
from tests.shards import assert_scored_alike, edited, shards_of, with_other_digit
from tests.texts import held

from trt_workbench.core.array_files import save_arrays
from trt_workbench.core.counts import counted

pytestmark = pytest.mark.usefixtures("blank_pictures")


@pytest.fixture
def sharded(coco: Any) -> Callable[..., list[Path]]:
    """Return a function that runs shards of an evaluation of the four images, and returns their run directories."""

    def run(count: int, *more: str, only: list[int] | None = None) -> list[Path]:
        places = []
        for index in only if only is not None else range(count):
            place = coco.root / "shards" / f"{index}-of-{count}"
            arguments = [*coco.arguments(*more, "--shard", f"{index}/{count}")]
            arguments[arguments.index("--output") + 1] = str(place)
            result = coco.invoke_exactly(arguments)
            assert result.exit_code == 0, result.output
            places.append(place)
        return places

    return run


@pytest.mark.parametrize(("count", "more"), [(1, ()), (2, ()), (3, ("--batch", "2")), (7, ("--limit", "3"))])
def test_shards_give_what_one_process_gives(coco: Any, sharded: Any, count: int, more: tuple[str, ...]) -> None:
    places = sharded(count, *more)
    assert coco.invoke(*more, "--no-report").exit_code == 0
    merged = coco.root / "merged"
    stdout_of("merge", *places[::-1], "-o", merged, "--no-report")
    assert_scored_alike(merged, coco.output)
    metrics = json.loads((merged / "metrics.json").read_text())
    text = f"Merged from {counted(count, 'shard')} of {count}."
    assert metrics["shards"] == {"count": count, "merged": count, "missing": [], "text": text}
    assert metrics["images_requested"] == metrics["images"]
    assert json.loads((merged / "run.json").read_text())["status"] == "complete"
    listed = json.loads((merged / "shards.json").read_text())["shards"]
    assert [one["index"] for one in listed] == [*range(count)]


def test_a_done_shard_is_not_done_again(coco: Any, sharded: Any) -> None:
    (place,) = sharded(2, only=[1])
    before = json.loads((place / "run.json").read_text())["run_id"]
    again = [*coco.arguments("--shard", "1/2")]
    again[again.index("--output") + 1] = str(place)
    result = coco.invoke_exactly(again)
    assert result.exit_code == 0
    assert "Shard 1/2 is already done: 2 images of 4 (2 to 3)" in result.stdout
    assert json.loads(coco.invoke_exactly([*again, "--json"]).stdout)["done_before"] is True
    assert json.loads((place / "run.json").read_text())["run_id"] == before
    # with other settings it is another shard
    assert "is done" in coco.invoke_exactly([*again, "--conf", "0.5"]).stdout
    assert json.loads((place / "run.json").read_text())["run_id"] != before


def test_another_shard_does_not_take_the_place_of_a_done_one(coco: Any, sharded: Any) -> None:
    (place,) = sharded(2, only=[1])
    other = [*coco.arguments("--shard", "0/2")]
    other[other.index("--output") + 1] = str(place)
    result = coco.invoke_exactly(other)
    assert result.exit_code == 2
    held(result.stderr.splitlines()[-1])
    assert json.loads((place / "shard.json").read_text())["index"] == 1


def test_half_a_shard_is_done_again(sharded: Any) -> None:
    (place,) = sharded(2, only=[0])
    edited(place, lambda document: document.update(done=1))
    assert sharded(2, only=[0]) == [place]
    assert json.loads((place / "shard.json").read_text())["done"] == 2


def test_a_done_shard_that_was_changed_is_done_again(sharded: Any) -> None:
    (place,) = sharded(2, only=[0])
    known = with_other_digit(place / "predictions.json")
    assert sharded(2, only=[0]) == [place]
    assert (place / "predictions.json").read_text() == known


def test_a_shard_needs_a_place_and_has_no_report(sharded: Any) -> None:
    held(stderr_of("eval-coco", "--shard", "0/2"))
    held(stderr_of("report", *sharded(2, only=[0])))


def test_what_is_missing_or_there_twice(coco: Any, sharded: Any) -> None:
    first, last = sharded(3, only=[0, 2])
    held(stderr_of("merge", first, last, "-o", coco.root / "merged"))
    held(stderr_of("merge", first, last, first, "-o", coco.root / "merged", "--partial"))
    held(stderr_of("merge", coco.images, "-o", coco.root / "merged"))
    held(stderr_of("merge", coco.root / "nowhere", "-o", coco.root / "merged"))
    held(stderr_of("merge", first, last, "-o", last, "--partial"))
    assert not (coco.root / "merged").exists()


def test_what_is_there_is_merged_on_request(coco: Any, sharded: Any) -> None:
    sharded(4, only=[0, 2, 3])
    place = coco.root / "shards" / "3-of-4"
    edited(place, lambda document: document.update(end=document["end"] + 1))
    merged = coco.root / "merged"
    metrics = json_of("merge", coco.root / "shards", "-o", merged, "--partial")
    assert metrics["status"] == "partial"
    assert (metrics["images"], metrics["images_requested"]) == (3, 4)
    assert metrics["shards"]["missing"] == [1, 3]
    note = "Merged from 3 shards of 4: 1 of 4 images are not in the result. Missing or half done: 1/4, 3/4."
    assert metrics["notes"] == [note]
    assert note in (merged / "report.html").read_text()


def test_shards_of_other_runs_are_refused(coco: Any, sharded: Any) -> None:
    first, other, third = sharded(3)
    merged = coco.root / "merged"

    def changed(name: str, value: Any) -> str:
        def change(document: dict[str, Any]) -> None:
            *parents, key = name.split(".")
            for parent in parents:
                document = document[parent]
            assert document[key] != value
            document[key] = value

        place = coco.root / "changed"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(first, place)
        edited(place, change)
        return stderr_of("merge", place, other, third, "-o", merged)

    held(changed("asked.model_sha256", "0" * 64))
    held(changed("asked.settings.conf", 0.5))
    held(changed("asked.versions.numpy", "1.0"))
    assert "processor is 'another' in 0/3 and " in changed("asked.processor", "another")
    held(changed("ran.precision_ran", None))
    held(changed("count", 4))
    held(changed("items", 5))
    held(changed("command", "eval-llm"))


def test_damaged_shards_are_refused(coco: Any, sharded: Any) -> None:
    first, other = sharded(2)
    merged = coco.root / "merged"

    def copied() -> Path:
        place = coco.root / "damaged"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(first, place)
        return place

    def damaged(name: str, text: str | None) -> str:
        place = copied()
        if text is None:
            (place / name).unlink()
        else:
            (place / name).write_text(text)
        return stderr_of("merge", place, other, "-o", merged, "--no-report")

    def forged(change: Callable[[Path, dict[str, Any]], object]) -> str:
        place = copied()
        edited(place, lambda document: change(place, document))
        return stderr_of("merge", place, other, "-o", merged, "--no-report")

    held(damaged("run.json", None))
    held(damaged("shard.json", None))
    held(damaged("shard.json", "{"))
    held(damaged("found.npz", "PK"))
    held(damaged("predictions.json", None))
    held(damaged("env.json", "{"))
    held(forged(lambda _, document: document.update(index=1)))
    held(forged(lambda _, document: document.update(whole={})))
    held(forged(lambda place, _: shutil.copyfile(other / "found.npz", place / "found.npz")))
    held(forged(lambda place, _: save_arrays(place / "found.npz", {"done": np.zeros(2, np.int64)})))
    held(forged(lambda place, _: (place / "found.npz").write_text("PK")))
    held(forged(lambda _, document: document["whole"].update(detections=99)))
    with_other_digit(copied() / "predictions.json", '"score": ')
    held(stderr_of("merge", coco.root / "damaged", other, "-o", merged))
    coco.rewrite(info={"changed": True})
    held(stderr_of("merge", first, other, "-o", merged))
    assert not merged.exists()


def test_a_clock_does_not_matter(coco: Any, sharded: Any) -> None:
    places = sharded(2)
    run = json.loads((places[0] / "run.json").read_text())
    (places[0] / "run.json").write_text(
        json.dumps({**run, "started_at": "2099-01-01T00:00:00Z", "ended_at": "1970-01-01T00:00:00Z"})
    )
    assert trtw("merge", *places, "-o", coco.root / "merged", "--no-report").exit_code == 0


def test_more_shards_than_images(coco: Any, sharded: Any) -> None:
    coco.write_model(gain=0)  # nothing is found at all, and in most shards nothing is looked at
    places = sharded(6)
    metrics = json_of("merge", *places, "-o", coco.root / "merged", "--no-report")
    assert coco.invoke("--no-report").exit_code == 0
    alone = json.loads((coco.output / "metrics.json").read_text())
    assert (metrics["images"], metrics["detections"]) == (4, 0)
    assert metrics["notes"] == [*alone["notes"][:1], "Merged from 6 shards of 6.", *alone["notes"][1:]]


@pytest.mark.long
@pytest.mark.parametrize("model", ["shapes-classifier", "shapes-segmenter"])
def test_other_tasks_than_boxes(model: str, tmp_path: Path) -> None:
    words = ("eval-vision", model, "--limit", "7", "--backend", "ort-cpu")
    stdout_of(*words, "--no-report", "--output", tmp_path / "one")
    stdout_of("merge", shards_of(words, 2, tmp_path / "shards"), "-o", tmp_path / "merged", "--no-report")
    assert_scored_alike(tmp_path / "merged", tmp_path / "one")
