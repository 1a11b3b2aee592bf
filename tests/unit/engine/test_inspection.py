"""What is read from the JSON of TensorRT's engine inspector."""

import re

import pytest

from trt_workbench.engine.inspection import read_layers

# The layout of TensorRT 8.6: the characters that part the metadata stand in the text as they are.
RAW = """{"Layers": [{
  "Name": "first_conv + first_relu",
  "LayerType": "CaskConvolution",
  "Inputs": [
  {
    "Name": "images",
    "Location": "Device",
    "Dimensions": [4,3,64,64],
    "Format/Datatype": "Row major linear FP32"
  }],
  "Outputs": [
  {
    "Name": "r1",
    "Location": "Device",
    "Dimensions": [4,64,64,64],
    "Format/Datatype": "Row major linear FP32"
  }],
  "ParameterType": "Convolution",
  "TacticValue": "0x0000000000000000",
  "StreamId": 0,
  "Metadata": "[ONNX Layer: first_conv]\x1e[ONNX Layer: first_relu]\x1f"
},{
  "Name": "pool",
  "LayerType": "CaskPooling",
  "Inputs": [],
  "Outputs": [],
  "StreamId": 0,
  "Metadata": "[ONNX Layer: pool]"
}],
"Bindings": ["images"
,"pooled"
]}
"""


def test_control_characters_in_the_metadata_are_read() -> None:
    layers, notes = read_layers(RAW)
    assert notes == ()
    assert [layer["Name"] for layer in layers] == ["first_conv + first_relu", "pool"]
    assert layers[0]["Metadata"] == "[ONNX Layer: first_conv]\x1e[ONNX Layer: first_relu]\x1f"


def test_layers_by_name_are_told_to_be_that() -> None:
    layers, notes = read_layers('{"Layers": ["conv\x1e", "pool"]}')
    assert layers == ({"Name": "conv\x1e"}, {"Name": "pool"})
    assert "--profiling-verbosity detailed" in notes[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (RAW.replace('"pool",', '"a "quoted" pool",'), r"Expecting ',' delimiter: line 23 column 15 .* near .*quoted"),
        ("", r"Expecting value: line 1 column 1 \(char 0\)"),
        ('{"Bindings": []}', r'no list of layers and begins with .\{"Bindings'),
        ('{"Layers": null}', "no list of layers"),
        ("[]", "no list of layers"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(text: str, reason: str) -> None:
    layers, (note,) = read_layers(text)
    assert layers == ()
    assert note.startswith("The output of TensorRT's engine inspector cannot be read: ")
    assert re.search(reason, note)
