"""`--gpus`: shards of an evaluation as worker processes. Here they run on the processor, which users are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.shards import SCORED, without_times
from tests.texts import held

from trt_workbench.core import shard_workers
from trt_workbench.core.directory import run_directory
from trt_workbench.core.errors import DeviceFailure, UsageProblem
from trt_workbench.core.shard_workers import Device
from trt_workbench.core.spread import Spread
from trt_workbench.core.spread import spread as spread_over
from trt_workbench.vision.run import CocoRequest
from trt_workbench.vision.shard_worker import job_of

pytestmark = pytest.mark.usefixtures("blank_pictures")


@pytest.fixture
def spread(coco: Any) -> Callable[..., Spread]:
    """Return a function that evaluates the four images in shards on as many devices, which are none."""

    def run(count: int = 2, progress: Any = None, **more: Any) -> Spread:
        asked = CocoRequest(model=coco.model, images=coco.images, annotations=coco.annotations, **more)
        with run_directory("eval-coco", coco.root / "spread") as made:
            found = spread_over([Device(f"GPU {index}", {}) for index in range(count)], job_of(asked), made, progress)
            made.commit(found.status)
        return found

    return run


def left_beside(coco: Any) -> list[str]:
    return sorted(str(path.relative_to(coco.root)) for path in coco.root.glob("spread-shards/*"))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_shards_on_devices_give_what_one_process_gives(coco: Any, spread: Any, count: int) -> None:
    seen: list[tuple[int, int]] = []
    found = spread(count, lambda *counts: seen.append(counts))
    assert (found.status, found.error, found.interrupted) == ("complete", None, False)
    assert coco.invoke("--no-report").exit_code == 0
    for name in SCORED:
        assert (coco.root / "spread" / name).read_bytes() == (coco.output / name).read_bytes(), name
    mine, theirs = without_times(coco.root / "spread"), without_times(coco.output)
    mine[0]["settings"].pop("concurrency"), theirs[0]["settings"].pop("concurrency")
    assert mine == theirs
    assert not left_beside(coco)
    assert (coco.root / "spread" / "logs").is_dir()
    assert not [*(coco.root / "spread" / "logs").glob("*.journal")]


def test_an_image_that_kills_workers_is_named_and_the_rest_kept(
    coco: Any, spread: Any, outside_backend: Callable[..., None]
) -> None:
    outside_backend("crashing", "tests.crashing_backend:CrashingBackend", Path(__file__).parents[2])
    options = {"crash": "abort", "above": 0.6}  # the third of four
    found = spread(backend="crashing", options=options, batch=1)
    assert found.status == "partial"
    assert isinstance(found.error, DeviceFailure)
    held(str(found.error))
    metrics = json.loads((coco.root / "spread" / "metrics.json").read_text())
    assert (metrics["images"], metrics["images_requested"]) == (3, 4)
    assert str(found.error) in metrics["notes"]
    records = (coco.root / "spread" / "records.jsonl").read_text().splitlines()
    assert [json.loads(line)["image_id"] for line in records] == [1, 2, 4]


def test_a_damaged_image_is_named_and_the_other_shard_kept(coco: Any, spread: Any) -> None:
    (coco.images / "3.png").write_bytes((coco.images / "3.png").read_bytes()[:-20])
    found = spread()
    assert isinstance(found.error, UsageProblem)
    held(str(found.error))
    assert found.metrics["images"] == 2
    # repaired, the other shard is not done again
    good = json.loads((coco.root / "spread-shards" / "0-of-2" / "run.json").read_text())["run_id"]
    (coco.images / "3.png").write_bytes((coco.images / "2.png").read_bytes())
    assert spread().status == "complete"
    listed = json.loads((coco.root / "spread" / "shards.json").read_text())["shards"]
    assert listed[0]["run_id"] == good
    assert not left_beside(coco)


def test_the_first_reason_is_raised_where_nothing_is_done(coco: Any, spread: Any) -> None:
    for number in (1, 3):
        (coco.images / f"{number}.png").write_bytes(b"none")
    with pytest.raises(UsageProblem, match=r"Shard [01]/2 failed"):
        spread()
    assert not (coco.root / "spread").exists()


def test_an_interrupt_keeps_what_is_done(coco: Any, spread: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One shard is done when the interrupt comes, the other one has not begun."""
    (coco.images / "1.png").write_bytes(b"none")
    assert spread().error
    (coco.images / "1.png").write_bytes((coco.images / "2.png").read_bytes())
    wait = shard_workers.ShardWorkers._wait
    called: list[int] = []

    def interrupted(*arguments: Any) -> None:
        called.append(1)
        if len(called) == 1:
            raise KeyboardInterrupt
        wait(*arguments)

    monkeypatch.setattr(shard_workers.ShardWorkers, "_wait", interrupted)
    found = spread()
    assert found.interrupted
    assert found.error is None
    assert found.metrics["images"] in (2, 3, 4)
    monkeypatch.undo()
    assert spread().status == "complete"


def test_what_is_refused(coco: Any) -> None:
    for more in (("--gpus", "0"), ("--gpus", "0,0"), ("--gpus", "all", "--option", "device=1")):
        held(coco.invoke("--backend", "ort-cpu", *more).stderr)
    held(coco.invoke("--gpus", "all", "--shard", "0/2").stderr)
