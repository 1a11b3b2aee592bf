"""What a message proposes is typed in the place of what was wrong, and is taken."""

import re
import subprocess
import sys
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import pytest
from tests.cli.test_foreign_words import FLAGS, VALUES, reading, typed
from tests.in_app import trtw
from tests.onnx_text import write_onnx
from tests.unit.quantize.planted import planted_model

from trt_workbench.vision.scenes import dataset as embedded

WRONG = "WRONG"
# Words of a command line, and what is typed wrong in them.
CALLS = [
    ("infer-engine shapes-classifier --no-bench --backend WRONG", "nope"),
    ("infer-engine shapes-classifier --no-bench --backend WRONG", "ort-cup"),
    ("verify shapes-classifier --backend ort-cpu --quick --dim WRONG=2", "bach"),
    ("eval-coco --limit 1 --backend WRONG", "ortcpu"),
    ("eval-coco --limit 1 --family WRONG", "yolo10"),
    ("predict shapes-yolov10 a.png --classes WRONG", "sqare"),
    ("quantize planted.onnx --to WRONG --calibration random -o made.onnx", "int9"),
    ("quantize planted.onnx --to int8 --calibration random -o made.onnx --keep WRONG", "plantd"),
    ("sensitivity planted.onnx --to WRONG --calibration random", "fp17"),
    ("sanitize-onnx planted.onnx -o made.onnx --skip WRONG", "name-node"),
    ("sanitize-onnx planted.onnx -o made.onnx --size WRONG=2", "nn"),
    ("sanitize-onnx planted.onnx -o made.onnx --shape WRONG:1x4x6x6", "xx"),
    ("infer-engine shapes-classifier --no-bench --backend ort-cpu --option WRONG=true", "allow_spinnig"),
    ("eval-stream --chunks 4 --mode WRONG --backend ort-cpu", "functionl"),
    ("make-contract state.onnx -o c.json --signal WRONG", "xx"),
    ("make-contract state.onnx -o c.json --signal x --state h=WRONG", "h_nxt"),
    ("WRONG planted.onnx -o made.onnx --calibration random --to int8", "quantise"),
    ("decide shapes-classifier --precisions WRONG --backends ort-cpu --limit 2 --repetitions 0", "fp33"),
    ("bench shapes-classifier --backends WRONG --batch 1 --dry-run", "ort-cpux"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the files of the calls."""
    import cv2

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "tmp"))
    monkeypatch.setattr(embedded, "HELD_OUT_IMAGES", 4)
    monkeypatch.setattr(embedded, "_CALIBRATION_IMAGES", 4)
    planted_model(tmp_path / "planted.onnx")
    text = "g (float[1,4] x, float[1,4] h) => (float[1,4] y, float[1,4] h_next) { h_next = Add(x, h) y = Neg(h_next) }"
    write_onnx(tmp_path / "state.onnx", text)
    cv2.imwrite(str(tmp_path / "a.png"), np.full((64, 64, 3), 99, np.uint8))
    return tmp_path


def proposals(said: str) -> list[str]:
    """What a message proposes."""
    said = " ".join(said.split())
    if near := re.search(r"did you mean (.+?)\?", said, re.IGNORECASE):
        return re.findall(r"[^\s',]+", near[1].replace(" or ", " "))
    listed = re.search(r"(?:there are|the model has): (.+?)\.(?: |$)", said)
    return listed[1].split(", ") if listed else []


@pytest.mark.long
@pytest.mark.usefixtures("folder", "blank_pictures")
@pytest.mark.parametrize(("call", "wrong"), CALLS)
def test_what_is_proposed_is_taken(call: str, wrong: str) -> None:
    first = trtw(*call.replace(WRONG, wrong).split())
    assert first.exit_code == 2, first.output
    found = proposals(first.stderr)
    assert found, first.stderr
    assert "openai" not in found
    for word in found:
        again = trtw(*call.replace(WRONG, word).split())
        assert again.exit_code != 2, f"{word}: {again.stderr}"


@pytest.mark.parametrize("name", FLAGS)
def test_an_option_that_is_proposed_is_taken(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`quantize --force` was answered with --score, which takes a value."""
    monkeypatch.chdir(tmp_path)
    command, others, refused = reading(name), {flag for flags in FLAGS.values() for flag in flags}, []
    own = {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)}
    for word in sorted(flag for flag in others - own if get_close_matches(flag, own)):
        words = [word, VALUES[word]] if word in VALUES else [word]
        for near in re.findall(r"\(Possible options: (.+)\)", typed(command, words) or ""):
            refused += [typed(command, [one, *words[1:]]) for one in near.split(", ")]
    assert [one for one in refused if one] == []


def test_an_option_that_takes_a_value_is_not_proposed_where_none_was_given() -> None:
    said = trtw("verify", "x.onnx", "--later-option")
    assert said.exit_code == 2
    assert said.stderr.splitlines()[-1] == "Error: No such option: --later-option"


def test_the_package_runs_as_trtw_does(tmp_path: Path) -> None:
    """From any folder, by the name that a virtual environment without scripts has."""
    call = [sys.executable, "-m", "trt_workbench", "quantize", "m.onnx", "--too", "fp16"]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "No such option: --too (Possible options: --to)" in done.stderr
