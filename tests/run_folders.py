"""Run directories as commands leave them, made of their figures."""

import json
from pathlib import Path
from typing import Any

from tests.records import record

ENVIRONMENT: dict[str, Any] = {
    "schema_version": 1,
    "command_line": ["trtw"],
    "workbench_version": "1",
    "cpu": {"model": "a processor", "processors_available": 2, "processors": 2},
    "driver": {"gpus": [], "error": "no driver"},
    "packages": {},
}


def run_folder(folder: Path, command: str, started: str, commit: str | None = None, **files: Any) -> Path:
    """Write the documents that every command writes, and those that are named."""
    folder.mkdir(parents=True)
    run = {"command": command, "run_id": folder.name, "started_at": started, "status": "complete"}
    environment = {**ENVIRONMENT, "git": {"commit": commit, "dirty": False}}
    for name, document in {"run": {"schema_version": 1, **run}, "env": environment, **files}.items():
        (folder / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


def bench_folder(
    folder: Path, medians: dict[str, list[float]], started: str, commit: str | None = None, **more: Any
) -> Path:
    """Write a run of bench: by runtime the median of each repetition, milliseconds."""
    config = {"schema_version": 1, "title": "t", "repetitions": 9}
    run = run_folder(folder, "bench", started, commit, config=config)
    made = [record(name, number, p50, **more) for name, times in medians.items() for number, p50 in enumerate(times)]
    (run / "records.jsonl").write_text("".join(one.model_dump_json() + "\n" for one in made), encoding="utf-8")
    return run


def scored_folder(
    folder: Path, ap: float, ends: tuple[float, float] | None, started: str, commit: str | None = None
) -> Path:
    """Write a run of eval-coco with one figure."""
    names = ("AP50", "AP75", "AP_small", "AP_medium", "AP_large")
    recalls = ("AR_1", "AR_10", "AR_100", "AR_small", "AR_medium", "AR_large")
    metrics = {
        "schema_version": 1, "status": "complete", "backend": "ort-cpu", "backend_requested": "ort-cpu",
        "model": {"path": "m.onnx", "sha256": "0" * 64, "family": "yolov10", "class_count": 1},
        "provenance": {}, "settings": {"batch": 1, "workers": 1, "concurrency": 1, "seed": 0, "precision": "fp32"},
        "AP": ap, **dict.fromkeys((*names, *recalls)), "AP_ci95": ends, "resamples": 1000, "images": 80,
        "images_per_s": None, "latency_ms": None, "per_class": [],
        "dataset": {"images": "i", "annotations": "a", "annotations_sha256": "1" * 64, "missing": []},
    }  # fmt: skip
    return run_folder(folder, "eval-coco", started, commit, metrics=metrics)


def upgrade_folder(folder: Path, turns: list[float], started: str, *, recorded: bool = False) -> Path:
    """Write a run of upgrade of one model: the latency of each turn of the new stack, milliseconds, and its score."""
    side = {"schema_version": 1, "stack": "s", "kind": "k", "python": [3, 11], "versions": {}, "gpus": []}
    side |= {"backend": "ort-cpu", "precision": "fp32"}
    checked = {"verdict": "right"}
    model = {"name": "m", "model": "m.onnx", "model_sha256": "0" * 64, "outcome": "safe", "reasons": []}
    document = {
        "schema_version": 1, "before": side, "after": None if recorded else side, "same": False, "passed": True,
        "tolerance": 0.05, "max_loss": 0.005,
        "models": [{**model, "before": checked, "after": None if recorded else checked}],
    }  # fmt: skip
    run = run_folder(folder, "upgrade", started, upgrade=document)
    place = run / ("before" if recorded else "after") / "m"
    for number, p50 in enumerate(turns):
        bench_folder(place / f"turn-{number}", {"ort-cpu": [p50]}, started)
    scored_folder(place / "score", 0.5, (0.45, 0.55), started)
    return run


def profile_folder(folder: Path, own_ms: float | None = None, nodes: int = 1) -> Path:
    """Write a profile of nodes that take 1 ms together, and of the same ones that take `own_ms` on the other side."""
    run = run_folder(folder, "profile", "2026-11-22T12:00:00+00:00")
    sides, lines = {}, []
    for name, whole in {"target": 1.0, "against": own_ms}.items():
        if whole is None:
            continue
        sides[name] = {"path": f"{name}.onnx", "backend": "ort-cpu", "precision": "fp32", "own_ms": whole}
        sides[name] |= {"profiled_ms": whole, "own_interval_ms": (0.99 * whole, 1.01 * whole)}
        for place in range(nodes):
            node = {"kind": "node", "side": name, "index": place, "name": f"/block.{place}/Conv", "role": "compute"}
            node |= {"operator": ("Conv", "Relu", "Concat")[place % 3], "onnx_nodes": [f"/block.{place}/Conv"]}
            node |= {"mean_ms": whole / nodes, "median_ms": whole / nodes, "share": 1 / nodes}
            lines.append(json.dumps({"schema_version": 1, **node}) + "\n")
    document = json.loads((run / "run.json").read_text(encoding="utf-8"))
    (run / "run.json").write_text(json.dumps({**document, "sides": sides}), encoding="utf-8")
    (run / "records.jsonl").write_text("".join(lines), encoding="utf-8")
    return run
