"""What `decide` takes from a run in its place: nothing of another machine, as far as that decides a result."""

from pathlib import Path

import pytest

from trt_workbench.core import work
from trt_workbench.decide.resume import Earlier
from trt_workbench.decide.tried import DraftRow


@pytest.mark.parametrize(
    ("backend", "gpu", "processor", "said"),
    [
        ("ort-cpu", "GPU A", "CPU X", []),
        ("ort-cpu", "GPU A", "CPU Y", ["processor was 'CPU X' there and is 'CPU Y' here"]),
        ("ort-cpu", "GPU B", "CPU X", []),  # it computes on the processor alone
        ("ort-cpu", None, "CPU X", []),
        ("trt", "GPU A", "CPU X", []),
        ("trt", "GPU A", "CPU Y", ["processor was 'CPU X' there and is 'CPU Y' here"]),
        ("trt", "GPU B", "CPU X", ["gpu was 'GPU A' there and is 'GPU B' here"]),
        ("torch", None, "CPU X", ["gpu was 'GPU A' there and is None here"]),
    ],
)
def test_a_row_of_another_gpu_or_processor_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, gpu: str | None, processor: str, said: list[str]
) -> None:
    def machine(card: str | None, cpu: str) -> None:
        monkeypatch.setattr(work, "gpu_at", lambda _: card and {"name": card})
        monkeypatch.setattr(work, "driver_report", lambda: {"driver_version": "1"})
        monkeypatch.setattr(work, "cpu_report", lambda: {"model": cpu})

    def row(run: str) -> DraftRow:
        folder = tmp_path / run / "scores" / backend
        folder.mkdir(parents=True)
        (tmp_path / "m.onnx").write_bytes(b"m")
        return DraftRow("fp32", backend, path=tmp_path / "m.onnx", folder=folder)

    machine("GPU A", "CPU X")
    answer = {"provenance": {}}
    Earlier((), tmp_path / "one").keep(row("one"), {"data": "d"}, answer)
    machine(gpu, processor)
    notes: list[str] = []
    taken = Earlier([tmp_path / "one"], tmp_path / "two", notes.append).take(row("two"), {"data": "d"}, 0)
    assert taken == (None if said else answer)
    assert [note.partition(f"from fp32 on {backend} on: ")[2].rstrip(".") for note in notes] == said
