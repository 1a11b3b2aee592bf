"""Commands to copy are made from the command that was typed."""

import shlex

import pytest
from tests.unit.quantize.planted import PLANTED

from trt_workbench.quantize.document import GroupLoss, Sensitivity
from trt_workbench.quantize.sensitivity_report import _brings, _next, answer
from trt_workbench.report.commands import again


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("trtw decide m.onnx", "trtw decide m.onnx"),
        ("trtw decide m.onnx --backends ort-cpu --max-loss 0.01 --json", "trtw decide m.onnx --max-loss 0.01"),
        ("trtw decide --backends=ort-cpu m.onnx -o out/a --output=b", "trtw decide m.onnx"),
        ("trtw decide 'a b.onnx' --data x", "trtw decide 'a b.onnx' --data x"),
    ],
)
def test_options_are_left_out_with_their_values(words: str, expected: str) -> None:
    assert again(shlex.split(words), ("--backends",)) == expected


def test_the_command_after_sensitivity_keeps_what_causes_half_of_the_noise() -> None:
    noise = {"first": 0.4, PLANTED: 0.3, "third": 0.1}
    groups = [
        GroupLoss(name=name, op_type="Conv", macs_share=0.1, weights_share=0.1, noise=one, sqnr_db=1.0)
        for name, one in noise.items()
    ]
    found = Sensitivity(
        model="m.onnx", model_sha256="0", to="int8", method="mse", calibrated=True, data_sha256="0", samples=4, seed=0,
        tensors=["y"], noise=0.8, sqnr_db=1.0, groups=groups[:2],
    )  # fmt: skip
    words = shlex.split("trtw sensitivity m.onnx --calibration d --score cosine --worst 3 --output o")
    assert _next(found, words) == "trtw quantize m.onnx --calibration d --to int8 --keep first"
    groups[0] = groups[0].model_copy(update={"noise": 0.31})
    more = found.model_copy(update={"groups": groups})
    assert _next(more, words).endswith(f"--keep first --keep {shlex.quote(PLANTED)}")
    assert _next(found, ["pytest"]) == ""
    anyway = [groups[0].model_copy(update={"kept": "last layer"}), *groups[1:]]
    changes = more.model_copy(update={"groups": anyway})
    assert _next(changes, words).endswith(f"--to int8 --keep {shlex.quote(PLANTED)}")
    assert _brings(changes).startswith("It keeps 1 more group in fp32: 75 % of the noise that quantize leaves, 10 % of")
    assert "1 group with 44 % of it stay in fp32 anyway: quantize keeps last layer." in answer(changes).said
    nothing = more.model_copy(update={"groups": [one.model_copy(update={"kept": "first layer"}) for one in groups]})
    assert _next(nothing, words) == ""
