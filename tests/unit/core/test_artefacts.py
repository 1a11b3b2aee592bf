"""The models of the artefacts: what older releases wrote is read, and any change of it is read or refused."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.fuzz.mutations import mutate_json, mutate_json_lines
from tests.texts import refused

from trt_workbench.core.artefacts import Environment, RunDocument, foreign_files, read_bench_run, read_run
from trt_workbench.core.documents import read_document, read_lines, write_json
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.records import Record
from trt_workbench.decide.document import Decision
from trt_workbench.llm.document import LlmMetrics, LlmRecord
from trt_workbench.stream.document import ChunkRecord, StreamMetrics
from trt_workbench.vision.document import CocoMetrics

KEPT = Path(__file__).parents[3] / "docs" / "benchmarks"
RUNS = sorted(path.parent.relative_to(KEPT) for path in KEPT.rglob("run.json"))
METRICS = {"eval-coco": CocoMetrics, "eval-llm": LlmMetrics, "eval-stream": StreamMetrics}
LINES = {"bench": Record, "eval-llm": LlmRecord, "eval-stream": ChunkRecord}


@pytest.mark.parametrize("place", RUNS, ids=str)
def test_runs_of_older_releases_are_read(place: Path) -> None:
    folder = KEPT / place
    command = read_document(folder / "run.json", RunDocument).command
    gpus = read_document(folder / "env.json", Environment).driver.gpus
    assert all(gpu.name for gpu in gpus)
    assert gpus or command == "eval-stream"  # whose records are of a CPU
    if command in METRICS:
        read_document(folder / "metrics.json", METRICS[command])
    if (folder / "records.jsonl").is_file():
        assert read_lines(folder / "records.jsonl", LINES[command])
    if command == "bench":
        assert read_bench_run(folder).config.title


@pytest.mark.parametrize(
    ("file", "kind", "earlier"),
    [
        ("precision/h200/decision.json", Decision, {"compiles": []}),
        ("eval-stream/encoder-ort/metrics.json", StreamMetrics, {"transcription": None}),
    ],
)
def test_an_empty_key_of_an_option_that_was_retired_is_left_out(
    file: str, kind: type, earlier: dict[str, Any], tmp_path: Path
) -> None:
    document = json.loads((KEPT / file).read_text(encoding="utf-8"))
    write_json(tmp_path / "document.json", {**document, **earlier})
    assert read_document(tmp_path / "document.json", kind) == read_document(KEPT / file, kind)


@pytest.mark.parametrize("program", ["/opt/venv/bin/trtw", "/opt/lib/trt_workbench/__main__.py", "trtw"])
def test_a_command_to_copy_has_no_folder_of_the_machine(program: str) -> None:
    """Nor has the text that a page shows of the environment; env.json keeps what was there."""
    environment = Environment(command_line=[program, "gate", "my gate.yaml"])
    assert environment.command == "trtw gate 'my gate.yaml'"
    assert "/opt" not in environment.text
    assert Environment(command_line=["/home/one/score.py", "m.onnx"]).command == "score.py m.onnx"


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("bench-h200/bert/run.json", RunDocument),
        ("bench-h200/bert/env.json", Environment),
        ("eval-coco-h200/cuda/metrics.json", CocoMetrics),
        ("eval-llm/perplexity/metrics.json", LlmMetrics),
        ("bench-h200/bert/records.jsonl", Record),
        ("eval-llm/perplexity/records.jsonl", LlmRecord),
    ],
)
def test_a_changed_file_is_read_or_refused_by_its_name(file: str, kind: type, tmp_path: Path) -> None:
    lines, path, refused = file.endswith("l"), tmp_path / Path(file).name, 0
    data = b"".join((KEPT / file).read_bytes().splitlines(keepends=True)[: 20 if lines else None])
    for seed in range(150):
        path.write_bytes((mutate_json_lines if lines else mutate_json)(data, random.Random(seed)))
        try:
            (read_lines if lines else read_document)(path, kind)
        except UsageProblem as error:
            assert str(path) in str(error)  # noqa: PT017 - a change may do no harm
            refused += 1
    assert refused > 30


def test_a_run_of_another_command_is_refused(tmp_path: Path) -> None:
    shutil.copy(KEPT / "bench-h200" / "bert" / "run.json", tmp_path)
    with refused(UsageProblem):
        read_run(tmp_path, "profile", RunDocument)


def test_whatever_files_that_do_not_fit_together_cause_is_one_refusal(tmp_path: Path) -> None:
    with refused(UsageProblem), foreign_files(tmp_path):
        {}["AP"]
    with pytest.raises(MemoryError), foreign_files(tmp_path):
        raise MemoryError
