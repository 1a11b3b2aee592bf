"""README.md of a folder of records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from measuring import verdicts
from measuring.cases import ANCHORS
from measuring.records import read_records

_INTRO = """# The TensorRT core on an H200, compared with trtexec

Made by `measure.py report` from `records.jsonl`. The machine is in `env-*.json`, what failed among the records of kind
`failure`. A run also writes every sample to `samples.jsonl.gz`, which is not kept here. Weights of ResNet-50,
ResNet-18, ViT-B/16 and YOLOv10m are random: they measure speed, not accuracy.
In records and environments paths are shortened to what follows the measuring folder.
"""
_PAIRS = """## Compared with trtexec, on the same plan

Each pair is one process of trtexec and one of `infer-engine`, by turns, the first of them changing from pair to pair:
warm-up 200 ms, at least 10 iterations and the duration in the commands below, spin wait, transfers included. Figures
are medians of a run's queries; the columns give their medians over the pairs, and the median and range of the ratios
within each pair, `infer-engine` to trtexec. Targets: compute and latency at most 1.005, throughput at least 0.995.
"""
_CONTEXTS = """## An engine's speed after other work of the process

Compute by trtexec's method, measured in turn in one process. `bench` opens a context and measures; `run` opens a
runner, which stays open, and calls it; `close` closes it; `streams` first uses sixteen other CUDA streams. Once a
process has launched kernels on a second stream, those of a graph follow one another more slowly in every context,
whichever way kernels are loaded; so contexts that follow one another use the same streams.
"""
_LATENCY = """## Single calls, numpy to numpy

End to end on the host's clock, both copies between ordinary and pinned memory included. `python-runner` calls the
native runner, `python-session` the workbench's session, which also checks the inputs. The C++ loop calls the same
runner; that of ViT-B/16 at batch 1 had one of its own, with memory of its own. Target: at most 20 µs above the C++
loop.
"""
_SLOTS = """## Several calls in flight

Numpy arrays in, numpy arrays out. `submit` is one thread that keeps every slot busy, `threads` is one thread a slot.
Compute is the median of trtexec's method on the same plan just before. Target from two slots on: 0.97 of 1/compute.
"""
_ACCURACY = """## Accuracy

`eval-coco` on the same images. YOLOX-Nano runs on 80 images of COCO val2017, the embedded detector (shapes) on its own
held-out scenes, as its classes are not COCO's. Targets: AP within 0.001 (fp32) and 0.003 (fp16) of the processor's.
"""
_IMAGES = """## From an image in host memory to boxes

One uint8 image in, boxes in its pixels out; preprocessing on the GPU, or on the host by OpenCV with one thread, as
where every stream of images has a processor, or with its own choice of threads, all processors for one image. The GPU
takes the image from ordinary memory, or from page-locked memory (`pinned_empty`) as one that a camera or a decoder
wrote there. `engine` is its compute alone, which every way takes; "without engine" compares the rest. Target: at least
2 times faster on the GPU than on the host with all processors, the engine included.
"""
# Kind of record, text, head of the table, rows.
_SECTIONS: tuple[tuple[str, str, str, Callable[[Sequence[verdicts.Record]], list[verdicts.Row]]], ...] = (
    ("contexts", _CONTEXTS, "engine|loading of kernels|steps|rounds|compute, ms", verdicts.context_rows),
    ("latency", _LATENCY, "engine|way|rounds|C++, ms|Python, ms|excess, µs|target", verdicts.latency_rows),
    ("slots", _SLOTS, "engine|slots|way|rounds|queries/s|1/compute|ratio|target", verdicts.slot_rows),
    ("accuracy", _ACCURACY, "run|images|AP|AP50|AP - ort-cpu|images/s|target", verdicts.accuracy_rows),
    (
        "images",
        _IMAGES,
        "engine and image|memory|rounds|GPU, ms|engine, ms|one thread, ms|speed-up|host, ms|without engine|speed-up"
        "|target",
        verdicts.image_rows,
    ),
)


def write_report(folder: Path, destination: Path) -> Path:
    """Write README.md into `destination` from the records in `folder` and return its path."""
    from trt_workbench.core.files import anything, write_text

    parts = [_INTRO, _machine(folder), _engines(read_records(folder, "build"))]
    pairs = read_records(folder, "pair")
    if pairs:
        head = ("case and measure", "pairs", "trtexec", "workbench", "ratio", "range", "target")
        parts += [_PAIRS, _sessions(folder), verdicts.table(head, verdicts.pair_rows(pairs))]
        parts += [_anchors(pairs), _commands(pairs)]
    for kind, text, columns, rows in _SECTIONS:
        if found := read_records(folder, kind):
            parts += [text, verdicts.table(columns.split("|"), rows(found))]
    parts += [_soak(record) for record in read_records(folder, "soak")[-1:]]
    parts += [_threads(record) for record in read_records(folder, "threads")[-1:]]
    parts.append(_sanitizer(read_records(folder, "sanitizer")))
    path = destination / "README.md"
    write_text(path, "\n\n".join(part.strip() for part in parts if part) + "\n", over=anything)
    return path


def _machine(folder: Path) -> str:
    """What the environments of all commands say; they need not be of one machine."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("env-*.json"))]
    if not found:
        return ""

    def row(part: str, values: Iterable[str]) -> list[str]:
        return [part, "; ".join(sorted(set(values)))]

    rows = [
        row("GPU, each command on one", (_gpus(env["driver"]["gpus"]) for env in found)),
        row("driver", (str(env["driver"].get("driver_version")) for env in found)),
        row("CPU", (f"{env['cpu']['model']}, {env['cpu']['processors_available']} processors" for env in found)),
        row("system", (f"{env['os']}, kernel {env['kernel']}" for env in found)),
        row("Python", (env["python"] for env in found)),
        row("commit", (str(env["git"]["commit"])[:8] for env in found)),
    ]
    builds = read_records(folder, "build")
    versions = sorted({str(record["tensorrt"]) for record in builds if "tensorrt" in record})
    rows += [["TensorRT", ", ".join(versions)]] if versions else []
    states = [record["gpu"] for record in read_records(folder, "pair") if record["gpu"]]
    if states:
        clocks = [state["sm_clock_mhz"] for state in states if state["sm_clock_mhz"] is not None]
        rows += [["SM clock after a run", f"{min(clocks)} to {max(clocks)} MHz"]] if clocks else []
    return "## Machine\n\n" + verdicts.table(("part", "found"), rows)


def _gpus(gpus: Sequence[Mapping[str, Any]]) -> str:
    names = [f"{gpu['name']}, compute capability {gpu['compute_capability']}" for gpu in gpus]
    return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names)) or "none"


def _engines(records: Sequence[Mapping[str, Any]]) -> str:
    if not records:
        return ""
    rows = []
    for record in records:
        if "error" in record:
            rows.append([record["engine"], *["-"] * 5, f"**failed**: {record['error'][:200]}"])
            continue
        outputs = ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in record["outputs"].items())
        finite = "finite" if record["finite"] else "**not finite**"
        size = f"{record['size_bytes'] / 1e6:.1f}"
        level = "default" if record.get("optimization_level") is None else str(record["optimization_level"])
        layers = str(record["layer_count"])
        rows.append([record["engine"], level, f"{record['build_s']:.1f}", size, layers, outputs, finite])
    head = ("engine", "level", "build, s", "size, MB", "layers", "outputs of a first run", "values")
    return "## Engines\n\n" + verdicts.table(head, rows)


def _sessions(folder: Path) -> str:
    """Which cases were measured together, where there were several sessions: each has an environment."""
    found = []
    for path in sorted(folder.glob("env-pairs*.json")):
        words = json.loads(path.read_text(encoding="utf-8"))["command_line"]
        after = words[words.index("--case") + 1 :] if "--case" in words else ["all"]
        end = next((place for place, word in enumerate(after) if word.startswith("--")), len(after))
        found.append(f"- `{path.name}`: {', '.join(after[:end])}")
    text = "Measured in several sessions, on different machines where the GPUs in these files differ:"
    return "\n".join([text, "", *found]) if len(found) > 1 else ""


def _anchors(pairs: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    measured = {row[0].split(" ")[0] + " " + row[0].split(" ")[1].rstrip(","): row for row in verdicts.pair_rows(pairs)}
    for case, figures in ANCHORS.items():
        for measure, anchor in zip(("compute", "latency", "throughput"), figures, strict=True):
            row = measured.get(f"{case} {measure}")
            if anchor is not None and row is not None:
                rows.append([f"{case} {measure}", f"{anchor:g}", row[2], row[3]])
    head = ("case and measure", "anchor", "trtexec here", "workbench here")
    text = "Compared with anchors that trtexec 8.6.0 gave on an H200 earlier:\n\n"
    return text + verdicts.table(head, rows) if rows else ""


def _commands(pairs: Sequence[Mapping[str, Any]]) -> str:
    seen: dict[tuple[str, str], str] = {}
    for record in pairs:
        shown = [Path(word).name if word.startswith("/") else word for word in record["command"]]
        shown = [word for word in shown if not word.startswith(("--exportTimes", "--export-times", "--output"))]
        shown = [f"--loadEngine={Path(word).name}" if word.startswith("--loadEngine=") else word for word in shown]
        seen[record["case"], record["tool"]] = " ".join(shown)
    lines = "\n".join(seen.values())
    return f"The commands (without where the times go, `--exportTimes` or `--export-times`):\n\n```\n{lines}\n```"


def _soak(record: Mapping[str, Any]) -> str:
    growth, memory = record["growth"], record["memory"]
    peak = max(sample["device_bytes"] for sample in memory)
    return (
        f"## Many runs\n\n{record['runs']} runs of {record['engine']} with {record['shapes']} shapes of two profiles "
        f"in random order, {record['wall_s']:.0f} s. From a fifth of them to the end, the process grew by "
        f"{growth['rss_bytes'] / 1e6:.2f} MB of host memory, the device by {growth['device_bytes'] / 1e6:.2f} MB (of "
        f"{peak / 1e6:.0f} MB in use). {record['changed_outputs']} runs returned something else than the first run of "
        f"the same input (largest difference {record['largest_difference']:g})."
    )


def _threads(record: Mapping[str, Any]) -> str:
    return (
        f"## One runner, {record['threads']} threads\n\n{record['threads']} threads with {record['calls']} calls each "
        f"on {record['slots']} slots of {record['engine']}: {record['wrong']} answers differ from those of single "
        f"calls (largest difference {record['largest_difference']:g}; answers to different inputs lie at least "
        f"{record['expected_differ_by']:.3g} apart), {len(record['errors'])} errors."
    )


def _sanitizer(records: Sequence[Mapping[str, Any]]) -> str:
    rows = [[name, record["result"], f"`{record['command']}`"] for name, record in _latest(records).items()]
    return "## compute-sanitizer\n\n" + verdicts.table(("run", "result", "command"), rows) if rows else ""


def _latest(records: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {record["run"]: record for record in records}
