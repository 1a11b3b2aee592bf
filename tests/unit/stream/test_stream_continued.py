"""An eval-stream that goes on finds what one that was not interrupted finds, wherever it was."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.streaming_models import MODELS
from tests.unit.stream.evaluation import settings

from trt_workbench.core.documents import json_values
from trt_workbench.stream import run as running
from trt_workbench.stream.opening import OpenedStream
from trt_workbench.stream.run import DONE, StreamEvaluation
from trt_workbench.stream.settings import StreamSettings

TIMES = ("latency_ms", "first_call_ms", "resident", "provenance")


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(one) for key, one in value.items() if key not in TIMES}
    return [without_times(one) for one in value] if isinstance(value, list) else value


def run(asked: StreamSettings, folder: Path, progress: Any = lambda *_: None, earlier: tuple[Path, ...] = ()) -> Any:
    folder.mkdir()
    (folder / "run.json").touch()
    with OpenedStream(asked, lambda _: None) as opened:
        return without_times(json_values(StreamEvaluation(opened).run(folder, progress, lambda _: earlier)))


def records(folder: Path) -> list[Any]:
    return [without_times(json.loads(line)) for line in (folder / "records.jsonl").read_text().splitlines()]


def killed(folder: Path, left: Path) -> None:
    """Keep what a process leaves that is killed now, with half a line behind the last."""
    if not left.exists():
        shutil.copytree(folder, left)
        with (left / "records.jsonl").open("a") as file:
            file.write('{"lane": "fp32')


@pytest.mark.parametrize("name", MODELS)
def test_killed_after_any_chunk_and_continued_it_finds_what_one_run_finds(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice, and what is done is kept after some of the chunks; the last line of a record is not whole."""
    draw, kept = np.random.default_rng(len(name)), 0.4
    monkeypatch.setattr(running, "_EVERY_S", -1.0)
    monkeypatch.setattr(running, "_LINES", 7)
    asked = settings(tmp_path, name, faults=True, chunks=24)
    whole, left = run(asked, tmp_path / "whole"), list[Path]()
    assert not (tmp_path / "whole" / DONE).exists()
    for number in range(3):
        place, last, out = tmp_path / f"left-{number}", int(draw.integers(1, 40)), tmp_path / str(number)
        seen = list[int]()

        def progress(
            done: int, _: int, seen: list[int] = seen, last: int = last, ends: tuple[Path, Path] = (out, place)
        ) -> None:
            seen.append(done)
            monkeypatch.setattr(running, "_EVERY_S", -1.0 if draw.random() < kept else 1e9)
            if done == last:
                killed(*ends)

        found = run(asked, out, progress, tuple(left[-1:]))
        assert found == whole
        assert records(out) == records(tmp_path / "whole")
        assert seen[-1] == 48
        if number:
            assert len(seen) < 48
        left += [place] if (place / DONE).exists() else []
    assert left


@pytest.mark.parametrize("more", [{"record": True}])
def test_a_run_that_keeps_a_record_begins_again(tmp_path: Path, more: dict[str, Any]) -> None:
    seen: list[bool] = []
    run(
        settings(tmp_path, chunks=6, **more),
        tmp_path / "run",
        lambda *_: seen.append((tmp_path / "run" / DONE).exists()),
    )
    assert seen == [False] * 6
