"""Ways around a wrong engine, on the double of the native core with faults in what it makes of a graph."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from tests.onnx_text import write_onnx
from tests.texts import refused

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.trt.backend import TrtBackend
from trt_workbench.backends.trt.opening import whole_engine
from trt_workbench.core.errors import CheckFailed, UsageProblem
from trt_workbench.engine.builder import export
from trt_workbench.engine.loading import read_plan
from trt_workbench.engine.manifest import WorkaroundRecord, read_manifest
from trt_workbench.model.fences import fences
from trt_workbench.model.opened import sha256_of
from trt_workbench.verify.opening import VerifyRequest, of_model
from trt_workbench.verify.run import verify
from trt_workbench.verify.settings import Range
from trt_workbench.verify.workarounds import Fixed, fixed, require_chosen, write_fixed

pytestmark = pytest.mark.usefixtures("doubled_core", "known_limits")

Fault = Callable[[onnx.ModelProto, int, Any], bool]


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[[Fault], None]:
    """Let engines be wrong in every row after the first where a fault says so, of graph, batch and build options."""

    def planted(fault: Fault) -> None:
        import trt_workbench_native as core

        make, run, build = core.Engine.__init__, core.Runner.run, core.build_engine
        first = len(core.MAGIC) + 4

        def parts(plan: bytes) -> tuple[dict[str, Any], bytes]:
            end = first + int.from_bytes(plan[len(core.MAGIC) : first], "little")
            return json.loads(plan[first:end]), plan[end:]

        def build_engine(model: str, options: Any, progress: Any) -> Any:
            result = build(model, options, progress)
            header, content = parts(result.plan)
            told = ("layer_precisions", "optimization_level", "tactic_sources")
            text = json.dumps({**header, "built_with": {name: getattr(options, name) for name in told}}).encode()
            result.plan = core.MAGIC + len(text).to_bytes(4, "little") + text + content
            return result

        def opened(self: Any, plan: bytes, **options: Any) -> None:
            make(self, plan, **options)
            header, content = parts(plan)
            self.model = onnx.load_from_string(content)
            self.built_with = SimpleNamespace(**header.get("built_with", {}))

        def wrong(self: Any, inputs: Any, **selection: Any) -> dict[str, Any]:
            found = dict(run(self, inputs, **selection))
            batch = len(next(iter(inputs.values())))
            if fault(self.engine.model, batch, self.engine.built_with):
                for name, array in found.items():
                    found[name] = np.concatenate([array[:1], array[1:] + 1]) if batch > 1 else array + 1
            return found

        monkeypatch.setattr(core.Engine, "__init__", opened)
        monkeypatch.setattr(core.Runner, "run", wrong)
        monkeypatch.setattr(core, "build_engine", build_engine)

    return planted


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """q [N,2,1,4], k [N,2,4,5], v [N,2,5,4], bias [N,1,1,5] to y [N,2,1,4]."""
    graph = """g (float[N,2,1,4] q, float[N,2,4,5] k, float[N,2,5,4] v, float[N,1,1,5] bias) => (float[N,2,1,4] y) {
      [qk] products = MatMul(q, k) [scale] scores = Mul(products, half) [add] masked = Add(scores, bias)
      [softmax] shares = Softmax<axis = -1>(masked) [mix] y = MatMul(shares, v)
    }"""
    return write_onnx(tmp_path / "attention.onnx", graph, {"half": np.float32(0.5)})


@pytest.fixture
def without_rewrites(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what other tests look at, for the time that it takes."""
    monkeypatch.setattr("trt_workbench.verify.workarounds.candidates", lambda _: iter(()))


def request(model: Path, **more: Any) -> VerifyRequest:
    return VerifyRequest(target=model, ranges={"N": Range(1, 2, 3)}, quick=True, **more)


def tried(found: Fixed) -> dict[str, str]:
    return {one.name: one.verdict for one in found.tried}


def adds_a_mask_for_each_row(model: onnx.ModelProto, batch: int, _: Any) -> bool:
    inferred = onnx.shape_inference.infer_shapes(model).graph
    narrow = {"bias"} | {
        value.name
        for value in inferred.value_info
        if [dim.dim_value for dim in value.type.tensor_type.shape.dim][1:3] == [1, 1]
    }
    return batch > 1 and any(node.op_type == "Add" and narrow & set(node.input) for node in model.graph.node)


def test_a_rewrite_is_taken_where_the_fault_is_in_the_pattern_and_is_written_with_its_cost(
    model: Path, tmp_path: Path, plant: Callable[[Fault], None]
) -> None:
    plant(adds_a_mask_for_each_row)
    assert verify(request(model), tmp_path).document["verdict"] == "wrong"
    found = fixed(request(model), tmp_path)
    taken = require_chosen(found, model)
    assert taken.name == "attention-mask-in-keys"
    assert taken.verdict == "right"
    assert taken.milliseconds is not None
    assert taken.milliseconds > 0
    assert found.plain_milliseconds
    assert found.cost(taken) == taken.milliseconds / found.plain_milliseconds
    assert "rows-1" in found.left
    assert "attention-softmax-spelled" in found.left
    # what is handed on is all that a build needs
    assert taken.request.target == tmp_path / "attention-attention-mask-in-keys.onnx"
    assert verify(taken.request, tmp_path).document["verdict"] == "right"
    # the models of the others are gone
    assert {path.name for path in tmp_path.glob("*.onnx")} == {taken.request.target.name, "attention.onnx"}
    plan = write_fixed(found, request(model), tmp_path / "fixed.plan")
    manifest = read_manifest(plan)
    assert manifest.way_around.name == "attention-mask-in-keys"
    assert manifest.way_around.model_sha256 == sha256_of(model)
    assert manifest.way_around.plain_latency_ms == found.plain_milliseconds
    assert manifest.way_around.rows is None
    again = VerifyRequest(target=plan, model=model, quick=True)
    assert verify(again, tmp_path).document["verdict"] == "right"


@pytest.mark.long
@pytest.mark.usefixtures("without_rewrites")
def test_fences_are_taken_where_outputs_keep_tensors_apart(
    model: Path, tmp_path: Path, plant: Callable[[Fault], None]
) -> None:
    def fused(graph: onnx.ModelProto, batch: int, _: Any) -> bool:
        return batch > 1 and sum(value.name.startswith("trtw_fence_") for value in graph.graph.output) < 4

    plant(fused)
    found = fixed(request(model), tmp_path, nodes=["softmax"])
    verdicts = tried(found)
    assert verdicts["fence-place"] == "wrong"
    taken = require_chosen(found, model)
    assert taken.name == "fence-attention"
    session = TrtBackend().load(taken.plan or Path(), SessionOptions())
    assert [spec.name for spec in session.outputs] == ["y"]
    inputs = {spec.name: np.ones([2, *map(int, filter(None, spec.shape))], np.float32) for spec in session.inputs}
    assert session.run(inputs).keys() == {"y"}
    assert session.run_at(inputs, "y", 0).shape == (2, 1, 4)
    session.close()


@pytest.mark.long
@pytest.mark.usefixtures("without_rewrites")
def test_layers_of_the_place_are_kept_in_fp32_where_less_is_asked_for(
    model: Path, tmp_path: Path, plant: Callable[[Fault], None]
) -> None:
    plant(lambda _model, _batch, options: options.layer_precisions != {"softmax": "fp32"})
    found = fixed(request(model, precision="fp16"), tmp_path, nodes=["softmax"])
    assert require_chosen(found, model).name == "layers-in-fp32"
    assert "layers-in-fp32" not in tried(fixed(request(model), tmp_path, nodes=["softmax"]))


@pytest.mark.long
@pytest.mark.usefixtures("without_rewrites")
def test_tactics_and_levels_are_tried(model: Path, tmp_path: Path, plant: Callable[[Fault], None]) -> None:
    plant(lambda _model, _batch, options: options.tactic_sources != {"cublas": False, "cudnn": False})
    assert require_chosen(fixed(request(model), tmp_path), model).name == "tactic-sources-off"
    levels: list[Any] = []
    plant(lambda _model, _batch, options: bool(levels.append(options.optimization_level)) or True)
    fixed(request(model, options={"optimization_level": 0}), tmp_path)
    assert {3, 5} <= set(levels)


@pytest.mark.long
@pytest.mark.usefixtures("without_rewrites")
def test_batches_are_split_into_what_is_right(model: Path, tmp_path: Path, plant: Callable[[Fault], None]) -> None:
    plant(lambda _model, batch, _options: batch > 2)
    asked = request(model)
    found = fixed(asked, tmp_path, found=verify(asked, tmp_path))
    taken = require_chosen(found, model)
    assert taken.name == "rows-2"
    assert tried(found)["optimization-level-5"] == "wrong"
    assert found.left == ("rows-1",)
    session = TrtBackend().load(model, SessionOptions(extra={**taken.request.options, "max_batch": 4}))
    rng = np.random.default_rng(0)
    five = {spec.name: rng.random([5, *map(int, filter(None, spec.shape))], np.float32) for spec in session.inputs}
    singly = [session.run({name: array[i : i + 1] for name, array in five.items()})["y"] for i in range(5)]
    np.testing.assert_allclose(session.run(five)["y"], np.concatenate(singly), atol=1e-6)
    assert session.record()["rows"] == 2
    assert whole_engine(session) is session.inner  # type: ignore[attr-defined]
    with refused(UsageProblem):
        session.run({**five, "q": five["q"][:2]})
    session.close()


@pytest.mark.usefixtures("without_rewrites")
def test_a_plan_is_run_as_its_manifest_says(model: Path, tmp_path: Path) -> None:
    taken = fixed(request(model), tmp_path).tried[0]
    assert taken.plan is not None
    made = read_plan(taken.plan)
    assert made.manifest.way_around is None
    around = WorkaroundRecord(
        name="rows-1", model_sha256="0", verdict="right", latency_ms=1, plain_latency_ms=None, rows=1
    )
    plan = tmp_path / "fixed.plan"
    export(replace(made, manifest=made.manifest.model_copy(update={"way_around": around})), plan)
    with TrtBackend().load(plan, SessionOptions()) as session:
        assert session.record()["rows"] == 1


@pytest.mark.long
@pytest.mark.usefixtures("without_rewrites")
def test_that_nothing_helps_is_said(model: Path, tmp_path: Path, plant: Callable[[Fault], None]) -> None:
    plant(lambda *_: True)
    found = fixed(request(model), tmp_path)
    assert found.chosen is None
    assert set(tried(found).values()) == {"wrong"}
    assert not [path for path in tmp_path.glob("*.onnx") if path != model]
    with refused(CheckFailed):
        require_chosen(found, model)


def test_a_rewrite_that_is_not_the_same_is_not_built(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = sys.modules["trt_workbench.verify.workarounds"]
    other = onnx.load(model)
    other.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.float32(2), "half"))
    monkeypatch.setattr(ways, "candidates", lambda _: iter([("attention-wrong", other)]))
    first = fixed(request(model), tmp_path).tried[0]
    assert (first.name, first.verdict, first.is_right) == ("attention-wrong", "failed", False)
    assert "differs by up to" in first.reason


def test_other_backends_have_the_ways_in_the_model(masked_model: Path, tmp_path: Path) -> None:
    asked = VerifyRequest(target=masked_model, backend="ort-cpu", ranges={"N": Range(1, 2, 3)}, quick=True)
    found = fixed(asked, tmp_path)
    assert found.chosen is not None
    assert all(name.startswith(("folded", "attention-")) for name in tried(found))
    assert set(tried(found).values()) == {"right"}


def test_a_plan_is_built_anew_as_its_manifest_says(model: Path, tmp_path: Path, plant: Callable[[Fault], None]) -> None:
    plant(adds_a_mask_for_each_row)
    profile = "q:1x2x1x4/2x2x1x4/3x2x1x4,k:1x2x4x5/2x2x4x5/3x2x4x5,v:1x2x5x4/2x2x5x4/3x2x5x4,"
    profile += "bias:1x1x1x5/2x1x1x5/3x1x1x5"
    extra = {"profiles": [profile], "optimization_level": 1}
    with TrtBackend().load(model, SessionOptions(precision="fp16", extra=extra)) as session:
        plan = Path(session.record()["plan"])
    manifest = read_manifest(plan)
    assert manifest is not None
    copy = tmp_path / "m.plan"
    export(read_plan(plan), copy)
    asked = of_model(VerifyRequest(target=copy, quick=True))  # the model lies beside it
    assert (asked.target, asked.model, asked.precision) == (model, model, "fp16")
    taken = require_chosen(fixed(VerifyRequest(target=copy, quick=True), tmp_path), copy)
    assert taken.name == "attention-mask-in-keys"
    made = read_manifest(taken.plan or Path())
    assert made.options["optimization_level"] == 1
    assert made.profiles == manifest.profiles
    model.unlink()
    with refused(UsageProblem):
        fixed(VerifyRequest(target=copy), tmp_path)


def test_fences_are_outputs_of_a_model_that_says_the_same(model: Path) -> None:
    made = dict(fences(onnx.load(model), ["add"]))
    outputs = {name: len(one.graph.output) - 1 for name, one in made.items()}
    assert outputs == {"fence-place": 1, "fence-attention": 4}
    for one in made.values():
        onnx.checker.check_model(one, full_check=True)
        assert one.graph.output[0].name == "y"
    assert replace(request(model)).target == model
