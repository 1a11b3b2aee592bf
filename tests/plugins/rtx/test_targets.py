"""`decide --targets`: the files of a decision compiled for cards that are not here, by recorded answers."""

from pathlib import Path

import pytest
from tests.in_app import stderr_of
from tests.onnx_text import write_onnx
from tests.plugins.rtx.test_check_target import recorded as recorded
from tests.texts import refused
from tests.unit.decide.test_report import ROWS, decision, row, run

from trt_workbench.core.documents import write_json
from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.decide.document import Compiles
from trt_workbench.decide.elsewhere import compiled_elsewhere, require_targets
from trt_workbench.report.reports import write_report
from trt_workbench_rtx import compiler as rtx

TWICE = "twice (float[batch, 4] x) => (float[batch, 4] y) { y = Add(x, x) }"
__all__ = ["recorded", "run"]


@pytest.mark.usefixtures("recorded")
def test_each_file_with_its_own_precision_is_compiled_for_each_card(tmp_path: Path) -> None:
    base, int8 = (str(write_onnx(tmp_path / f"{name}.onnx", TWICE)) for name in ("base", "int8"))
    rows = [row("fp32", 0, 1, file=base), row("fp16", 0, 1, "trt", file=base), row("int8", 0, 1, file=int8)]
    (tmp_path / "logs").mkdir()
    said: list[str] = []
    found = compiled_elsewhere(rows, ("rtx5090", "a10"), 2, tmp_path / "logs", said.append)
    assert [(one.precision, one.target, one.outcome) for one in found] == [
        ("fp32", "sm120 (rtx5090)", "built"), ("fp32", "sm86 (a10)", "refused"),
        ("int8", "sm120 (rtx5090)", "built"), ("int8", "sm86 (a10)", "refused"),
    ]  # fmt: skip
    assert found[1].reason == "MatMul mm (fp8): it cannot be"
    assert said[-1] == "Compiling for sm86 (a10): int8"
    assert compiled_elsewhere(rows, (), 2, tmp_path / "logs", said.append) == []


def test_a_card_that_is_none_and_a_missing_compiler_are_refused_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rtx, "MODULE", "no_such_module")
    with refused(UsageProblem):
        require_targets(("rtx9999",))
    with refused(ComponentMissing):
        require_targets(("rtx5090",))
    require_targets(())
    assert "rtx9999" in stderr_of("decide", "--targets", "rtx9999")
    assert "--annotations" in stderr_of("decide", "--targets", "targets.npy")


def test_the_page_says_where_files_compile(run: Path) -> None:
    there = Compiles(precision="int8", target="sm120 (rtx5090)", outcome="built", reason="")
    refusal = there.model_copy(update={"outcome": "refused", "reason": "it <b>cannot be"})
    write_json(run / "decision.json", decision(*ROWS, compiles=[there, refusal]))
    page = write_report(run).read_text(encoding="utf-8")
    assert "Compiles for other cards" in page
    assert "it &lt;b&gt;cannot be" in page
