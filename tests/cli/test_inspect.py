"""`trtw inspect` on models and folders; of plans, in tests/cli/engines/test_plans.py."""

import json
import struct
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnx
import pytest
from tests.copies import copied
from tests.in_app import json_of, trtw
from tests.onnx_text import write_onnx
from tests.texts import held
from typer.testing import Result

from trt_workbench.engine import native
from trt_workbench.model.opened import sha256_of

MODELS = Path(__file__).parents[2] / "models"
QUANTISED = """g (float[N,4] x) => (float[N,2] y, float[found] z) {
    q = QuantizeLinear(x, scale, zero)
    d = DequantizeLinear(q, scale, zero)
    v = DequantizeLinear(w, scale, zero)
    y = MatMul(d, v)
    [odd] z = Unique(y)
}"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Quantised weights in a file of their own."""
    weights = {"w": np.ones((4, 2), np.int8), "scale": np.array(0.5, np.float32), "zero": np.array(0, np.int8)}
    path = write_onnx(tmp_path / "q.onnx", QUANTISED, weights)
    loaded = onnx.load(path)
    loaded.producer_name, loaded.producer_version = "a [test]", "1.2"
    onnx.save(loaded, path, save_as_external_data=True, location="q.data", size_threshold=1)
    return path


def inspect(*words: object) -> Result:
    return trtw("inspect", *words)


def document(*words: object) -> dict[str, Any]:
    shown = inspect(*words, "--json")
    assert shown.exit_code == 0, shown.output
    found: dict[str, Any] = json.loads(shown.stdout)
    return found


def test_a_model_is_told_whole(model: Path) -> None:
    found = document(model)
    assert (found["opset"], found["ir_version"], found["producer"]) == (17, 9, "a [test] 1.2")
    assert found["sha256"] == sha256_of(model)
    assert found["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["N", 4]}]
    assert [tensor["name"] for tensor in found["outputs"]] == ["y", "z"]
    assert found["operators"] == {"DequantizeLinear": 2, "MatMul": 1, "QuantizeLinear": 1, "Unique": 1}
    assert found["nodes"] == 5
    assert found["quantizers"] == {"DequantizeLinear": 2, "QuantizeLinear": 1}
    assert (found["precision"]["label"], found["precision"]["unit"]) == ("int8", "arithmetic nodes")
    assert found["parameters"] == 8 + 1 + 1
    (external,) = found["external_files"]
    assert external == {"file": "q.data", "size_bytes": (model.parent / "q.data").stat().st_size}
    assert found["size_bytes"] == model.stat().st_size + external["size_bytes"]
    assert found["detector"]["family"] is None
    assert found["detector"]["reason"]


def test_a_family_that_is_not_certain_is_named_to_the_commands_that_ask_for_it(tmp_path: Path) -> None:
    text = "g (float[N,3,32,32] images) => (float[N,3,32] y) { y = ReduceMax <keepdims = 0, axes = [3]> (images) }"
    reason = json_of("inspect", write_onnx(tmp_path / "m.onnx", text))["detector"]["reason"]
    assert "The detector family of the model is not certain" in reason
    assert "eval-coco and predict take --family, one of yolov10, yolov8" in reason
    assert "Pass --family" not in reason


def test_what_a_classifier_is_takes_three_lines_at_80_columns(tmp_path: Path) -> None:
    """It was fifteen lines on what it is not, and a size of 0.0 MiB."""
    text = "g (float[N,3,32,32] x) => (float[N,3] logits) { a = GlobalAveragePool(x) logits = Flatten(a) }"
    lines = inspect(write_onnx(tmp_path / "m.onnx", text)).stdout.split("\n")
    begin = next(number for number, line in enumerate(lines) if line.startswith(" family"))
    end = next(number for number, line in enumerate(lines) if line.startswith(" precision"))
    assert end - begin <= 4
    assert "fits --family classifier" in " ".join(" ".join(lines[begin:end]).split())
    assert any(line.split()[::2] == ["size", "B"] for line in lines)


def test_a_file_that_is_no_model_is_not_taken_for_an_engine(tmp_path: Path) -> None:
    """It once was 'executable code', to be loaded with --trust."""
    np.save(tmp_path / "x.npy", np.zeros(3))
    shown = inspect(tmp_path / "x.npy")
    assert shown.exit_code == 2
    assert "no TensorRT engine: it is a NumPy array" in shown.output
    (tmp_path / "x.plan").write_bytes(b"unknown to all,\0as the next release's may be")
    assert "has no manifest" in inspect(tmp_path / "x.plan").output


def test_people_read_the_same(model: Path) -> None:
    shown = inspect(model).stdout
    for text in ("a [test] 1.2", "[N, 4]", "2 DequantizeLinear, 1 QuantizeLinear", "Unique"):
        assert text in shown


def said(path: Path) -> str:
    """What `inspect` prints last, of TensorRT."""
    return inspect(path).stdout.splitlines()[-1]


@pytest.fixture
def lacking(tmp_path: Path) -> Path:
    """Bernoulli and two Unique, one in a branch of a function, which is no operator itself, as a parser inlines it."""
    text = """<ir_version: 9, opset_import: ["": 17, "own": 1, "trt": 1]>
    g (bool c, float[2] x) => (float[2] y) { b = Bernoulli(x) u = Unique(b) w = trt.Exp(u) y = own.pick(c, w) }
    <domain: "own", opset_import: ["": 17]>
    pick (c, x) => (y) {
        y = If(c) <then_branch = t () => (float[2] a) { a = Unique(x) },
                   else_branch = e () => (float[2] b) { b = Neg(x) }>
    }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "lacking.onnx")
    return tmp_path / "lacking.onnx"


@pytest.mark.usefixtures("doubled_core")
def test_the_parser_that_is_installed_says_what_it_lacks(lacking: Path) -> None:
    """Its release decides: a table of one release once answered for every other."""
    version = native.load_tensorrt()["version"]
    refused = {"Bernoulli": 1, "Unique": 2}
    assert document(lacking)["tensorrt"] == {"version": version, "refused": refused, "reason": None}
    held(said(lacking))
    assert document("shapes-yolov10")["tensorrt"] == {"version": version, "refused": {}, "reason": None}
    held(said(MODELS / "shapes-yolov10" / "shapes-yolov10.onnx"))


@pytest.mark.usefixtures("doubled_core")
@pytest.mark.parametrize("missing", ["native core", "GPU"])
def test_where_no_parser_can_be_asked_nothing_is_said_of_operators(
    missing: str, lacking: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing == "GPU":
        failing = native.native().DeviceFailure("No GPU can be used.")
        monkeypatch.setattr(native.native(), "unsupported_operators", Mock(side_effect=failing))
    else:
        monkeypatch.setitem(sys.modules, native.MODULE, None)
        native.native.cache_clear()
    found = document(lacking)["tensorrt"]
    assert (found["version"], found["refused"]) == (None, {})
    assert missing in found["reason"]
    held(said(lacking))


def test_a_detector_is_recognised_as_eval_coco_does() -> None:
    found = document("shapes-yolov10")
    assert found["model"] == str(MODELS / "shapes-yolov10" / "shapes-yolov10.onnx")
    detector = found["detector"]
    assert (detector["family"], detector["classes"], detector["input_size"]) == ("yolov10", 8, [320, 320])
    assert len(detector["names"]) == 8
    assert "yolov10, 8 classes with names, input 320x320" in inspect("shapes-yolov10").stdout


def test_nodes_of_functions_and_of_their_branches_are_counted(lacking: Path) -> None:
    found = document(lacking)
    assert (found["nodes"], found["operators"]["Unique"], found["operators"]["own::pick"]) == (7, 2, 1)


def test_the_folder_of_a_language_model_is_told(tmp_path: Path) -> None:
    found = document("tiny-lm")
    config = json.loads((MODELS / "tiny-lm" / "config.json").read_text())
    assert found["architecture"] == config["model_type"]
    assert (found["layers"], found["vocabulary"]) == (config["num_hidden_layers"], config["vocab_size"])
    # all of the file but its header is numbers of four bytes
    (weights,) = found["weights"]
    with (MODELS / "tiny-lm" / "model.safetensors").open("rb") as file:
        header = 8 + struct.unpack("<Q", file.read(8))[0]
    assert found["parameters_by_type"] == {"F32": (weights["size_bytes"] - header) // 4}
    assert f"{found['parameters']:,}" in inspect("tiny-lm").stdout

    copied(MODELS / "tiny-lm", tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"\x10" + bytes(7) + b'{"a": {"shape": ')
    refused = inspect(tmp_path / "broken")
    assert refused.exit_code == 2
    assert "header of the weights is damaged" in refused.stderr


@pytest.mark.parametrize("option", ["--trust", "--manifest-only", "--allow-host-code", "--device=0"])
def test_what_is_for_engines_is_refused_on_a_model(model: Path, option: str) -> None:
    refused = inspect(model, option)
    assert refused.exit_code == 2
    assert f"{option.partition('=')[0]} is for engines" in refused.stderr
