"""Why builds differ: tactics, formats and fusions by layer."""

from pathlib import Path
from typing import Any

from trt_workbench.engine.layer_choices import ABSENT, NAMES_ONLY, differences, keep_choices


def layer(name: str, tactic: str, form: str = "Row major linear FP16 format") -> dict[str, Any]:
    return {"Name": name, "TacticName": tactic, "Inputs": [{"Name": "x", "Format/Datatype": form}], "Outputs": []}


def kept(folder: Path, *builds: list[dict[str, Any]]) -> dict[int, Path]:
    plans = {number: folder / f"{number}.plan" for number in range(1, len(builds) + 1)}
    for plan, layers in zip(plans.values(), builds, strict=True):
        keep_choices(plan, layers)
    return plans


def test_each_kind_of_difference_is_named(tmp_path: Path) -> None:
    wide = "Channel major FP16 format"
    first = [
        layer("same", "k"),
        layer("tactic", "a"),
        layer("form", "k"),
        layer("both", "a"),
        layer("conv + relu", "k"),
    ]
    second = [
        layer("same", "k"),
        layer("tactic", "b"),
        layer("form", "k", wide),
        layer("both", "b", wide),
        layer("conv", "k"),
        layer("relu", "k"),
    ]
    found, note = differences(kept(tmp_path, first, second, first))
    assert note == ""
    assert [(one.layer, one.differs) for one in found] == [
        ("tactic", "tactic"),
        ("form", "format"),
        ("both", "tactic and format"),
        ("conv + relu", "fusion"),
        ("conv", "fusion"),
        ("relu", "fusion"),
    ]
    assert [one.builds for one in found[0].variants] == [(1, 3), (2,)]  # the most frequent first
    assert found[3].variants[1].choice is None


def test_newer_inspectors_give_type_and_format_apart(tmp_path: Path) -> None:
    one, other = (
        {"Name": "a", "TacticValue": "0x1", "Outputs": [{"Datatype": kind, "Format": "NCHW"}]}
        for kind in ("FP16", "FP32")
    )
    found, _ = differences(kept(tmp_path, [one], [other]))
    assert found[0].differs == "format"
    assert {each.choice.formats for each in found[0].variants if each.choice} == {("FP16 NCHW",), ("FP32 NCHW",)}


def test_what_cannot_be_compared_is_said(tmp_path: Path) -> None:
    plans = kept(tmp_path, [{"Name": "a"}], [{"Name": "a"}])
    assert differences(plans) == ((), NAMES_ONLY)
    assert differences({**plans, 3: tmp_path / "elsewhere.plan"}) == ((), ABSENT)
