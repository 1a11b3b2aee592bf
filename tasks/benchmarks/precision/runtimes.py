"""Formats by runtimes: what computes natively, what is simulated, what is refused; by running a small model.

Run in the repository; runtimes that this machine lacks are asked what they would refuse, and are else not run:

    python tasks/benchmarks/precision/runtimes.py [NAME]

It writes NAME.json and NAME.md (runtimes) to docs/benchmarks/precision. `native` is read from the graph as ONNX Runtime
has optimised it, from the operators that PyTorch runs, or from an engine's layers.
"""

from __future__ import annotations

import platform
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.ort.backend import OrtBackend
from trt_workbench.backends.ort.cpu import OrtCpuSession
from trt_workbench.backends.registry import backend_names, get_backend
from trt_workbench.core.documents import write_json
from trt_workbench.core.errors import UsageProblem, WorkbenchError
from trt_workbench.core.files import anything
from trt_workbench.core.precision import MIXED, names, precisions, read
from trt_workbench.model.opened import Model
from trt_workbench.quantize.candidates import make_candidate
from trt_workbench.quantize.settings import CalibrationSettings, PlacementSettings

RECORDS = Path(__file__).resolve().parents[3] / "docs" / "benchmarks" / "precision"
NAME = sys.argv[1] if sys.argv[1:] else "runtimes"
MACHINE = torch.cuda.get_device_name() if torch.cuda.is_available() else f"a CPU ({platform.machine()})"
RNG = np.random.default_rng(0)
SHAPE = (4, 3, 16, 16)
# What ONNX Runtime's own tools write: form, activations, weights, and whether a channel has a scale of its own.
STATIC = {
    "int8, Q/DQ around every operator": (QuantFormat.QDQ, QuantType.QInt8, QuantType.QInt8, False),
    "int8, Q/DQ, unsigned activations, scales by channel": (QuantFormat.QDQ, QuantType.QUInt8, QuantType.QInt8, True),
    "int8, QLinear operators": (QuantFormat.QOperator, QuantType.QUInt8, QuantType.QUInt8, False),
    "int8 weights, int16 activations": (QuantFormat.QDQ, QuantType.QInt16, QuantType.QInt8, False),
    "int8 weights, uint16 activations": (QuantFormat.QDQ, QuantType.QUInt16, QuantType.QInt8, False),
}


class Samples(CalibrationDataReader):
    """Noise."""

    def __init__(self) -> None:
        self._left = 4

    def get_next(self) -> dict[str, Any] | None:
        """Return the next sample; None after the last."""
        self._left -= 1
        return {"x": RNG.random(SHAPE).astype(np.float32)} if self._left >= 0 else None


def main() -> None:
    """Make the model in every form, try all runtimes, and write the record."""
    with tempfile.TemporaryDirectory() as folder:
        files = _files(Path(folder))
        rows = {name: {backend: _tried(backend, file) for backend in backend_names()} for name, file in files.items()}
    found = {name: get_backend(name).availability() for name in backend_names()}
    document = {
        "schema_version": 1,
        "command": " ".join(("python tasks/benchmarks/precision/runtimes.py", *sys.argv[1:])),
        "versions": {name: dict(one.versions) for name, one in found.items() if one.ok},
        "python": platform.python_version(),
        "machine": MACHINE,
        "rows": rows,
    }
    write_json(RECORDS / f"{NAME}.json", document, over=anything)
    (RECORDS / f"{NAME}.md").write_text(_page(rows), encoding="utf-8")


def _files(folder: Path) -> dict[str, Path | str]:
    """Return the model's file in every form; why there is none in its place."""
    source = folder / "fp32.onnx"
    _network(source)
    files: dict[str, Path | str] = {"fp32": source}
    random = CalibrationSettings(calibration="random")
    for precision in precisions():
        if precision != "fp32":
            row, mode = read(precision)
            placement = PlacementSettings(keep_sensitive=mode == MIXED, keep=("head",) if mode == MIXED else ())
            output, to = folder / f"{precision}.onnx", row.name if mode == MIXED else precision
            try:
                made = make_candidate(Model.open(source), to, output, calibration=random, placement=placement)
                files[f"{precision}, as quantize writes it"] = made.path
            except UsageProblem as problem:
                files[precision] = str(problem)
    for name, (form, activations, weights, by_channel) in STATIC.items():
        path = folder / f"{len(files)}.onnx"
        quantize_static(
            source, path, Samples(), quant_format=form, activation_type=activations, weight_type=weights,
            per_channel=by_channel,
        )  # fmt: skip
        files[name] = path
    dynamic = folder / "dynamic.onnx"
    quantize_dynamic(source, dynamic, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul"])
    files["int8 products, quantised while running"] = dynamic
    return files


def _network(path: Path) -> None:
    """Write a convolution and two products, as wide as formats in blocks need."""
    shapes = {"w": (64, 3, 3, 3), "b": (64,), "m": (64, 64), "n": (64, 16)}
    weights = {name: RNG.normal(size=shape).astype(np.float32) * 0.2 for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flat"),
        helper.make_node("MatMul", ["f", "m"], ["g"], name="product"),
        helper.make_node("Relu", ["g"], ["h"], name="bend"),
        helper.make_node("MatMul", ["h", "n"], ["y"], name="head"),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", *SHAPE[1:]])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N", 16])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def _tried(name: str, file: Path | str) -> dict[str, Any]:
    """Return what a runtime computes in; or why it does not, or is not known."""
    if isinstance(file, str):
        return {"outcome": "not made", "reason": file}
    backend = get_backend(name)
    found = backend.availability()
    try:
        if not found.ok:
            if isinstance(backend, OrtBackend):
                backend.request(file, SessionOptions())  # needs no device
            return {"outcome": "not run", "reason": found.reason}
        with backend.load(file, _options(name, file)) as session:
            session.run({"x": RNG.random(SHAPE).astype(np.float32)})
            ran = session.record()["precision_ran"]
            graph = session._optimised() if type(session) is OrtCpuSession else None
    except WorkbenchError as error:
        return {"outcome": "refused", "reason": str(error).split(": /")[0].removesuffix(" File")}
    kernels = Counter(node.op_type for node in graph.graph.node) if graph else {}
    outcome = "native" if not ran["simulated"] else "partly simulated" if ran["native"] else "simulated"
    return {
        "outcome": outcome,
        "label": ran["text"],
        "source": ran["source"],
        "operators": dict(sorted(kernels.items())),
    }


def _options(name: str, file: Path) -> SessionOptions:
    """Return what is asked for: TensorRT 8 and 10 have to be allowed a graph's formats; 8.6 has no cuDNN here."""
    if name != "trt":
        return SessionOptions()
    flags = [row.flag for row in Model.open(file).facts.rows if row.flag]
    shape = "x".join(map(str, SHAPE))
    extra = {"tactic_sources": ["-CUBLAS", "-CUBLAS_LT", "-CUDNN"], "profiles": [f"x:{shape}/{shape}/{shape}"]}
    return SessionOptions(precision="+".join(flags) or "fp32", extra=extra)


def _cell(found: dict[str, Any]) -> str:
    return str(found.get("label", found["outcome"]))


def _page(rows: dict[str, dict[str, dict[str, Any]]]) -> str:
    backends = list(next(iter(rows.values())))
    reasons = {
        outcome: sorted({one["reason"] for row in rows.values() for one in row.values() if one["outcome"] == outcome})
        for outcome in ("refused", "not run")
    }
    lines = [
        f"| form of the model | {' | '.join(backends)} |",
        "| --- " * (len(backends) + 1) + "|",
        *(f"| {name} | {' | '.join(_cell(found) for found in row.values())} |" for name, row in rows.items()),
    ]
    return PAGE.format(
        table="\n".join(lines),
        refused="\n".join(f"- {reason}" for reason in reasons["refused"]),
        not_run="\n".join(f"- {reason}" for reason in reasons["not run"]),
        formats=", ".join(names()),
        machine=MACHINE,
        name=NAME,
    )


PAGE = """# Formats by runtimes

`python tasks/benchmarks/precision/runtimes.py {name}`, here on {machine}, makes one small model (a convolution and two
products) in every form, loads and runs it on every runtime, and reads what computed: from the graph as ONNX Runtime has
optimised it, from the operators that PyTorch runs, from an engine's layers. All of it, with the operators of the
optimised graphs: [{name}.json]({name}.json) ([commits](../README.md#commits)). The table of formats
(`core/precision.py`) has {formats}.

A label without a word is native: the runtime computes in that format. "simulated" computes in wider floats with exactly
the format's values, all of it or a part, and gets no latency. A runtime that refuses a file says so in one sentence
(below). "not run": the runtime is not on this machine, and does not refuse the file before it needs a device. "not
made": `quantize` has no such form of this model.

{table}

Refused:

{refused}

Not run:

{not_run}
"""

if __name__ == "__main__":
    main()
