"""Which verdicts let an engine pass, and what a language model's agreement with PyTorch is worth."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.engines.common import write_model
from tests.texts import held, refused

from trt_workbench.core.errors import CheckFailed
from trt_workbench.core.verification import Verification
from trt_workbench.engine.builder import build, export, prepare_build
from trt_workbench.engine.manifest import manifest_path, read_manifest
from trt_workbench.engine.options import BuildSettings
from trt_workbench.engine.verdicts import keep_verdict, kept_verdict
from trt_workbench.model.opened import Model
from trt_workbench.verify.engine import PlanRequest, verify_plan
from trt_workbench.verify.gate import Unverified, engines, keep_agreement, let_through, refuse_wrong, require_verified

pytestmark = pytest.mark.usefixtures("doubled_core")
BOTH = {"x": (2, 3), "y": (2, 3)}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model.onnx")


@pytest.fixture
def plan(model: Path, tmp_path: Path) -> Path:
    path = tmp_path / "model.plan"
    export(build(prepare_build(Model.open(model), BuildSettings())).plan, path)
    return path


def provenance(plan: Path, **more: Any) -> dict[str, Any]:
    manifest = read_manifest(plan)
    return {"plan": str(plan), "plan_sha256": manifest.engine.sha256, "manifest": {}, "gpu": "GPU 9.0", **more}


def verdict(plan: Path) -> Verification:
    found = kept_verdict(read_manifest(plan))
    assert found
    return found


def test_a_session_of_another_runtime_passes(model: Path) -> None:
    assert require_verified({"provider": "CPUExecutionProvider"}, model, [BOTH]) is None
    assert refuse_wrong({"provider": "CPUExecutionProvider"}) == []


def test_the_engine_of_a_model_is_verified_then_and_there_and_a_plan_is_not(model: Path, plan: Path) -> None:
    with refused(Unverified):
        require_verified(provenance(plan), plan, [BOTH])
    assert kept_verdict(read_manifest(plan)) is None
    mark = require_verified(provenance(plan), model, [BOTH])
    assert mark
    assert (mark["verdict"], mark["allowed"]) == ("right", False)
    assert let_through([mark]) == []
    assert require_verified(provenance(plan), plan, [BOTH]) == mark


def test_other_shapes_another_gpu_and_another_model_are_not_covered(model: Path, plan: Path, tmp_path: Path) -> None:
    verify_plan(PlanRequest(plan, model))
    with refused(Unverified):
        require_verified(provenance(plan), plan, [BOTH, {"x": (3, 3)}])
    with refused(Unverified):
        require_verified(provenance(plan, gpu="GPU 8.0"), plan, [BOTH])
    # beside another model it is verified again
    asked: list[PlanRequest] = []

    def verify(request: PlanRequest, _: object) -> Verification:
        asked.append(request)
        return verdict(plan)

    other = write_model(tmp_path / "other.onnx", 4)
    assert require_verified(provenance(plan), other, [BOTH], verify=verify)
    assert asked == [PlanRequest(plan, other, needed=(BOTH,))]
    with refused(Unverified):
        require_verified(provenance(plan, plan_sha256="0" * 64), plan, [BOTH])


def test_a_wrong_engine_is_refused_everywhere_and_allowed_with_a_mark(model: Path, plan: Path) -> None:
    found = verify_plan(PlanRequest(plan, model)).model_copy(update={"verdict": "wrong", "reason": "row 1 is wrong"})
    assert keep_verdict(plan, found)
    for check in (
        lambda **more: require_verified(provenance(plan), plan, [BOTH], **more),
        lambda **more: refuse_wrong({"prompts": provenance(plan)}, **more)[0],
    ):
        with refused(CheckFailed) as caught:
            check()
        assert not isinstance(caught.value, Unverified)
        mark = check(allow_unverified=True)
        assert (mark["verdict"], mark["allowed"]) == ("wrong", True)
        told = let_through([mark, mark, None])
        held(*told)


def test_agreement_with_pytorch_is_a_verdict_on_engines_that_have_none(model: Path, plan: Path, tmp_path: Path) -> None:
    both = {**provenance(plan), "prompts": provenance(plan)}
    assert [engine.plan for engine in engines(both)] == [plan, plan]
    assert [mark["verdict"] for mark in refuse_wrong(both)] == ["unverified", "unverified"]
    keep_agreement(both, tmp_path / "run")
    kept = verdict(plan)
    assert (kept.verdict, kept.mode, kept.reference) == ("right", "agreement", "torch")
    assert kept.evidence == str(tmp_path / "run")
    text = f"right (agreement, compared with torch, {kept.verified_at[:10]})"
    assert [mark["text"] for mark in refuse_wrong(both)] == [text] * 2
    # but it is none for shapes that were not listed, and a verification takes its place
    with refused(Unverified):
        require_verified(provenance(plan), plan, [BOTH])
    verify_plan(PlanRequest(plan, model))
    keep_agreement(both)
    assert verdict(plan).mode == "quick"


def test_unverified_takes_the_place_of_nothing(model: Path, plan: Path) -> None:
    verify_plan(PlanRequest(plan, model))
    lost = verdict(plan).model_copy(update={"verdict": "unverified", "reason": "out of memory"})
    assert not keep_verdict(plan, lost)
    assert verdict(plan).verdict == "right"
    document = json.loads(manifest_path(plan).read_text())
    assert document["schema_version"] == 2
