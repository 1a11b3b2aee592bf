"""`trtw sanitize-onnx` as a program."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from tests.in_app import json_of, stderr_of, stdout_of
from tests.onnx_text import write_onnx
from tests.texts import held

from trt_workbench.model.sanitize import check as sanitize_check
from trt_workbench.model.sanitize import rewrites as sanitize_rewrites


@pytest.fixture
def model(tmp_path: Path) -> Path:
    nodes = "a = Identity(x) b = Add(a, w) [distinct] y = Unique(b) z = Add(n, far)"
    text = f"g (float[batch,3] x, int64[1] n) => (float[found] y, int64[1] z) {{ {nodes} }}"
    return write_onnx(tmp_path / "m.onnx", text, {"w": np.ones(3, np.float32), "far": np.array([1 << 40])})


def test_the_report_says_what_changed_and_what_is_left(model: Path, tmp_path: Path) -> None:
    document = json_of("sanitize-onnx", model, "-o", tmp_path / "out.onnx", "--dim", "batch=4")
    assert document["rewrites"]["remove-no-ops"]["changes"] == 1
    assert document["rewrites"]["freeze-dims"]["changes"] == 1
    assert (document["nodes_before"], document["nodes_after"]) == (4, 3)
    assert document["check"]["outputs"]["y"]["max_abs"] == 0
    held(*document["findings"])
    assert [node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node] == ["Add", "Unique", "Add"]


def test_for_people_there_is_a_table(model: Path, tmp_path: Path) -> None:
    printed = stdout_of("sanitize-onnx", model, "-o", tmp_path / "out.onnx", "--only", "remove-no-ops")
    assert "remove-no-ops" in printed
    assert "fold-constants" not in printed
    assert "Check passed: largest difference 0" in printed


def test_a_failed_check_writes_nothing(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(model: onnx.ModelProto, _: object) -> list[str]:
        tensor = model.graph.initializer[0]
        changed = numpy_helper.from_array(numpy_helper.to_array(tensor) + 1, tensor.name)
        tensor.CopyFrom(changed)
        return []

    monkeypatch.setitem(sanitize_rewrites.REWRITES, "name-nodes", (spoil, True))
    held(stderr_of("sanitize-onnx", model, "-o", tmp_path / "out.onnx", code=1))
    assert not (tmp_path / "out.onnx").exists()
    printed = stdout_of("sanitize-onnx", model, "-o", tmp_path / "out.onnx", "--no-check")
    assert "Not compared with the original model" in printed


@pytest.mark.parametrize(
    "words",
    [
        ["--only", "fold"],
        ["--skip", "name-node"],
        ["--only", "name-nodes", "--also", "finite-masks"],
        ["--shape", "x=4x3"],
        ["--dim", "batch"],
        ["--dim", "batch=0"],
        ["--dim", "batch=²"],
        ["--size", "bach=2"],
        ["--shape", "z:1x3"],
        ["--dim", "n=1"],
    ],
)
def test_what_does_not_fit_is_refused(model: Path, tmp_path: Path, words: list[str]) -> None:
    held(stderr_of("sanitize-onnx", model, "-o", tmp_path / "out.onnx", *words))


@pytest.mark.parametrize(
    ("words", "named"),
    [(["--dim", "nosuch=4"], "n0, n1,"), (["--shape", "nosuch:4"], "x0, x1,"), (["--size", "nosuch=4"], "n0, n1,")],
)
def test_of_many_inputs_some_are_named(words: list[str], named: str, tmp_path: Path) -> None:
    many = ", ".join(f"float[n{place},3] x{place}" for place in range(59))
    path = write_onnx(tmp_path / "many.onnx", f"g ({many}) => (float[n0,3] y) {{ y = Identity(x0) }}")
    said = stderr_of("sanitize-onnx", path, "-o", tmp_path / "out.onnx", *words)
    assert named in said
    assert " more" in said
    assert len(said) < 600, said


def test_an_operator_that_onnx_does_not_know_can_stay_unchecked(tmp_path: Path) -> None:
    text = "g (float[1,3] x) => (float[1,3] y) { a = Identity(x) [nms] y = EfficientNMS_TRT(a) }"
    write_onnx(tmp_path / "m.onnx", text)
    said = stderr_of("sanitize-onnx", tmp_path / "m.onnx", "-o", tmp_path / "out.onnx")
    held(said)
    assert "--size" not in said  # no inputs help
    assert not (tmp_path / "out.onnx").exists()

    printed = stdout_of("sanitize-onnx", tmp_path / "m.onnx", "-o", tmp_path / "out.onnx", "--no-check", "--json")
    assert any("No Op registered for EfficientNMS_TRT" in finding for finding in json.loads(printed)["findings"])
    assert [node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node] == ["EfficientNMS_TRT"]


def test_a_folder_is_no_file_to_write(model: Path, tmp_path: Path) -> None:
    held(stderr_of("sanitize-onnx", model, "-o", tmp_path))


@pytest.fixture
def sums(tmp_path: Path) -> Path:
    """Attention's mask, one longer than the past, as exporters declare it."""
    text = 'g (float[past] keys, float["past + 1"] mask) => (float[total] y) { y = Concat<axis=0>(keys, mask) }'
    return write_onnx(tmp_path / "m.onnx", text)


@pytest.mark.parametrize(
    ("sizes", "shapes"),
    [
        ([], [(1, 2), (2, 3)]),
        (["past=4"], [(4, 5), (4, 5)]),
        (["past + 1=7"], [(1, 7), (2, 7)]),
        (["past=4", "past + 1=7"], [(4, 7), (4, 7)]),
    ],
)
def test_the_size_of_a_sum(
    sums: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: list[str], shapes: list[tuple[int, int]]
) -> None:
    from trt_workbench.sanitize import parity

    seen: list[tuple[int, ...]] = []

    def watched(before: Path, after: Path, run: Any, inputs: Any, **options: float) -> dict[str, Any]:
        seen.extend((arrays["keys"].size, arrays["mask"].size) for arrays in inputs)
        return sanitize_check.compare(before, after, run, inputs, **options)

    monkeypatch.setattr(parity, "compare", watched)
    stdout_of(
        "sanitize-onnx", sums, "-o", tmp_path / "out.onnx", *(word for size in sizes for word in ("--size", size))
    )
    assert seen == shapes


_SHORT = "s = Shape<start = 2>(x) p = Slice(w, zero, s, two) y = Add(x, p)"


@pytest.mark.parametrize("nodes", ["p = MaxPool<kernel_shape = [9]>(x) y = Neg(p)", _SHORT], ids=["long", "short"])
def test_a_model_of_few_or_of_small_sizes_needs_no_word(nodes: str, tmp_path: Path) -> None:
    """The one refuses a length of 1, the other one more than the 8 that its table has."""
    weights = {"w": np.ones((1, 3, 8), np.float32), "zero": np.array([0]), "two": np.array([2])}
    weights = weights if nodes is _SHORT else {}
    path = write_onnx(tmp_path / "m.onnx", f"g (float[N,3,steps] x) => (float[N,3,out] y) {{ {nodes} }}", weights)
    assert json_of("sanitize-onnx", path, "-o", tmp_path / "out.onnx")["check"]["input_sets"] == 2


def test_a_number_in_a_sum_has_no_size_to_give(sums: Path, tmp_path: Path) -> None:
    said = stderr_of("sanitize-onnx", sums, "-o", tmp_path / "out.onnx", "--size", "1=3")
    held(said)


def test_sizes_that_do_not_go_together_are_asked_for(tmp_path: Path) -> None:
    text = "g (float[n] a, float[m] b) => (float[m] y) { c = Concat<axis=0>(a, a) y = Add(c, b) }"
    write_onnx(tmp_path / "m.onnx", text)
    held(stderr_of("sanitize-onnx", tmp_path / "m.onnx", "-o", tmp_path / "out.onnx"))
    stdout_of("sanitize-onnx", tmp_path / "m.onnx", "-o", tmp_path / "out.onnx", "--size", "n=3", "--size", "m=6")


@pytest.mark.parametrize("fault", ["differs", "raises", "does not load"])
def test_the_rewrite_that_is_at_fault_is_named(
    fault: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(document: onnx.ModelProto, _: object) -> list[str]:
        if fault == "raises":
            raise KeyError("w")
        weight = next(one for one in document.graph.initializer if one.name == "w")
        if fault == "differs":
            weight.CopyFrom(numpy_helper.from_array(np.full(3, 2, np.float32), "w"))
        else:
            document.graph.node[0].input[0] = "nowhere"
        return []

    monkeypatch.setitem(sanitize_rewrites.REWRITES, "clamp-int64", (spoil, True))
    said = stderr_of("sanitize-onnx", model, "-o", tmp_path / "out.onnx", code=1)
    assert said.startswith("error: The rewrite clamp-int64 is at fault; leave it out with --skip clamp-int64. ")
    assert not (tmp_path / "out.onnx").exists()
    stdout_of("sanitize-onnx", model, "-o", tmp_path / "out.onnx", "--skip", "clamp-int64")
