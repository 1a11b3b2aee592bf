import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.report.style import figure, file_stem, label, plots_folder

NAMES = st.text(st.sampled_from("aB0-_=. /\\\x00\ud800é"), max_size=12)


@settings(deadline=None)
@given(NAMES, NAMES, st.integers(0, 300))
def test_a_stem_is_a_plain_name(scenario: str, model: str, more: int) -> None:
    stem = file_stem(scenario, model + "x" * more)
    assert re.fullmatch(r"[A-Za-z0-9._=+-]{0,109}", stem)
    assert not stem.startswith(".")


def test_stems_of_plain_names_can_be_read_and_others_differ() -> None:
    assert file_stem("batches", "yolov10m", "batch") == "batches-yolov10m-batch"
    assert file_stem("two words", "m") == "two-words-m"
    assert len({file_stem("../a"), file_stem("/a"), file_stem("a"), file_stem("é"), file_stem("ü")}) == 5


def test_labels_are_short_and_printable() -> None:
    assert label("a\nb\x1b", 10) == r"a b\x1b"
    assert label("x" * 50, 10) == "x" * 9 + "…"


def test_a_file_in_the_place_of_the_pictures(tmp_path: Path) -> None:
    (tmp_path / "plots").write_text("")
    with refused(UsageProblem):
        plots_folder(tmp_path)


@pytest.mark.parametrize(
    ("scale", "limits", "said"),
    [
        ("linear", (0, 1), ("x", "y")),
        ("linear", (-1, 1), ("x", "y")),
        ("linear", (5, 9), ("x", "y, does not begin at 0")),
        ("linear", (9, 5), ("x", "y, does not begin at 0")),
        ("log", (1, 9), ("x, logarithmic", "y, logarithmic")),
    ],
)
def test_axes_say_what_they_are(tmp_path: Path, scale: str, limits: tuple[float, float], said: tuple[str, str]) -> None:
    with figure(tmp_path / "f.png", width=1, height=1) as axes:
        axes.set(xscale=scale, yscale=scale, xlim=(1, 2), ylim=limits, xlabel="x", ylabel="y")
    assert (axes.get_xlabel(), axes.get_ylabel()) == said
