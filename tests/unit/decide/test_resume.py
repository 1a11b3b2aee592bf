"""What `decide --resume` takes from an earlier run: nothing of another machine."""

from pathlib import Path

import pytest

from trt_workbench.core import shard_files
from trt_workbench.decide.resume import Earlier
from trt_workbench.decide.tried import DraftRow


@pytest.mark.parametrize(
    ("gpu", "processor", "said"),
    [
        ("GPU A", "CPU X", []),
        ("GPU A", "CPU Y", ["processor was 'CPU X' there and is 'CPU Y' here"]),
        ("GPU B", "CPU X", ["gpu was 'GPU A' there and is 'GPU B' here"]),
        (None, "CPU X", ["gpu was 'GPU A' there and is None here"]),
    ],
)
def test_a_row_of_another_gpu_or_processor_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpu: str | None, processor: str, said: list[str]
) -> None:
    def machine(card: str | None, cpu: str) -> None:
        monkeypatch.setattr(shard_files, "gpu_at", lambda _: card and {"name": card})
        monkeypatch.setattr(shard_files, "driver_report", lambda: {"driver_version": "1"})
        monkeypatch.setattr(shard_files, "cpu_report", lambda: {"model": cpu})

    def row(run: str) -> DraftRow:
        folder = tmp_path / run / "scores" / "ort-cpu"
        folder.mkdir(parents=True)
        (tmp_path / "m.onnx").write_bytes(b"m")
        return DraftRow("fp32", "ort-cpu", path=tmp_path / "m.onnx", folder=folder)

    machine("GPU A", "CPU X")
    answer = {"provenance": {}}
    Earlier(None, tmp_path / "one").keep(row("one"), {"data": "d"}, answer)
    machine(gpu, processor)
    notes: list[str] = []
    taken = Earlier(tmp_path / "one", tmp_path / "two", notes.append).take(row("two"), {"data": "d"}, 0)
    assert taken == (None if said else answer)
    assert [note.partition("from fp32 on ort-cpu on: ")[2].rstrip(".") for note in notes] == said
