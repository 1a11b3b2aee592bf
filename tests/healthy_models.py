"""Healthy random models verified in every way: `python -m tests.healthy_models FIRST LAST RECORDS.jsonl [full]`.

Batches 1, 2, 3 and 16 on two sets of inputs, and with `full` all that `verify` tries by default. No verdict may be
"wrong". Each record holds the largest share of its limit that a difference took, the evidence for the margins in
`verify/yardstick.py`.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

import onnx
from tests.random_models import write_model

from trt_workbench.core.errors import UsageProblem
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.outcome import Verified
from trt_workbench.verify.run import verify

WAYS = ("torch fp32", "ort-cpu disabled", "ort-cpu fp16", "torch fp16", "ort-cpu int8")


def check(seed: int, way: str, folder: Path, *, quick: bool = True) -> Verified:
    """Verify the model of a seed in one of WAYS; files go to `folder`."""
    model = folder / f"model{seed}.onnx"
    write_model(seed, model)
    request: dict[str, Any] = {"target": model, "quick": quick, "seed": seed}
    if way.startswith("torch"):
        request |= {"backend": "torch", "precision": way.split()[1]}
    else:
        request |= {"backend": "ort-cpu"}
    if way == "ort-cpu disabled":
        request |= {"options": {"graph_optimization_level": "disable"}}
    elif way == "ort-cpu fp16":
        request |= {"target": half(model), "model": model}
    elif way == "ort-cpu int8":
        # the same integers in both: without the optimisations, each Q and DQ is a node of its own
        request |= {"target": quantized(model), "options": {"graph_optimization_level": "disable"}}
    (folder / "run").mkdir(exist_ok=True)
    return verify(VerifyRequest(**request), folder / "run")


def half(model: Path) -> Path:
    """Return the model in fp16, with inputs and outputs as they were."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    path = model.with_name(f"{model.stem}-fp16.onnx")
    onnx.save(convert_float_to_float16(onnx.load(model), keep_io_types=True), path)
    return path


def quantized(model: Path) -> Path:
    """Return the model with Q and DQ nodes around its products, calibrated on inputs as they are drawn."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from tests.in_onnxruntime import Samples

    from trt_workbench.backends.measure.inputs import random_inputs
    from trt_workbench.backends.ort.cpu import OrtCpuBackend
    from trt_workbench.verify.settings import Range
    from trt_workbench.verify.space import model_space

    with OrtCpuBackend().load(model) as session:
        specs = session.inputs
    names = {
        value.name: ["N", *[None] * (len(spec.shape) - 1)]
        for value, spec in zip(onnx.load(model).graph.input, specs, strict=True)
    }
    shapes = model_space(specs, names, {"N": Range(2, 2, 2)}).case({}).shapes

    samples = Samples([random_inputs(specs, shapes, seed) for seed in range(4)])
    path = model.with_name(f"{model.stem}-int8.onnx")
    logging.disable(logging.WARNING)
    # 7 bits for weights: without VNNI, a processor's products of 8 bits overflow in 16 (onnxruntime's documentation)
    quantize_static(
        model, path, samples, quant_format=QuantFormat.QDQ, activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8, reduce_range=True, op_types_to_quantize=["MatMul", "Conv", "Gemm"],
    )  # fmt: skip
    logging.disable(logging.NOTSET)
    return path


def share(document: dict[str, Any]) -> float:
    """Return the largest share of its own limit that an output's difference takes."""
    shares = [0.0]
    for row in (row for case in document["cases"] for row in case["outputs"] if row.get("difference")):
        limit, apart = row["limits"][document["precision"]], row["difference"]
        if row["verdict"] != "undecided":
            shares += [
                apart[k] / limit[k] for k in ("rel_l2", "max_rel", "changed") if limit[k] and apart[k] is not None
            ]
    return max(shares)


def main() -> int:
    """Verify the models of a range of seeds and append a record for each; return the number of false alarms."""
    first, last, records, quick = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), "full" not in sys.argv[4:]
    alarms = 0
    for seed in range(first, last):
        for way in WAYS:
            with tempfile.TemporaryDirectory() as folder:
                record: dict[str, Any] = {"seed": seed, "way": way}
                record["blocks"] = write_model(seed, Path(folder) / "it.onnx")
                try:
                    found = check(seed, way, Path(folder), quick=quick)
                except (UsageProblem, NotImplementedError, RuntimeError) as error:
                    record |= {"verdict": "not run", "reason": str(error)[:300]}
                else:
                    alarms += bool(found.failures)
                    verdicts = [row["verdict"] for case in found.document["cases"] for row in case["outputs"]]
                    record |= {
                        "verdict": found.document["verdict"],
                        "outputs": len(verdicts),
                        "undecided": verdicts.count("undecided"),
                        "share_of_limit": round(share(found.document), 4),
                        "failures": list(found.failures[:3]),
                    }
            with records.open("a") as file:
                file.write(json.dumps(record) + "\n")
    return alarms


if __name__ == "__main__":
    sys.exit(min(main(), 100))
