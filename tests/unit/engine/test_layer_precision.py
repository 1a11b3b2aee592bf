"""What an engine's layers compute in, from what TensorRT's inspector prints."""

from pathlib import Path
from typing import Any

import pytest
from tests.texts import held

from trt_workbench.engine.inspection import layer_precision, read_layers

SAMPLES = Path(__file__).parents[1] / "profile" / "samples"


def layer(
    name: str, *inputs: str, kind: str = "CaskConvolution", weights: str = "", tactic: str = ""
) -> dict[str, Any]:
    tensors = [{"Name": f"{name}_{i}", "Format/Datatype": text} for i, text in enumerate(inputs)]
    held = {"Weights": {"Type": weights, "Count": 64}} if weights else {}
    return {"Name": name, "LayerType": kind, "Inputs": tensors, "Outputs": [], "TacticName": tactic, **held}


INT8 = "Thirty-two wide channel vectorized row major Int8 format"
FP16, FP32 = "Row major linear FP16", "Row major linear FP32"


def test_a_mixed_engine() -> None:
    layers = [
        layer("Reformatting CopyNode for Input Tensor 0 to c1", FP32, kind="Reformat"),
        layer("q", FP32, kind="Quantize"),
        layer("c1", INT8, weights="Int8"),
        layer("c2 + add", INT8, FP16, weights="Int8"),
        layer("c3", INT8, weights="Int8"),
        layer("soft", FP16, kind="SoftMax"),
        layer("gather", "Row major linear INT32", kind="Gather"),
    ]
    found = layer_precision(layers)
    held(found.text)
    assert (found.source, found.counted) == ("engine layers", 4)


def test_weights_of_four_bits_are_widened() -> None:
    assert layer_precision([layer("m", FP16, "INT4", weights="Int4")]).label == "fp16"
    assert layer_precision([layer("m", "FP4 E2M1", "FP4 E2M1")]).label == "fp4"


@pytest.mark.parametrize(
    ("sample", "text"),
    [
        ("inspector-fp16", "fp16"),
        ("inspector-h200", "fp16"),
        ("inspector-fp32", "tf32+fp32 (33 % of layers tf32, 67 % fp32)"),
        ("inspector-11", "fp16"),
    ],
)
def test_samples_of_the_inspector(sample: str, text: str) -> None:
    found = layer_precision(read_layers((SAMPLES / f"{sample}.json").read_text())[0])
    assert (found.text, found.source) == (text, "engine layers")


def test_names_alone_do_not_tell_what_ran() -> None:
    layers = read_layers((SAMPLES / "inspector-names.json").read_text())[0]
    assert layer_precision(layers).label == "unknown"
    found = layer_precision(layers, ["fp16"])
    assert (found.label, found.source, found.shares) == ("fp16 or fp32, not reported", "build options", {})


def test_a_region_that_is_compiled_as_a_whole_may_have_chosen() -> None:
    region = layer("{ForeignNode[/attention/MatMul.../Add_1]}", FP32, FP32, kind="Myelin")
    alone = layer_precision([region], ["fp16"])
    assert (alone.label, alone.source, alone.shares) == ("fp16 or fp32, not reported", "build options", {})
    beside = layer_precision([layer("c1", FP32, weights="Float"), region], ["fp16"])
    assert (beside.label, beside.source, beside.shares) == ("fp32 or fp16", "engine layers", {"fp32": 1.0})
    narrow = layer_precision([layer("c1", FP16, weights="Half"), region], ["fp16"])
    assert (narrow.label, narrow.may_choose) == ("fp16 or fp32", ("fp16", "fp32"))
    # nothing to choose, or nobody knows from what: the types at its borders
    assert layer_precision([region], ["fp32"]).text == "fp32"
    assert layer_precision([region]).text == "fp32"
