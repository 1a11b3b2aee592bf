"""Commands to copy are made from the command that was typed."""

import shlex

import pytest
from tests.unit.quantize.planted import PLANTED

from trt_workbench.quantize.document import GroupLoss, Sensitivity
from trt_workbench.quantize.sensitivity_report import again, answer, brings, proposed


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


def test_the_command_after_sensitivity_keeps_what_was_found_to_be_worth_it() -> None:
    groups = [
        GroupLoss(name=name, op_type="Conv", macs_share=0.1, weights_share=0.1, noise=0.3, sqnr_db=1.0, kept=kept)
        for name, kept in (("first", ""), (PLANTED, ""), ("third", "last layer"))
    ]
    found = Sensitivity(
        model="m.onnx", model_sha256="0", to="int8", method="mse", calibrated=True, data_sha256="0", samples=4, seed=0,
        tensors=["y"], noise=0.8, sqnr_db=1.0, groups=groups, plain=0.1, advised=[PLANTED], kept=0.01,
    )  # fmt: skip
    words = shlex.split("trtw sensitivity m.onnx --calibration d --score cosine --worst 3 --output o")
    assert proposed(found, words) == f"trtw quantize m.onnx --calibration d --to int8 --keep {shlex.quote(PLANTED)}"
    assert proposed(found, ["pytest"]) == ""
    assert brings(found) == (
        f"As quantize makes it: 10.0 dB; with {PLANTED} in fp32, too (10 % of the arithmetic): 20.0 dB."
    )
    many = found.model_copy(update={"advised": [*"abcde"]})
    assert "; with a, b, c and 2 more in fp32, too (" in brings(many)
    assert "1 other group stays in fp32 anyway: quantize keeps last layer." in answer(found).said
    assert "One group causes 50 % of the noise of int8, with 10 % of the arithmetic." in answer(found).said
    nothing = found.model_copy(update={"advised": [], "kept": 0.1})
    assert proposed(nothing, words) == ""
    assert brings(nothing) == "As quantize makes it: 10.0 dB; keeping its noisiest groups in fp32 is no gain."
