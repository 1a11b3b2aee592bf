"""No figure of a table is ever cut or broken, however narrow the terminal; whole tables come through at 80 columns."""

import io
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from trt_workbench.console.tables import fit
from trt_workbench.llm import cli as eval_llm

FIGURES = st.one_of(
    st.floats(-1e12, 1e12).map(lambda value: f"{value:+.2e}"),
    st.floats(-1e12, 1e12).map(lambda value: f"{value:.4f}"),
    st.floats(0, 1).map(lambda value: f"{value:.3%}"),
    st.integers(0, 10**15).map(lambda value: f"{value:,}"),
    st.tuples(st.floats(0, 99), st.floats(0, 99)).map(lambda ends: f"{ends[0]:.3f} to {ends[1]:.3f}, 96 %"),
)
NAMES = st.text(st.characters(categories=["Ll", "Lu"]), min_size=0, max_size=60)


def printed(table: Any, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    fit(table, console)
    console.print(table, crop=False)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


@settings(max_examples=60)
@given(st.data(), st.integers(20, 100), st.booleans())
def test_no_figure_is_cut_or_broken(data: st.DataObject, width: int, plain: bool) -> None:
    kinds = data.draw(st.lists(st.sampled_from([FIGURES, NAMES]), min_size=1, max_size=9))
    rows = data.draw(st.lists(st.tuples(*kinds), min_size=1, max_size=4))
    table = Table(*(f"column {place}" for place in range(len(kinds))), box=SIMPLE_HEAD if plain else None)
    for row in rows:
        table.add_row(*row)
    lines = printed(table, width)
    seen = [word for line in lines for word in line.split()]
    wanted = [
        word for row in rows for cell, kind in zip(row, kinds, strict=True) if kind is FIGURES for word in cell.split()
    ]
    missing = [word for word in wanted if word not in seen]
    assert not missing, "\n".join(lines)
    names = [cell for row in rows for cell, kind in zip(row, kinds, strict=True) if kind is NAMES]
    left = re.findall(r"[^\W\d_]", "".join(lines))
    for letter in "".join(name[:1] + name[1:][-1:] for name in names):
        left.remove(letter)  # both ends of every name are there


def test_names_are_broken_before_a_table_is_wider_than_the_terminal() -> None:
    table = Table("layer", "ms", "share")
    table.add_row("model.layers.0.self_attn.q_proj.MatMul.quantized" * 3, "12.3456", "99.900 %")
    lines = printed(table, 40)
    assert max(map(len, lines)) <= 40
    assert any("12.3456" in line and "99.900 %" in line for line in lines)


def test_a_row_is_a_line_where_only_names_can_get_shorter() -> None:
    table = Table("shapes", "output", "inputs", "verdict", "relative L2", "explained by precision", "why")
    for seq in (1, 16, 64):
        table.add_row(f"batch=1 seq={seq}", "last_hidden_state", "random", "consistent", "0.00e+00", "4.45e-06", "")
    lines = [line for line in printed(table, 80) if "batch" in line]
    assert all(f"batch=1 seq={seq}" in line and "random" in line for seq, line in zip((1, 16, 64), lines, strict=True))


def test_a_heading_is_broken_before_a_cell() -> None:
    table = Table("precision on ort-cpu", "cosine", "loss", "at most", "ms", "MiB", "")
    for precision in ("fp16", "int8"):
        table.add_row(precision, "0.9998", "0.0002", "0.0002", "0.076", "0.333", "simulated, not certain")
    lines = [line for line in printed(table, 80) if "simulated" in line]
    assert all("simulated, not certain" in line for line in lines)
    assert len(lines) == 2


def row(**changes: Any) -> dict[str, Any]:
    made = {
        "backend": "ort-cpu", "precision": "fp32", "perplexity": 123456.7891, "relative_difference": 4.82e-10,
        "max_logit_difference": 1.9e-05, "top1_agreement": 0.99999, "kl_divergence": 3.1e-12, "failure": None,
        "verification": [], "precision_ran": {"label": "int8 (partly simulated), fp32"},
    }  # fmt: skip
    return {**made, **changes}


def test_the_table_of_perplexities_is_whole_at_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [row(), row(backend="torch-compile", precision="int4-weights", relative_difference=-123.4567)]
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    eval_llm.show({"tokens": 10**9, "backends": rows, "generation": [], "max_ppl_increase": 0.01}, Path("run"))
    lines = capsys.readouterr().out.splitlines()
    text = " ".join(lines)
    for figure in ("< 0.0001 %", "\N{MINUS SIGN}12345.6700 %", "123456.7891", "1.9e-05", "99.999 %", "3.1e-12"):
        assert text.count(figure) >= 1, "\n".join(lines)
    assert max(map(len, lines)) <= 80
