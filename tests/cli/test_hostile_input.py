"""Input that was made to break something: one paragraph and exit code 2, no crash, no hang, no traceback."""

import json
import os
import struct
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.cli.hostile import model, refused
from tests.in_app import trtw

pytestmark = pytest.mark.usefixtures("forked_python")


def divided(operator: str, dividend: int, divisor: int, kind: type[np.signedinteger[Any]]) -> onnx.ModelProto:
    """The division is of constants that other nodes make."""
    tensors = [
        numpy_helper.from_array(np.array([value], kind), name)
        for name, value in (("a", dividend), ("b", divisor), ("zero", 0))
    ]
    nodes = [
        helper.make_node("Add", ["b", "zero"], ["c"]),
        helper.make_node(operator, ["a", "c"], ["d"]),
        helper.make_node("Cast", ["d"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "f"], ["y"]),
    ]
    return model(nodes=nodes, tensors=tensors)


def with_type(number: int) -> bytes:
    made = model()
    made.graph.input[0].type.tensor_type.elem_type = number
    return made.SerializeToString()


def with_values(count: int) -> bytes:
    made = model()
    made.graph.initializer[0].raw_data = bytes(4 * count)
    return made.SerializeToString()


def recursive() -> bytes:
    sets = [helper.make_opsetid("own", 1), helper.make_opsetid("", 17)]
    call = helper.make_node("F", ["a"], ["b"], domain="own")
    made = model(
        nodes=[helper.make_node("F", ["x"], ["y"], domain="own")],
        functions=[helper.make_function("own", "F", ["a"], ["b"], [call], sets)],
    )
    made.opset_import.extend(sets[:1])
    return made.SerializeToString()


def of_no_function() -> bytes:
    node = helper.make_node("Softmax", ["x"], ["y"], axis=-1)
    node.attribute[0].ref_attr_name = "axis"
    return model(nodes=[node]).SerializeToString()


def without_operator_set() -> bytes:
    made = model()
    del made.opset_import[:]
    return made.SerializeToString()


def outside(location: str) -> bytes:
    made = model()
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return made.SerializeToString()


def shaped(dims: Iterable[int]) -> bytes:
    return model(inputs=[helper.make_tensor_value_info("x", TensorProto.FLOAT, list(dims))]).SerializeToString()


def with_text(text: bytes) -> bytes:
    tensor = helper.make_tensor("w", TensorProto.STRING, [1], [text])
    return model(tensors=[numpy_helper.from_array(np.ones(2, np.float32), "one"), tensor]).SerializeToString()


def text_output() -> bytes:
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.STRING)]
    return model(nodes=nodes, outputs=[helper.make_tensor_value_info("y", TensorProto.STRING, [2])]).SerializeToString()


MODELS: dict[str, Callable[[], bytes]] = {
    "no such type": lambda: with_type(99),
    "too few values": lambda: with_values(1),
    "too many values": lambda: with_values(3),
    "text that is no text": lambda: with_text(b"\xff\xfe"),
    "no text": lambda: model().SerializeToString().replace(b"\x01y", b"\x01\xff"),
    "NUL in a location": lambda: outside("a\0b"),
    "a function of itself": recursive,
    "an attribute of no function": of_no_function,
    "no operator set": without_operator_set,
    "65 dimensions": lambda: shaped([1] * 65),
    "more than any memory": lambda: shaped([2**40, 2**40]),
    "division that traps": lambda: divided("Div", -(2**31), -1, np.int32).SerializeToString(),
    "remainder that traps": lambda: divided("Mod", -(2**63), -1, np.int64).SerializeToString(),
}


COMMANDS = {
    "infer-engine": ("--backend", "ort-cpu", "--duration", "0", "--warmup", "0", "--iterations", "1"),
    "profile": ("--backend", "ort-cpu", "--iterations", "1"),
    "partitions": ("--backend", "ort-cpu"),
    "sanitize-onnx": ("-o", "OUT"),
    "quantize": ("--to", "int8", "--calibration", "random", "-o", "OUT"),
    "sensitivity": ("--to", "int8", "--calibration", "random", "--output", "OUT"),
    "build-engine": ("--dry-run",),
    "check-target": ("--gpu", "sm120"),
    "upgrade": ("--to", ".", "--backend", "ort-cpu"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", MODELS)
def test_models_that_cannot_be(name: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "tmp"))
    path = tmp_path / "m.onnx"
    path.write_bytes(MODELS[name]())
    words = [str(tmp_path / "out.onnx") if word == "OUT" else word for word in COMMANDS[command]]
    assert str(path) in refused(command, path, *words)


@pytest.mark.parametrize(("dividend", "divisor"), [(-(2**31), 3), (7, -1), (-(2**31) + 1, -1)])
def test_other_divisions_of_constants_are_taken(dividend: int, divisor: int, tmp_path: Path) -> None:
    onnx.save(divided("Div", dividend, divisor, np.int32), tmp_path / "m.onnx")
    words = ("--backend", "ort-cpu", "--duration", "0", "--output", tmp_path / "run")
    assert trtw("infer-engine", tmp_path / "m.onnx", *words).exit_code == 0


def test_text_outputs_are_refused(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(text_output())
    refused(
        "infer-engine", tmp_path / "m.onnx", "--backend", "ort-cpu", "--output", tmp_path / "run", text="only numbers"
    )


SPECIAL: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "ring": lambda path: path.symlink_to(path.name),
}


READ = {
    "contract": ("check-contract", "it.json", "sound.onnx", "--backend", "ort-cpu"),
    "contract-model": ("make-contract", "it.onnx", "-o", "made.json"),
    "stream": ("eval-stream", "--backend", "ort-cpu", "--input", "it.npy"),
    "stream-audio": ("eval-stream", "--backend", "ort-cpu", "--input", "it.wav"),
    "stream-contract": ("eval-stream", "sound.onnx", "--contract", "it.json"),
    "model": ("infer-engine", "it.onnx", "--backend", "ort-cpu"),
    "model-partitions": ("partitions", "it.onnx", "--backend", "ort-cpu"),
    "model-inspect": ("inspect", "it.onnx"),
    "model-sanitize": ("sanitize-onnx", "it.onnx", "-o", "made.onnx"),
    "model-decide": ("decide", "it.onnx", "--data", "."),
    "model-quantize": ("quantize", "it.onnx", "--to", "int8", "--calibration", "random", "-o", "made.onnx"),
    "array": ("infer-engine", "sound.onnx", "--backend", "ort-cpu", "--input", "it.npy"),
    "archive": ("infer-engine", "sound.onnx", "--backend", "ort-cpu", "--input", "it.npz"),
    "plan": ("inspect", "it.plan"),
    "settings": ("bench", "it.yaml", "--dry-run"),
    "build-settings": ("build-engine", "sound.onnx", "--config", "it.yaml", "--dry-run"),
    "annotations": ("eval-coco", "sound.onnx", "--data", ".", "--annotations", "it.json"),
    "run": ("report", "folder"),
    "llm": ("eval-llm", "folder"),
    "llm-inspect": ("inspect", "folder"),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("special", SPECIAL)
@pytest.mark.parametrize("kind", READ)
def test_only_regular_files_are_read(kind: str, special: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "tmp"))
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    onnx.save(model(), "sound.onnx")
    for suffix in ("onnx", "npy", "npz", "plan", "yaml", "json", "wav"):
        SPECIAL[special](Path(f"it.{suffix}"))
    for name in ("run", "config"):
        SPECIAL[special](Path(f"folder/{name}.json"))
    refused(*READ[kind])


def refused_input(folder: Path, name: str, text: str) -> None:
    """An array beside a sound model is refused."""
    onnx.save(model(), folder / "m.onnx")
    words = ("infer-engine", folder / "m.onnx", "--backend", "ort-cpu", "-i", folder / name)
    refused(*words, "--output", folder / "run", text=text)


def npy(descr: str, shape: str, data: bytes = b"") -> bytes:
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data


@pytest.mark.parametrize(
    "content",
    [
        npy("<f4", "(1000000000000,)"),
        npy("|O", "(2,)", bytes(16)),
        npy("<f4", f"({'1,' * 70})", bytes(4)),
        npy("<f4", "(-2,)"),
    ],
    ids=["more than is there", "objects", "70 dimensions", "negative"],
)
def test_headers_of_arrays_are_not_believed(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    refused_input(tmp_path, "x.npy", "x.npy")


@pytest.mark.long
def test_an_archive_that_unpacks_to_much_more_is_refused(tmp_path: Path) -> None:
    packed = zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with packed, packed.open("x.npy", "w", force_zip64=True) as file:
        file.write(npy("<f4", f"({2**28 + 1},)"))
        for _ in range(65):
            file.write(bytes(2**24))
    refused_input(tmp_path, "x.npz", "compressed")


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    [
        "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)),
        "title: 2020-13-45\n",
        "seed: 0x_\n",
        f"seed: {'1' * 5000}\n",
        "a: &a [*a]\n",
        "seed: " + "[" * 5000,
        "x" * 2_000_000,
    ],
    ids=["laughs", "date", "hexadecimal", "digits", "ring", "deep", "long"],
)
@pytest.mark.parametrize("command", ["bench", "build-engine"])
def test_settings_that_cannot_be(command: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(text)
    onnx.save(model(), tmp_path / "m.onnx")
    words = {"bench": [tmp_path / "s.yaml"], "build-engine": [tmp_path / "m.onnx", "--config", tmp_path / "s.yaml"]}
    refused(command, *words[command], "--dry-run", text="s.yaml")


@pytest.mark.parametrize(
    "words",
    [
        ["infer-engine", "m.onnx", "--seed", "-1"],
        ["infer-engine", "m.onnx", "--seed", "99999999999"],
        ["infer-engine", "m.onnx", "--duration", "inf"],
        ["infer-engine", "m.onnx", "--duration", "nan"],
        ["infer-engine", "m.onnx", "--shape", "x:²x3"],
        ["infer-engine", "m.onnx", "--shape", "x:" + "9" * 5000],
        ["sanitize-onnx", "m.onnx", "-o", "n.onnx", "--dim", f"N={2**63}"],
        ["sanitize-onnx", "m.onnx", "-o", "n.onnx", "--dim", "N=²"],
        ["sanitize-onnx", "m.onnx", "-o", "n.onnx", "--size", "N=" + "1" * 5000],
        ["eval-coco", "--imgsz", "²"],
        ["eval-llm", "--prompt", "9" * 5000],
        ["eval-stream", "--chunks", "9" * 10],
        ["eval-stream", "--chunk", "99999999"],
        ["eval-stream", "--streams", "1,99999999"],
        ["eval-stream", "--streams", "1", "--hop-ms", "nan"],
        ["eval-stream", "--streams", "1", "--seconds", "-1"],
        ["infer-engine", "m.onnx", "--option", "a=" + "[" * 100_000],
    ],
    ids=str,
)
def test_numbers_that_no_option_takes(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "tmp"))
    monkeypatch.chdir(tmp_path)
    onnx.save(model(), "m.onnx")
    refused(*words)


@pytest.mark.parametrize(
    "more",
    [{}, *({"sides": {"target": {key: value}}} for key, value in [("own_ms", "x"), ("own_interval_ms", 1)])],
    ids=str,
)
def test_an_earlier_profile_that_was_changed(more: dict[str, Any], tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "m.onnx")
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text(json.dumps({"schema_version": 1, "command": "profile", **more}))
    (run / "records.jsonl").touch()
    (run / "env.json").write_text(json.dumps({"schema_version": 1}))
    refused("profile", tmp_path / "m.onnx", "--backend", "ort-cpu", "--against", run, text=str(run))


def test_a_deeply_nested_run_directory(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"a":' * 100_000)
    refused("report", tmp_path, text="nested too deeply")


def test_a_deeply_nested_language_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[" * 100_000)
    refused("eval-llm", tmp_path, text="nested too deeply")


def test_outputs_replace_no_device(tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "m.onnx")
    os.mkfifo(tmp_path / "pipe")
    refused("sanitize-onnx", tmp_path / "m.onnx", "-o", tmp_path / "pipe", text="a pipe, not a regular file")
    assert (tmp_path / "pipe").is_fifo()
    refused("sanitize-onnx", tmp_path / "m.onnx", "-o", "/dev/null", text="a device, not a regular file")
    os.mkfifo(tmp_path / "p.onnx")
    words = ("--to", "int8", "--calibration", "random", "-o", tmp_path / "p.onnx")
    refused("quantize", tmp_path / "m.onnx", *words, text="a pipe, not a regular file")


def test_messages_are_one_printable_line_of_bounded_length(tmp_path: Path) -> None:
    name = "\x1b[31m" + "x" * 50_000 + "\x1b\u202e"
    made = model(nodes=[helper.make_node("Add", ["x", name], ["y"], name=name)])
    onnx.save(made, tmp_path / "m.onnx")
    said = refused("infer-engine", tmp_path / "m.onnx", "--backend", "ort-cpu", "--output", tmp_path / "run")
    assert said.isprintable()
    assert len(said) < 8000
    assert said.endswith(str(tmp_path / "m.onnx"))
