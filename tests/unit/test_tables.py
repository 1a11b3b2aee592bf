"""No word of a table is ever cut, but of paths, however narrow the terminal."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.table import Column, Table
from tests.terminal import faults, shown

from trt_workbench.console.common import print_parts
from trt_workbench.llm import cli as eval_llm

FIGURES = st.one_of(
    st.floats(-1e12, 1e12).map(lambda value: f"{value:+.2e}"),
    st.floats(-1e12, 1e12).map(lambda value: f"{value:.4f}"),
    st.floats(0, 1).map(lambda value: f"{value:.3%}"),
    st.integers(0, 10**15).map(lambda value: f"{value:,}"),
    st.tuples(st.floats(0, 99), st.floats(0, 99)).map(lambda ends: f"{ends[0]:.3f} to {ends[1]:.3f}, 96 %"),
)
NAMES = st.text(st.characters(categories=["Ll", "Lu"], max_codepoint=0x17F), min_size=0, max_size=60)
VERDICTS = st.sampled_from(["anomalous", "not shown", "reference", "within precision", "accepted unstable"])
SENTENCES = st.lists(NAMES, max_size=12).map(" ".join)
PATHS = NAMES.map(lambda name: f"/models/{name}/{name}.onnx")
HEADINGS = ["ms", "runtime", "speed-up", "largest logit difference", "latency, ms", "95 % interval", "", "milliseconds"]


@settings(max_examples=100)
@given(st.data(), st.integers(16, 200))
def test_no_word_is_cut_and_nothing_is_wider_than_the_terminal_where_it_fits(data: st.DataObject, width: int) -> None:
    kinds = data.draw(st.lists(st.sampled_from([FIGURES, NAMES, VERDICTS, SENTENCES, PATHS]), min_size=1, max_size=12))
    rows = data.draw(st.lists(st.tuples(*kinds), min_size=1, max_size=4))
    table = Table(title=data.draw(st.sampled_from([None, "Of a model"])))
    for kind in kinds:
        table.add_column(
            data.draw(st.sampled_from(HEADINGS)),
            justify="right" if kind is FIGURES else "left",
            overflow="crop" if kind is PATHS else "fold",
        )
    for row in rows:
        table.add_row(*row)
    assert faults(table, width) == []


def test_paths_are_cut_before_a_table_is_a_list() -> None:
    table = Table(Column("layer", overflow="crop"), "ms", "share")
    table.add_row("model.layers.0.self_attn.q_proj.MatMul.quantized" * 3, "12.3456", "99.900 %")
    lines = shown(table, 40)
    assert max(map(len, lines)) <= 40
    assert any("12.3456" in line and "99.900 %" in line and "…" in line for line in lines)


def test_a_table_without_room_is_a_list() -> None:
    table = Table("runtime", "speed-up", "why", title="T")
    table.add_row("tensorrt-rtx-provider", "1.00", "it has no kernel for this type")
    table.add_row("ort-cuda", "-", "")
    assert [line.strip() for line in shown(table, 32)] == [
        "T",
        "runtime   tensorrt-rtx-provider",
        "speed-up  1.00",
        "why       it has no kernel for",
        "this type",
        "",
        "runtime   ort-cuda",
        "speed-up  -",
        "why",
        "",
    ]


def test_a_row_is_a_line_where_only_sentences_can_get_shorter() -> None:
    table = Table("shapes", "output", "inputs", "verdict", "relative L2", "explained by precision", "why")
    for seq in (1, 16, 64):
        table.add_row(f"batch=1 seq={seq}", "last_hidden_state", "random", "consistent", "0.00e+00", "4.45e-06", "")
    lines = [line for line in shown(table, 84) if "batch" in line]
    assert all(f"batch=1 seq={seq}" in line and "random" in line for seq, line in zip((1, 16, 64), lines, strict=True))


def test_a_heading_is_broken_before_a_cell() -> None:
    table = Table("precision on ort-cpu", "cosine", "loss", "at most", "ms", "MiB", "")
    for precision in ("fp16", "int8"):
        table.add_row(precision, "0.9998", "0.0002", "0.0002", "0.076", "0.333", "simulated, not certain")
    lines = [line for line in shown(table) if "simulated" in line]
    assert all("simulated, not certain" in line for line in lines)
    assert len(lines) == 2


def test_the_rows_of_decide_are_whole_at_80_columns() -> None:
    heads = ["precision", "runtime", "perplexity", "loss", "at most", "score", "latency, ms", "speed-up", "size, MiB"]
    table = Table(*heads)
    table.add_row("fp32", "ort-cuda", "31.3295", "0.0000", "-", "reference", "2.972", "1.00", "6.5")
    table.add_row("fp16 simulated", "ort-cpu", "31.3278", "-0.0001", "0.0000", "anomalous", "-", "-", "3.4")
    lines = shown(table)
    for row in (("ort-cuda", "reference", "2.972"), ("ort-cpu", "anomalous", "31.3278")):
        assert any(all(word in line for word in row) for line in lines)


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
    found = {"tokens": 10**9, "backends": rows, "generation": [], "max_ppl_increase": 0.01}
    print_parts(eval_llm.show(found, Path("run")))
    lines = capsys.readouterr().out.splitlines()
    text = " ".join(lines)
    for figure in ("< 0.0001 %", "\N{MINUS SIGN}12345.6700 %", "123456.7891", "1.9e-05", "99.999 %", "3.1e-12"):
        assert text.count(figure) >= 1, "\n".join(lines)
    assert max(map(len, lines)) <= 80
