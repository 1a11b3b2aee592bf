from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trt_nets import Engines, integers, linear, linear_answer

Plans = Callable[[str], bytes]

# In a process of its own: damaged bytes must not be able to take the other tests along.
LOAD_EDITED = """
import json, sys
from pathlib import Path
import trt_workbench_native as native
plan = Path(sys.argv[1]).read_bytes()
native.load_tensorrt()
found = {}
for offset in range(int(sys.argv[2])):
    edited = bytearray(plan)
    edited[offset] ^= 0xFF
    try:
        native.Engine(bytes(edited))
        found[offset] = "loaded"
    except native.NativeError as error:
        found[offset] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""
HEADER_BYTES = 32


def test_tensors_are_described(native: Any, plans: Plans) -> None:
    engine = native.Engine(plans("dynamic"))
    (x,), (y,) = engine.inputs, engine.outputs
    assert (x.name, x.dtype, x.shape, x.is_input) == ("x", "float32", (-1, 16), True)
    assert x.profiles == (((1, 16), (4, 16), (8, 16)), ((9, 16), (32, 16), (64, 16)))
    assert (y.name, y.shape, y.is_input, y.profiles) == ("y", (-1, 5), False, ())
    assert x.location == y.location == "device"
    assert x.is_linear
    assert x.format
    assert [tensor.name for tensor in engine.tensors] == ["x", "y"]
    assert engine.num_profiles == 2
    assert engine.num_layers >= 1
    assert engine.device_memory_bytes >= 0
    assert engine.metadata == ""


def test_what_the_profiles_leave_no_choice_is_static(native: Any, plans: Plans, engines: Engines) -> None:
    engine = engines("settled")
    assert (engine.inputs[0].shape, engine.outputs[0].shape) == ((4, 16), (4, 5))
    x = integers(4, 16)
    with native.Runner(engine, native.RunnerOptions(slots=2)) as runner:  # nothing is exclusive without a profile
        tickets = [runner.submit({"x": x}), runner.submit({"x": -x})]
        for ticket, array in zip(tickets, (x, -x), strict=True):
            np.testing.assert_array_equal(ticket.result()["y"], linear_answer(array))
        with pytest.raises(native.UsageProblem):
            runner.run({"x": integers(3, 16)})
    images = native.Engine(plans("part settled")).inputs[0]
    assert images.shape == (-1, 3, 32, 48)
    assert images.profiles == (((2, 3, 32, 48), (2, 3, 32, 48), (8, 3, 32, 48)),)


def test_a_header_with_metadata_is_skipped(native: Any, plans: Plans) -> None:
    text = json.dumps({"stride": 32}).encode()
    engine = native.Engine(len(text).to_bytes(4, "little") + text + plans("fixed"))
    assert json.loads(engine.metadata) == {"stride": 32}
    assert [tensor.name for tensor in engine.inputs] == ["x"]


def test_every_kind_of_buffer_and_a_file_will_do(native: Any, plans: Plans, tmp_path: Path) -> None:
    plan = plans("fixed")
    path = tmp_path / "net.plan"
    path.write_bytes(plan)
    for engine in (
        native.Engine(bytearray(plan)),
        native.Engine(memoryview(plan)),
        native.Engine.from_file(path),
        native.Engine.from_file(str(path)),
    ):
        assert engine.inputs[0].shape == (4, 16)


@pytest.mark.parametrize("kept", [0.02, 0.5, 0.99])
def test_a_plan_cut_short_is_refused(native: Any, plans: Plans, kept: float) -> None:
    plan = plans("fixed")
    with pytest.raises(native.UsageProblem, match=r"damaged, truncated|another version"):
        native.Engine(plan[: int(len(plan) * kept)])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "Git LFS pointer"),
        (b"PK\x03\x04" + bytes(60), "zip archive"),
        (b"\x00" * 256, "damaged, truncated"),
    ],
)
def test_other_files_are_named(native: Any, data: bytes, words: str) -> None:
    with pytest.raises(native.UsageProblem, match=words):
        native.Engine(data)


def test_an_edited_header_is_refused(plans: Plans, tmp_path: Path) -> None:
    path = tmp_path / "net.plan"
    path.write_bytes(plans("fixed"))
    command = [sys.executable, "-c", LOAD_EDITED, str(path), str(HEADER_BYTES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    refused = [text for text in found.values() if text != "loaded"]
    assert all(text.startswith("UsageProblem") for text in refused), found
    # The magic number and sizes at least lie in the first bytes; where each field lies is TensorRT's own affair.
    assert len(refused) >= 8, found
    # What TensorRT puts down to its version is told so; test_plan.cpp has the other words that it uses.
    assert all("another version of TensorRT" in text for text in refused if "library version" in text), found


def test_a_device_that_is_not_there(native: Any, plans: Plans) -> None:
    with pytest.raises(native.UsageProblem, match="Device 99 does not exist"):
        native.Engine(plans("fixed"), device=99)


def test_none_is_no_engine(native: Any) -> None:
    """It used to end the process."""
    for use in (
        lambda: native.Runner(None),
        lambda: native.bench(None, {}),
        lambda: native.profile_layers(None, {}),
        lambda: native.StreamPool(None, state=[], batch_axes={}),
    ):
        with pytest.raises(TypeError):
            use()


def test_from_file_takes_regular_files_alone(native: Any, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, words in ((tmp_path, "but a folder"), (pipe, "but a pipe"), (Path("/dev/null"), "but a device")):
        with pytest.raises(native.UsageProblem, match=f"engine file is not a regular file {words}"):
            native.Engine.from_file(path)
    with pytest.raises(native.UsageProblem, match="cannot be opened"):
        native.Engine.from_file(tmp_path / "absent")


def test_a_plugin_library_is_loaded_through_its_descriptor(native: Any, plans: Plans, tmp_path: Path) -> None:
    mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libm.so" in line}
    library = shutil.copy(mapped.pop(), tmp_path / "libplugin.so")  # any library will do: it brings no creators
    with library.open("rb") as file:
        path = f"/proc/self/fd/{file.fileno()}"
        library.rename(tmp_path / "renamed.so")
        library.write_bytes(b"no library")
        assert native.Engine(plans("fixed"), plugins=[path, path]).inputs
    maps = Path("/proc/self/maps").read_text()
    assert str(tmp_path / "renamed.so") in maps
    with pytest.raises(native.ComponentMissing, match=r"could not be opened.*libplugin.so"):
        native.Engine(plans("fixed"), plugins=[str(library)])
    with pytest.raises(native.UsageProblem, match="plugin library is not a regular file but a folder"):
        native.Engine(plans("fixed"), plugins=[str(tmp_path)])


def test_an_engine_that_streams_its_weights_is_not_captured(native: Any, tmp_path: Path) -> None:
    if native.build_info()["tensorrt_headers"].startswith(("8.", "10.0")):
        pytest.skip("this TensorRT has no weight streaming budget")
    path = tmp_path / "net.onnx"
    path.write_bytes(linear(4))
    options = native.BuildOptions()
    options.weight_streaming = options.strongly_typed = True
    plan = native.build_engine(str(path), options).plan
    x = integers(4, 16)
    for budget, graphs in ((0, 0), (None, 1)):
        engine = native.Engine(plan, weight_streaming_budget=budget)
        if budget == 0 and not native.inspect_engine(engine)["streamable_weight_bytes"]:
            pytest.skip("TensorRT streams none of this engine's weights")
        with native.Runner(engine) as runner:
            for _ in range(4):
                np.testing.assert_array_equal(runner.run({"x": x})["y"], linear_answer(x))
            status = runner.graph_status()
        assert status.graphs == graphs
        assert status.fallback == (None if graphs else "the engine streams weights, which a graph cannot hold")
