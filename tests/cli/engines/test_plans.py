"""Which plans are loaded, which are refused, and what is shown of them."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.cli.engines.common import infer, write_model
from tests.in_app import stderr_of, stdout_of, trtw
from tests.texts import held

from trt_workbench.engine import native


def test_inspect_shows_manifest_and_layers(plan: Path) -> None:
    assert "total [layer]" in stdout_of("inspect", plan)
    document = json.loads(trtw("inspect", plan, "--json").stdout)
    assert document["manifest"]["model"]["file"] == "model.onnx"
    assert [layer["Name"] for layer in document["engine"]["layers"]] == ["total [layer]", "ratio [layer]"]
    assert [tensor["name"] for tensor in document["engine"]["tensors"]] == ["x", "y", "total", "ratio"]


# refit-engine


def test_a_stripped_plan_is_refused_until_it_has_weights(model: Path, tmp_path: Path) -> None:
    stripped, whole = tmp_path / "stripped.plan", tmp_path / "whole.plan"
    trtw("build-engine", model, "--strip-weights", "-o", stripped)
    held(stderr_of("infer-engine", stripped))
    other = write_model(tmp_path / "other.onnx", 4)
    document = json.loads(trtw("refit-engine", stripped, other, "-o", whole, "--json").stdout)
    assert document["manifest"]["model"]["file"] == "other.onnx"
    assert infer(whole, "--no-bench")["inputs"]["first"]["x"]["shape"] == [4, 3]


# safety


def test_a_plan_that_is_not_the_built_one_is_refused(plan: Path) -> None:
    content = plan.read_bytes()
    for changed in (content[:-5], content[:-1] + b"!", content + b"more"):
        plan.write_bytes(changed)
        for words in (("inspect", plan), ("infer-engine", plan)):
            held(stderr_of(*words))


def test_a_plan_without_manifest_needs_trust(plan: Path) -> None:
    plan.with_name(plan.name + ".json").unlink()
    held(stderr_of("infer-engine", plan, "--no-bench"))
    trusted = trtw("infer-engine", plan, "--no-bench", "--trust")
    assert trusted.exit_code == 0
    assert "no manifest (--trust)" in trusted.stderr


def test_a_plugin_library_is_opened_only_if_the_user_names_it(model: Path, tmp_path: Path) -> None:
    library, stripped = tmp_path / "libmine.so", tmp_path / "stripped.plan"
    library.write_bytes(b"a library")
    assert trtw("build-engine", model, "--strip-weights", "--plugin", library, "-o", stripped).exit_code == 0
    refit = ("refit-engine", stripped, model, "-o", tmp_path / "whole.plan")
    assert "libmine.so" in (told := stderr_of(*refit))
    assert "--plugin" in told
    assert trtw(*refit, "--plugin", library).exit_code == 0
    moved = library.rename(tmp_path / "elsewhere.so")
    for command in (("inspect", refit[-1]), ("infer-engine", refit[-1], "--no-bench")):
        held(" ".join(stderr_of(*command).split()))
        held(" ".join(stderr_of(*command, "--trust").split()))
        assert trtw(*command, "--plugin", moved).exit_code == 0
    held(stderr_of("inspect", model, "--plugin", moved))


@pytest.mark.parametrize(
    "words", [("inspect", "{plan}", "--manifest-only"), ("refit-engine", "{plan}", "{model}", "-o", "new.plan")]
)
def test_trust_is_not_advised_where_the_manifest_is_needed(plan: Path, model: Path, words: tuple[str, ...]) -> None:
    asked = [word.format(model=model, plan=plan) for word in words]
    plan.write_bytes(plan.read_bytes() + b"more")
    replaced = trtw(*asked)
    plan.with_name(plan.name + ".json").unlink()
    for refused, text in ((replaced, "tampered with"), (trtw(*asked), "has no manifest")):
        assert refused.exit_code == 2
        assert text in refused.stderr
        assert "`build-engine MODEL.onnx`" in refused.stderr
        assert "--trust" not in refused.stderr


def test_a_manifest_is_not_shown_on_trust(plan: Path) -> None:
    held(stderr_of("inspect", plan, "--manifest-only", "--trust"))


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TRTW_DOUBLE_VERSION", "11.1.0"),
        ("TRTW_DOUBLE_CAPABILITY", "12.0"),
    ],
)
def test_a_plan_of_another_version_or_gpu_is_refused(
    plan: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    held(stderr_of("infer-engine", plan))


@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "FILE"),
        ("infer-engine", "FILE"),
        ("verify", "FILE"),
        ("profile", "FILE", "--backend", "trt"),
        ("refit-engine", "FILE", "model.onnx", "-o", "new.plan"),
        ("make-contract", "FILE", "-o", "contract.json"),
    ],
    ids=lambda words: words[0],
)
def test_what_is_known_to_be_no_engine_is_called_what_it_is(
    words: tuple[str, ...], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kinds = {
        b"import onnx\n": "a text file",
        b"\xff\xd8\xff\xe0\0": "a JPEG image",
        model.read_bytes(): "an ONNX model",
    }
    for content, kind in kinds.items():
        Path("make.plan").write_bytes(content)
        said = stderr_of(*(word.replace("FILE", "make.plan") for word in words))
        assert f"The file is no TensorRT engine: it {'begins like' if 'ONNX' in kind else 'is'} {kind}" in said
    Path("make.plan").rename("make.py")
    assert "engine" in stderr_of(*(word.replace("FILE", "make.py") for word in words))


@pytest.mark.parametrize("content", [b"", b"\x08\x07 an onnx file", b"PK\x03\x04 an archive", b"<html>"])
def test_a_file_that_is_no_plan_is_refused_even_with_trust(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "thing.plan"
    file.write_bytes(content)
    assert trtw("infer-engine", file, "--trust").exit_code == 2


def test_pickled_arrays_are_never_loaded(plan: Path, tmp_path: Path) -> None:
    file = tmp_path / "evil.npy"
    np.save(file, np.array([{"a": 1}], object), allow_pickle=True)
    held(stderr_of("infer-engine", plan, "-i", f"x={file}", "-i", f"y={file}"))


@pytest.mark.parametrize(
    "words",
    [
        ("build-engine", "{model}"),
        ("infer-engine", "{plan}"),
        ("inspect", "{plan}"),
        ("refit-engine", "{plan}", "{model}", "-o", "new.plan"),
        ("eval-coco", "--backend", "trt", "--model", "{model}", "--data", "{folder}", "--annotations", "{model}"),
    ],
)
def test_what_is_missing_is_named_root_cause_first(
    plan: Path,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    gpus: Callable[..., None],
    started_by: Callable[..., None],
    words: tuple[str, ...],
) -> None:
    monkeypatch.setitem(sys.modules, native.MODULE, None)  # an import of it fails
    native.native.cache_clear()
    monkeypatch.setattr("trt_workbench.engine.target.current_root", lambda: None)
    monkeypatch.setattr("trt_workbench.core.gpu._DEVICE_FILES", ())
    call = [word.format(model=model, plan=plan, folder=model.parent) for word in words]

    gpus()
    said = stderr_of(*call, code=3)
    first = r"error: (Backend trt is not available: )?No GPU can be used: the driver sees no GPU\. "
    assert re.match(first, said.lstrip())  # an older rich ends a progress bar with an empty line

    gpus("9.0")
    started_by("pixi", "default")
    result = trtw(*call)
    assert result.exit_code == 3
    assert "GPU" not in result.stderr
    assert "TensorRT is not set up. Run `pixi run -e h200 setup-tensorrt`." in result.stderr
    if "eval-coco" not in words:  # a backend says what comes first
        assert result.stderr.index("setup-tensorrt") < result.stderr.index("`pixi run -e h200 build-native`")
    assert "pip" not in result.stderr


def test_the_manifest_is_shown_without_the_native_core(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, native.MODULE, None)
    native.native.cache_clear()
    document = json.loads(trtw("inspect", plan, "--manifest-only", "--json").stdout)
    assert document["engine"] is None
    assert document["manifest"]["engine"]["sha256"] == document["sha256"]
