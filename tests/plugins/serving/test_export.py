"""What export-triton writes of manifests and models, and what it refuses; parsed by Triton's own protocol buffers."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.in_app import json_of, stderr_of, stdout_of
from tests.onnx_text import write_onnx
from tests.plugins.serving.plans import INPUTS, PROFILE, plan
from tests.texts import held, refused
from tests.unit.backends.small_models import linear
from tests.v2_server import V2Server

from trt_workbench.core.errors import ComponentMissing
from trt_workbench.core.workspace import models_dir
from trt_workbench.engine.manifest import Tensor, WorkaroundRecord
from trt_workbench_serving.steps import make_step

model_config_pb2 = pytest.importorskip("tritonclient.grpc.model_config_pb2")
text_format = pytest.importorskip("google.protobuf.text_format")
json_format = pytest.importorskip("google.protobuf.json_format")
pytestmark = pytest.mark.readers

DETECTOR = models_dir() / "shapes-yolov10" / "shapes-yolov10.onnx"


def exported(tmp_path: Path, *words: object) -> dict[str, Any]:
    """Run the command and return the first model's configuration as Triton reads it."""
    found = json_of("export-triton", *words, "-o", tmp_path / "repository")
    return read(tmp_path / "repository" / found["models"][0]["name"])


def read(model: Path) -> dict[str, Any]:
    message = text_format.Parse((model / "config.pbtxt").read_text(), model_config_pb2.ModelConfig())
    found: dict[str, Any] = json_format.MessageToDict(message, preserving_proto_field_name=True)
    return found


def test_a_plan_is_served_as_its_manifest_says(tmp_path: Path) -> None:
    found = exported(tmp_path, plan(tmp_path / "det.plan"), "--server-tensorrt", "10.16.1")
    image = {"data_type": "TYPE_FP32", "dims": ["3", "640", "320"], "random_data": True}
    assert found.pop("parameters").keys() == {
        "trtw.version", "trtw.model_sha256", "trtw.tensorrt_version", "trtw.engine_sha256.9.0",
    }  # fmt: skip
    assert found == {
        "name": "det",
        "backend": "tensorrt",
        "default_model_filename": "model.plan",
        "max_batch_size": 12,
        "input": [{"name": "images", "data_type": "TYPE_FP32", "dims": ["3", "-1", "320"]}],
        "output": [{"name": "output0", "data_type": "TYPE_FP16", "dims": ["300", "6"]}],
        "instance_group": [{"count": 1, "kind": "KIND_GPU"}],
        "dynamic_batching": {"max_queue_delay_microseconds": "100"},
        "model_warmup": [
            {"name": "batch of 1", "batch_size": 1, "inputs": {"images": image}},
            {"name": "batch of 12", "batch_size": 12, "inputs": {"images": image}},
        ],
    }
    assert (tmp_path / "repository" / "det" / "1" / "model.plan").read_bytes() == b"plan for 9.0"


def test_settings_of_batches_and_warm_up(tmp_path: Path) -> None:
    words = ("--max-batch", 8, "--no-warmup")
    found = exported(tmp_path, plan(tmp_path / "p.plan"), "--name", "mine", *words)
    assert (found["name"], found["max_batch_size"], "model_warmup" in found) == ("mine", 8, False)
    assert (tmp_path / "repository" / "mine" / "1" / "model.plan").is_file()


def test_plans_for_several_gpu_types_are_one_model(tmp_path: Path) -> None:
    plans = [plan(tmp_path / f"{name}.plan", capability) for name, capability in (("h", "9.0"), ("b", "12.0"))]
    found = exported(tmp_path, *plans)
    assert found["cc_model_filenames"] == {"9.0": "model-sm90.plan", "12.0": "model-sm120.plan"}
    files = {path.name: path.read_bytes() for path in (tmp_path / "repository" / "h" / "1").iterdir()}
    assert files == {"model-sm90.plan": b"plan for 9.0", "model-sm120.plan": b"plan for 12.0"}


def test_several_profiles_and_values_that_decide_shapes(tmp_path: Path) -> None:
    sizes = Tensor(name="size", dtype="int64", shape=(2,))
    changes = {"inputs": (*INPUTS, sizes), "profiles": (f"{PROFILE},size=8x8/16x16/32x32", PROFILE)}
    found = exported(tmp_path, plan(tmp_path / "p.plan", **changes), "--no-warmup")
    assert (found.get("max_batch_size"), "dynamic_batching" in found) == (None, False)  # size has no batch
    assert found["input"][0]["dims"] == ["-1", "3", "-1", "320"]
    assert found["input"][1] == {"name": "size", "data_type": "TYPE_INT64", "dims": ["2"], "is_shape_tensor": True}
    assert found["instance_group"][0]["profile"] == ["0", "1"]


def test_a_workaround_that_splits_batches_bounds_them(tmp_path: Path) -> None:
    way = WorkaroundRecord(
        name="w", model_sha256="aa", verdict="right", latency_ms=1.0, plain_latency_ms=None, rows=4
    )  # fmt: skip
    assert exported(tmp_path, plan(tmp_path / "p.plan", way_around=way))["max_batch_size"] == 4


def test_a_model_with_external_data_keeps_it(tmp_path: Path) -> None:
    weights = {"w": np.ones((4, 300), np.float32)}
    model = write_onnx(tmp_path / "m.onnx", "g (float[n,4] x) => (float[n,300] y) { y = MatMul(x, w) }", weights)
    onnx.save(onnx.load(model), model, save_as_external_data=True, location="m.data", size_threshold=0)
    found = exported(tmp_path, model)
    assert (found["backend"], found["default_model_filename"], found["max_batch_size"]) == (
        "onnxruntime", "model.onnx", 16,
    )  # fmt: skip
    folder = tmp_path / "repository" / "m" / "1" / "model.onnx"
    assert sorted(path.name for path in folder.iterdir()) == ["m.data", "model.onnx"]
    assert found["instance_group"] == [{"count": 1}]  # Triton's own choice of the device


def test_the_client_asks_a_server(tmp_path: Path) -> None:
    """By tritonclient, of a server of the same protocol."""
    pytest.importorskip("tritonclient.http")
    model = linear(tmp_path / "linear.onnx")
    client = json_of("export-triton", model, "-o", tmp_path / "repository")["client"]
    with V2Server(model).running() as url:
        command = [sys.executable, client, url.removeprefix("http://")]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "y (1, 3)\n"


def test_a_model_for_the_python_backend_has_its_step(tmp_path: Path) -> None:
    found = exported(tmp_path, DETECTOR, "--python", "--max-batch", 8, "--name", "d")
    assert (found["backend"], found["instance_group"], found["max_batch_size"]) == (
        "python", [{"count": 1, "kind": "KIND_CPU"}], 8,
    )  # fmt: skip
    folder = tmp_path / "repository" / "d" / "1"
    assert (folder / "model.onnx").read_bytes() == DETECTOR.read_bytes()
    compile((folder / "model.py").read_text(), "model.py", "exec")
    step = make_step({key: one["string_value"] for key, one in found["parameters"].items()}, str(folder))
    images = [np.zeros((rows, 3, 320, 320), np.float32) for rows in (1, 2)]
    assert [one["output0"].shape[0] for one in step([{"images": each} for each in images])] == [1, 2]


def test_a_step_of_another_version_refuses_to_run(tmp_path: Path) -> None:
    with refused(ComponentMissing):
        make_step({"trtw.version": "9.9", "trtw.model_sha256": "0"}, str(tmp_path))


def test_it_replaces_what_it_wrote_and_nothing_else(tmp_path: Path) -> None:
    path = plan(tmp_path / "p.plan")
    repository = tmp_path / "repository"
    words = ("export-triton", path, "-o", repository)
    stdout_of(*words)
    first = (repository / "p" / "config.pbtxt").read_text()
    stdout_of(*words, "--no-warmup")
    assert (repository / "p" / "config.pbtxt").read_text() != first
    (repository / "p" / "config.pbtxt").write_text(first + "# mine\n")
    held(stderr_of(*words))
    assert (repository / "p" / "config.pbtxt").read_text().endswith("# mine\n")
    (repository / "mine").mkdir()
    held(stderr_of(*words, "--name", "mine"))
    assert list((repository / "mine").iterdir()) == []
    assert sorted(one.name for one in repository.iterdir()) == ["client_p.py", "mine", "p"]
    (repository / "client_q.py").write_text("mine")
    held(stderr_of(*words, "--name", "q"))
    assert (repository / "client_q.py").read_text() == "mine"
    assert not (repository / "q").exists()


def test_the_server_has_the_tensorrt_of_the_plan(tmp_path: Path) -> None:
    path = plan(tmp_path / "p.plan")
    (tmp_path / "lib").mkdir()
    words = ("export-triton", path, "-o", tmp_path / "repository", "--server-tensorrt")
    held(stderr_of(*words, "10.13.3"))
    held(stderr_of(*words, "10"))
    held(stderr_of(*words, tmp_path / "lib"))
    (tmp_path / "lib" / "libnvinfer.so.10.13.2").touch()
    held(stderr_of(*words, tmp_path / "lib"))
    (tmp_path / "lib" / "libnvinfer.so.10.13.2").rename(tmp_path / "lib" / "libnvinfer.so.10.16.1")
    assert "not checked" not in stdout_of(*words, tmp_path / "lib")
    assert "It was not checked" in " ".join(stdout_of(*words[:-1]).split())
    compatible = plan(tmp_path / "v.plan", options={"version_compatible": True})
    printed = stdout_of("export-triton", compatible, "-o", tmp_path / "repository", "--server-tensorrt", "10.13.3")
    assert "version-compatible=true" in " ".join(printed.split())


def test_what_cannot_be_served_is_refused(tmp_path: Path) -> None:
    def said(*words: object, code: int = 2) -> str:
        return stderr_of("export-triton", *words, "-o", tmp_path / "repository", code=code).splitlines()[-1]

    good = plan(tmp_path / "good.plan")
    wrong = plan(tmp_path / "wrong.plan", verdict="wrong")
    held(
        said(tmp_path / "absent.plan"),
        said(wrong, code=1),
        said(plan(tmp_path / "unverified.plan", verification=None), code=1),
        said(plan(tmp_path / "linear.plan", options={"io_formats": ["x:chw32"]})),
        said(good, plan(tmp_path / "again.plan")),
        said(good, plan(tmp_path / "other.plan", "12.0", tensorrt_version="10.13.3")),
        said(good, "--max-batch", 13),
        said(good, "--python"),
        said(good, "--name", "a/b"),
        said(DETECTOR, good),
        said(
            plan(tmp_path / "fixed.plan", inputs=(Tensor(name="x", dtype="float32", shape=(1, 3)),)), "--max-batch", 2
        ),
        said(plan(tmp_path / "int4.plan", inputs=(Tensor(name="x", dtype="int4", shape=(-1, 3)),))),
    )
    assert not (tmp_path / "repository").exists()
    assert "--allow-unverified" in stderr_of(
        "export-triton", wrong, "-o", tmp_path / "repository", "--allow-unverified", code=0
    )
    assert json.loads((tmp_path / "repository" / "wrong" / "export-triton.json").read_text())["schema_version"] == 1


def test_batches_are_those_that_every_input_of_a_profile_takes(tmp_path: Path) -> None:
    """As the server counts them: of a profile the input that takes least, of all profiles the one that takes most."""
    sizes = Tensor(name="sizes", dtype="float32", shape=(-1, 2))
    profiles = (
        f"{PROFILE},sizes:1x2/4x2/8x2",
        PROFILE.replace("1x3", "2x3").replace("12x", "6x") + ",sizes:2x2/4x2/20x2",
    )
    found = exported(tmp_path, plan(tmp_path / "p.plan", inputs=(*INPUTS, sizes), profiles=profiles))
    assert found["max_batch_size"] == 8


def test_every_profile_is_warmed_up_at_its_own_shapes(tmp_path: Path) -> None:
    profiles = ("images:1x3x320x320/2x3x320x320/4x3x320x320", "images:8x3x640x320/8x3x640x320/16x3x640x320")
    path = plan(tmp_path / "p.plan", profiles=profiles)
    found = exported(tmp_path, path)
    warm = [(one["batch_size"], one["inputs"]["images"]["dims"][1]) for one in found["model_warmup"]]
    assert warm == [(1, "320"), (16, "640")]
    assert found["instance_group"][0]["profile"] == ["0", "1"]
    held(" ".join(json_of("export-triton", path, "-o", tmp_path / "repository")["notes"][1:]))


@pytest.mark.parametrize(
    ("shape", "warm"), [("n,3,h,w", False), ("n,3,8,8", True), ("1,3,h,8", False), ("1,3,8,8", True)]
)
def test_sizes_that_nothing_says_are_not_warmed_up(tmp_path: Path, shape: str, *, warm: bool) -> None:
    """An image of 1 by 1 is none that a detector takes: the warm-up would fail."""
    model = write_onnx(tmp_path / "m.onnx", f"g (float[{shape}] images) => (float[{shape}] y) {{ y = Relu(images) }}")
    assert ("model_warmup" in exported(tmp_path, model)) == warm
    said = json_of("export-triton", model, "-o", tmp_path / "repository")["notes"]
    note = "There is no warm-up: nothing says which sizes the server will see of images."
    assert (note in said) == (not warm)
    assert note not in json_of("export-triton", model, "-o", tmp_path / "repository", "--no-warmup")["notes"]


def test_a_plan_that_takes_no_single_rows_is_warmed_up_by_what_it_takes(tmp_path: Path) -> None:
    path = plan(tmp_path / "p.plan", profiles=("images:4x3x320x320/8x3x320x320/8x3x320x320",))
    found = exported(tmp_path, path)
    assert [one["batch_size"] for one in found["model_warmup"]] == [4, 8]
    held(" ".join(json_of("export-triton", path, "-o", tmp_path / "repository")["notes"][1:]))


COLLECTED = """g (float[N, 3] x) => (float[K, 4] boxes)
<float half = {0.5}, int64[1] one = {1}, float[1, 4] side = {0, 0, 9, 9}> {
    m = ReduceMax <axes = [1], keepdims = 0> (x)
    b = Greater(m, half)
    s = Compress <axis = 0> (m, b)
    u = Unsqueeze(s, one)
    boxes = Add(u, side)
}"""
MEAN = """g (float[N, 3] x) => (float[N, 3] y) {
    m = ReduceMean <axes = [0], keepdims = 1> (x)
    y = Sub(x, m)
}"""
APART = "g (float[N, 3] x) => (float[N, 3] y) { y = Softmax <axis = 1> (x) }"


@pytest.mark.parametrize("text", [COLLECTED, MEAN])
def test_a_model_that_mixes_the_rows_of_a_batch_gets_none(text: str, tmp_path: Path) -> None:
    """Two images of which one has no object, and a row from which the mean of the batch is taken."""
    model = write_onnx(tmp_path / "mixed.onnx", text)
    found = exported(tmp_path, model)
    assert "max_batch_size" not in found
    assert "dynamic_batching" not in found
    held(stderr_of("export-triton", model, "-o", tmp_path / "repository", "--max-batch", 4, code=2))


def test_a_model_that_keeps_rows_apart_is_batched(tmp_path: Path) -> None:
    found = exported(tmp_path, write_onnx(tmp_path / "apart.onnx", APART))
    assert found["max_batch_size"] == 16
    assert found["dynamic_batching"]


def test_what_tritonclient_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It imports rapidjson, and raises RuntimeError where that is absent."""
    for name in [name for name in sys.modules if name.split(".")[0] == "tritonclient"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rapidjson", None)
    model = write_onnx(tmp_path / "m.onnx", APART)
    said = stderr_of("export-triton", model, "-o", tmp_path / "repository", code=3)
    assert "tritonclient, which cannot be imported" in said
    assert "rapidjson" in said
    asked = stderr_of("verify", model, "--backend", "v2", "--url", "grpc://127.0.0.1:1", code=3)
    assert "Backend v2 needs tritonclient, which cannot be imported" in asked
    assert "rapidjson" in asked
