"""What encoders.py keeps of its commands' documents, and the tables that it makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

_SHORT = 3000
_TABLES = "engines", "parity", "beside", "batches", "streams", "switch", "commands"
Record = Mapping[str, Any]


def kept(document: dict[str, Any]) -> dict[str, Any]:
    """Return a command's document without its long tables; of a bench, its points."""
    flat = {**document, **document.pop("manifest", {})}
    for lane in flat.get("lanes", ()):
        lane.pop("tensors")
        lane.pop("provenance")
        lane["gates"] = [gate for gate in lane["gates"] if gate["verdict"] != "passed"]
    for paced in flat.get("streams", ()):
        paced.pop("provenance")
    records = Path(str(flat.pop("directory", ""))) / "records.jsonl"
    if "summary" in flat:
        flat["points"] = points(json.loads(line) for line in records.read_text(encoding="utf-8").splitlines())
    whole = ("lanes", "streams", "points", "summary", "notes", "failures")
    dropped = ("settings", "model", "contract", "plan", "manifest_path", "verification", "resident")
    return {
        key: value
        for key, value in flat.items()
        if key in whole or (key not in dropped and len(json.dumps(value)) < _SHORT)
    }


def points(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Return one entry a point of a bench: medians over its repetitions, those that were stable where there are any."""
    found: dict[tuple[int, str], list[Record]] = {}
    for record in records:
        found.setdefault((record["batch"], record["runtime"]), []).append(record)
    made = []
    for (batch, runtime), all_of_it in found.items():
        fine = [one for one in all_of_it if one["status"] == "ok"]
        used = [one for one in fine if not one["unstable"]] or fine
        point: dict[str, Any] = {"batch": batch, "runtime": runtime, "repetitions": len(fine)}
        point["unstable"] = sum(bool(one["unstable"]) for one in fine)
        point["error"] = next((one["error"] for one in all_of_it if one["status"] != "ok"), None)
        if used:
            p50 = [one["latency_ms"]["p50"] for one in used]
            point |= {"p50_ms": median(p50), "p50_low_ms": min(p50), "p50_high_ms": max(p50)}
            point["p99_ms"] = median(one["latency_ms"]["p99"] for one in used)
            parts = used[0]["split_ms"] or {}
            point["parts_ms"] = {part: median(one["split_ms"][part] for one in used) for part in parts}
            point["outputs"] = used[0]["outputs"] and used[0]["outputs"]["state"]
            point["first_run_ms"] = max(one["first_run_ms"] or 0 for one in used)
            memory = [one["telemetry"]["device_memory_bytes"] for one in used if one["telemetry"]]
            point["device_bytes"] = max((one for one in memory if one), default=None)
        made.append(point)
    return made


def report(output: Path, records: Sequence[Record]) -> None:
    """Write README.md into the folder of the records; a note.md there says what has to be known about them."""
    latest = {(one["step"], one["engine"]): one for one in records}
    parts = ["# Streaming encoders on a GPU", _INTRODUCTION]
    environments = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(output.glob("env-*.json"))]
    parts += [_machine(found) for found in environments]
    if (note := output / "note.md").is_file():
        parts.append(note.read_text(encoding="utf-8").strip())
    for name in _TABLES:
        lines = globals()[f"_{name}"](latest)
        if lines:
            parts.append("\n".join(lines))
    (output / "README.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


_INTRODUCTION = """\
Made by `encoders.py report` from `engines.jsonl`. `embedded` is the encoder that comes with the workbench; 17x512 and
the like have its architecture, so many layers of so much width, and random weights: they show speed and error, and no
answers. Chunks have 7 output frames (560 ms) unless said otherwise. fp32 is without TF32."""


def _machine(found: Record) -> str:
    gpus = [gpu.get("name") for gpu in found.get("driver", {}).get("gpus", ())]
    packages = found.get("packages", {})
    runtimes = ", ".join(
        f"{name} {packages[name]}" for name in ("onnxruntime", "onnxruntime-gpu", "torch") if packages.get(name)
    )
    where = f"{' and '.join(filter(None, gpus)) or 'no GPU'}; {found['cpu']['processors_available']} processors"
    source = (found["git"]["commit"] or "unknown")[:8]
    return f"Machine: {where} ({found['cpu']['model']}); {runtimes}; source {source}."


def _engines(latest: Mapping[tuple[str, str], Record]) -> list[str]:
    rows = []
    for (step, name), one in latest.items():
        engine = (one["document"] or {}).get("engine")
        if step == "build":
            rows.append(
                [name, _number(engine and engine["size_bytes"] / 1e6, ".1f"), f"{one['wall_s']:.0f}", _ended(one)]
            )
    return _table("Engines", ["engine", "MB", "built in, s", ""], rows)


def _parity(latest: Mapping[tuple[str, str], Record]) -> list[str]:
    rows, notes = [], []
    for (step, name), one in sorted(latest.items()):
        if step not in ("parity", "streams"):  # the ones with many streams run a few chunks of one stream first
            continue
        document = one["document"] or {"lanes": []}
        if not document["lanes"]:
            rows.append([name, _ended(one)] + ["-"] * 8)
        for lane in document["lanes"]:
            drift = lane["drift"]
            gates = [f"{'warning: ' * (gate['verdict'] == 'warning')}{gate['gate']}" for gate in lane["gates"]]
            growth = f"{drift['exponent']:+.2f} ({drift['low']:+.2f} to {drift['high']:+.2f})" if drift else "-"
            equal = {None: "", True: "yes", False: "**no**"}[lane["bit_equal"]]
            verdict = "passed" if lane["passed"] else "**failed**"
            errors = [_number(lane[key], ".1e") for key in ("rel_l2_p50", "rel_l2_max")]
            heads = ", ".join(f"{share:.4f}" for share in lane["head_agreement"].values())
            verdict += f" ({', '.join(gates)})" if gates else ""
            where = [name, lane["mode"], str(document["chunks"]), lane["judged_as"]]
            rows.append([*where, *errors, growth, heads, equal, verdict])
        notes += [f"- {name}: {text}" for text in document.get("failures", ())]
    head = ["encoder, runtime, precision", "mode", "chunks", "judged as", "relative L2 p50", "max", "growth exponent"]
    table = _table("Parity, chunk by chunk", [*head, "head", "device equals closed loop", "gates"], rows)
    return [*table, "", "Compared with a record of `ort-cpu` in fp32.", *notes] if table else []


def _beside(latest: Mapping[tuple[str, str], Record]) -> list[str]:
    rows, below = [], []
    for name, found, unstable in (*_bench(latest, "b1"), *_bench(latest, "b8")):
        where = f"{name}, B={found[0]['batch']}"
        rows += [[where, *_point(one)] for one in sorted(found, key=lambda one: one.get("p50_ms", inf))]
        below += _below(where, {one["runtime"]: one for one in found})
        below += [f"- {where}: {unstable}"] * bool(unstable)
    head = ["encoder, streams", "runtime", "p50 of a call, ms", "lowest to highest", "p99", "by part, ms", "outputs"]
    table = _table("A chunk of B streams, compared with other runtimes", [*head, "peak GPU MB", "unstable"], rows)
    return [*table, "", _ELSEWHERE, *below] if table else []


_ELSEWHERE = """\
TensorRT's states stay on the GPU. Those of the other runtimes go through the host, where our pool of streams keeps
them: `inference` includes their way to the GPU and back, `state` joining and taking them apart."""


def _below(where: str, here: Mapping[str, Record]) -> list[str]:
    """Say, of each precision, how TensorRT's median compares with the lowest of the others."""
    made = []
    for precision in ("fp32", "fp16"):
        ours = here.get(f"trt-{precision}", {}).get("p50_ms")
        others = {
            name: one["p50_ms"]
            for name, one in here.items()
            if name.endswith(precision) and not name.startswith("trt") and "p50_ms" in one
        }
        if ours and others:
            best = min(others, key=others.__getitem__)
            verdict = "below" if ours < others[best] else "**above**"
            made.append(
                f"- {where}, {precision}: {ours / others[best]:.2f} of the lowest other median ({best}): {verdict}"
            )
    return made


def _batches(latest: Mapping[tuple[str, str], Record]) -> list[str]:
    rows, notes = [], []
    for name, found, unstable in _bench(latest, "batches"):
        notes += [f"- {name}: {unstable}"] * bool(unstable)
        for one in sorted(found, key=lambda one: (one["runtime"], one["batch"])):
            ms = one.get("p50_ms")
            figures = [_number(ms, ".3f"), _number(ms and ms / one["batch"], ".3f")]
            rows.append(
                [name, one["runtime"], str(one["batch"]), *figures, _number(ms and one["batch"] / ms * 1e3, ".0f")]
            )
    head = ["encoder", "runtime", "B", "p50 of a call, ms", "a chunk, ms", "chunks/s"]
    table = _table("Batches of streams", head, rows)
    return [*table, "", *notes] if notes else table


def _streams(latest: Mapping[tuple[str, str], Record]) -> list[str]:
    rows, notes = [], []
    for name, paced in _paced(latest, "streams"):
        check = paced["check"]
        batches, per_stream = ", ".join(map(str, check["rows"])), paced["memory_bytes"]["per_stream"] / 1e6
        graphs, most = " ".join((paced["cuda_graphs"] or "none").split()), paced["most_streams"] or "none"
        notes.append(
            f"- {name}: in batches of {batches} compared with each alone: {check['text']}. A stream's state: "
            f"{per_stream:.2f} MB. CUDA graphs: {graphs}. Within a hop at p99: {most}."
        )
        for level in paced["levels"]:
            times = (level["latency_ms"]["p50"], level["latency_ms"]["p99"], level["latency_p99_9_ms"])
            parts = ", ".join(f"{part} {value['p50']:.2f}" for part, value in level["parts_ms"].items())
            verdict = {True: "yes", False: "**no**", None: "cannot tell"}[level["within_hop"]]
            shown = ("-" if time is None else f"{time:.2f}" for time in times)  # none with too few chunks
            figures = [*shown, f"{paced['hop_ms']:.0f}", verdict]
            figures += [f"{level['real_time_factor']:.4f}", f"{level['rows_mean']:.1f}", parts]
            rows.append([name, str(level["streams"]), str(level["chunks"]), *figures])
    head = ["encoder, runtime, precision", "streams", "chunks", "p50, ms", "p99", "p99.9", "hop", "within a hop"]
    table = _table(
        "Streams in real time, latency from due time", [*head, "real-time factor", "rows", "by part p50, ms"], rows
    )
    return [*table, "", *notes] if table or notes else []


def _switch(latest: Mapping[tuple[str, str], Record]) -> list[str]:
    rows = []
    for name, paced in _paced(latest, "switch"):
        found = paced["switch"]
        for kind in ("first", "later") if found else ():
            again, switched = (found[key][kind]["p50"] for key in ("again_ms", "switched_ms"))
            cost, rounds = found["cost"][kind], str(found["rounds"])
            met = "yes" if cost <= 0.05 else "**no**"
            rows.append([name, kind, f"{again:.3f}", f"{switched:.3f}", f"{cost:+.1%}", met, rounds])
    head = ["engine", "chunk", "after its own size, ms", "after the other", "cost", "at most 5 %", "samples"]
    table = _table("A change of the chunk size: 7 frames first, 14 later", head, rows)
    text = (
        "`ab` has a profile for each size, `both` one for the two. First and later chunks have one size in these "
        "models, so the two sizes were chosen for this."
    )
    return [*table[:2], text, *table[1:]] if table else []


def _commands(latest: Mapping[tuple[str, str], Record]) -> list[str]:
    lines = ["## Commands", "", "Relative to the folder of models and plans.", ""]
    for one in latest.values():
        source = (one["document"] or {}).get("source")
        ended = f"{one['wall_s']:.0f} s, exit code {one['exit_code']}{f', source {source}' if source else ''}"
        lines.append(f"- {ended}: `trtw {one['command']}`")
        if error := one.get("error"):
            lines.append(f"  {' '.join(error.split())[-400:]}")
    return lines if latest else []


def _paced(latest: Mapping[tuple[str, str], Record], step: str) -> Iterable[tuple[str, Record]]:
    for (kind, name), one in latest.items():
        if kind == step:
            for paced in (one["document"] or {}).get("streams", ()):
                yield name, paced


def _bench(latest: Mapping[tuple[str, str], Record], ending: str) -> Iterable[tuple[str, Sequence[Record], str]]:
    """Yield the encoder, its points, and what the bench says first where its times vary; empty where they do not."""
    for (step, name), one in latest.items():
        if step == "bench" and name.endswith(f".{ending}") and (document := one["document"]):
            unstable = " ".join(
                text for text in document["summary"][:2] if document["summary"][0].startswith("Unstable")
            )
            yield name.removesuffix(f".{ending}"), document["points"], unstable


def _point(one: Record) -> list[str]:
    if "p50_ms" not in one:
        return [one["runtime"], "-", "-", "-", " ".join(str(one["error"]).split())[:160], "-", "-", "-"]
    parts = ", ".join(f"{part.removesuffix('_ms')} {value:.3f}" for part, value in one["parts_ms"].items())
    span, of = f"{one['p50_low_ms']:.3f} to {one['p50_high_ms']:.3f}", f"{one['unstable']} of {one['repetitions']}"
    figures = [f"{one['p50_ms']:.3f}", span, f"{one['p99_ms']:.3f}", parts, str(one["outputs"])]
    return [one["runtime"], *figures, _number(one["device_bytes"] and one["device_bytes"] / 1e6, ".0f"), of]


def _ended(one: Record) -> str:
    return "" if one["exit_code"] == 0 else f"exit code {one['exit_code']}"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    lines = [f"## {title}", "", f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    return lines + [f"| {' | '.join(row)} |" for row in rows]
