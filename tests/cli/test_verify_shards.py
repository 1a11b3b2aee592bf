"""Shards of verify: the document that one process writes, to the last bit."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests import faulty_backend
from tests.in_app import json_of, stderr_of, stdout_of, trtw
from tests.onnx_text import write_onnx
from tests.shards import edited, shards_of, with_other_digit
from tests.slurm_cluster import TRTW
from tests.texts import held

MOST = 11


@pytest.fixture(autouse=True)
def faulty(monkeypatch: pytest.MonkeyPatch, outside_backend: Callable[..., None]) -> None:
    outside_backend("faulty", "tests.faulty_backend:FaultyBackend")
    monkeypatch.setattr(faulty_backend.FaultySession, "opened", 0)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    weights = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    text = "g (float[batch,8] x) => (float[batch,4] y) { a = MatMul(x, w) y = Sigmoid(a) }"
    return write_onnx(tmp_path_factory.mktemp("model") / "model.onnx", text, {"w": weights})


def words(model: Path, fault: str = "", most: int = MOST) -> list[object]:
    shapes = ("--dim", f"batch=1:4:{most}", "--seed", 7)
    return ["verify", model, "--backend", "faulty", "--option", f"fault={fault}", *shapes]


def without_shards(run: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((run / "verify.json").read_text())
    return {key: value for key, value in document.items() if key != "shards"}


def arrays(run: Path) -> dict[str, bytes]:
    return {str(file.relative_to(run)): file.read_bytes() for file in sorted((run / "failures").rglob("*.npy"))}


@pytest.mark.long
@pytest.mark.parametrize(("fault", "most", "count"), [("", MOST, 3), ("stale", 4, 3)])
def test_shards_find_what_one_process_finds(model: Path, tmp_path: Path, fault: str, most: int, count: int) -> None:
    """Also where a wrong result is that of the call before, which another shard has made."""
    one, merged, code = tmp_path / "one", tmp_path / "merged", 1 if fault else 0
    asked = words(model, fault, most)
    assert trtw(*asked, "--output", one).exit_code == code
    folder = shards_of(asked, count, tmp_path / "shards")
    assert f"Merged from {count} shards of {count}." in stderr_of("merge", folder, "-o", merged, code=code)
    assert f"Merged from {count} shards of {count}." in (merged / "report.html").read_text()
    alone = without_shards(one)
    assert len(alone["cases"]) == most
    assert without_shards(merged) == alone
    assert arrays(merged) == arrays(one)
    assert bool(arrays(one)) is bool(fault)
    kept = [json.loads((run / "run.json").read_text()) for run in (one, merged)]
    assert [(run["passed"], run["verdict"]) for run in kept] == [(not fault, "wrong" if fault else "right")] * 2


def test_a_way_that_is_wrong_in_another_shard_alone_is_kept(model: Path, tmp_path: Path) -> None:
    folder = shards_of(words(model), 2, tmp_path / "shards")
    (first,) = json.loads((folder / "0" / "shard.json").read_text())["whole"]["ways"][:1]
    for name in ("inputs", "found"):
        (folder / "0" / "failures" / "001" / name).mkdir(parents=True)
    edited(
        folder / "0",
        lambda document: document["whole"]["ways"][0].update(failures=["batch=8, output y, it differs"], numbers=[1]),
    )
    found = json_of("merge", folder, "-o", tmp_path / "merged", "--no-report", code=1)
    assert found["failures"] == ["batch=8, output y, it differs"]
    assert [way["way"] for way in found["ways"]][-1] == first["row"]["way"]
    assert (tmp_path / "merged" / "failures" / "001" / "found").is_dir()


@pytest.mark.long
def test_a_shard_is_done_once_and_what_was_changed_is_refused(model: Path, tmp_path: Path) -> None:
    shard = [*words(model), "--shard", "1/2", "--output", tmp_path / "1"]
    assert "Shard 1/2 is done" in stdout_of(*shard)
    assert "Shard 1/2 is already done" in stdout_of(*shard)
    held(stderr_of("merge", tmp_path / "1", "-o", tmp_path / "merged"))
    found = json_of("merge", tmp_path / "1", "-o", tmp_path / "merged", "--partial", "--no-report")
    assert found["shards"]["missing"] == [0]
    merge = ("merge", tmp_path / "1", "-o", tmp_path / "merged", "--partial")
    records = tmp_path / "1" / "records.jsonl"
    with_other_digit(records)
    held(stderr_of(*merge))
    assert "is done" in stdout_of(*shard)
    lines = records.read_text().splitlines(keepends=True)
    records.write_text("".join(lines[1:]))
    edited(tmp_path / "1")
    held(stderr_of(*merge))
    record = json.loads(lines[0])
    record["row"]["outputs"] = 3
    records.write_text("".join([json.dumps(record) + "\n", *lines[1:]]))
    edited(tmp_path / "1")
    held(stderr_of(*merge))
    records.write_text("".join(lines))
    edited(tmp_path / "1", lambda document: document["whole"]["facts"].pop("backend"))
    held(stderr_of(*merge))


@pytest.mark.long
def test_submit_runs_shards_of_verify_on_this_machine(model: Path, tmp_path: Path) -> None:
    asked = {"command": "verify", "model": str(model), "arguments": ["--backend", "ort-cpu", "--quick"]}
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump({"name": "v", "shards": 2, "folder": "out", "program": TRTW, **asked}))
    assert "Merged run: " in stdout_of("submit", file, "--run")
    document = json.loads((tmp_path / "out" / "run" / "verify.json").read_text())
    assert (document["verdict"], document["shards"]["merged"]) == ("consistent", 2)
    assert (tmp_path / "out" / "run" / "report.html").is_file()


def test_what_is_no_shard(model: Path, tmp_path: Path) -> None:
    plain = ["verify", model, "--backend", "ort-cpu", "--shard", "0/2"]
    held(stderr_of(*plain, "--seed", 3))
    for more in ((), ("--seed", 3, "--record"), ("--seed", 3, "--bisect"), ("--seed", 3, "--fix")):
        held(stderr_of(*plain, *more, "--output", tmp_path / "0"))
