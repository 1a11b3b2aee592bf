"""What a process reads and writes beyond what it was told: variables, the home folder, the current one, the network."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import CocoSetup
from tests.copies import copied
from tests.kept_reports import RECORDS
from tests.onnx_text import write_onnx

from trt_workbench.core.variables import settle_variables

MAIN = "from trt_workbench.main import main; main()"
RUN = "bench-h200/minilm"
TRACE = ("strace", "-f", "-qq", "-e", "trace=connect,sendto,sendmsg,sendmmsg,/open,creat,/mkdir,/rename,/link", "-o")

CHANGING = re.compile(r"O_(WRONLY|RDWR|CREAT)|\b(mkdir|rename|link|symlink)(at2?)?\(")


def command(*words: object, place: Path, prefix: tuple[object, ...] = (), **variables: str) -> tuple[int, str]:
    """Run a command in a process of its own, with a home and a temporary folder in `place`; its code and stderr."""
    for name in ("home", "temporary", "current"):
        (place / name).mkdir(exist_ok=True)
    own = ("ORT_", "OPENCV_", "MPL", "XDG", "TORCHINDUCTOR_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    places = {"HOME": str(place / "home"), "TMPDIR": str(place / "temporary"), "TRTW_TMP": str(place / "tmp")}
    places["PYTHONDONTWRITEBYTECODE"] = "1"
    line = [*map(str, prefix), sys.executable, "-P", "-c", MAIN, *map(str, words)]
    done = subprocess.run(
        line, cwd=place / "current", env={**kept, **places, **variables}, capture_output=True, check=False
    )
    return done.returncode, done.stderr.decode()


def left(place: Path) -> list[str]:
    return sorted(str(path) for name in ("home", "temporary", "current") for path in (place / name).rglob("*"))


@pytest.mark.long
def test_nothing_is_written_elsewhere_and_nothing_leaves(coco: CocoSetup, tmp_path: Path) -> None:
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    trace = tmp_path / "trace"
    words = ("eval-coco", coco.model, "--data", coco.images, "--annotations", coco.annotations)
    code, said = command(*words, "--output", tmp_path / "run", place=tmp_path, prefix=(*TRACE, trace))
    assert code == 0, said
    assert (tmp_path / "run" / "report.html").is_file()
    assert left(tmp_path) == []
    lines = trace.read_text(errors="replace").splitlines()
    assert [line for line in lines if "AF_INET" in line] == []
    changing = [line for line in lines if CHANGING.search(line) and "= -1" not in line]
    named = {name for line in changing for name in re.findall(r'"(/[^"]*)"', line)}
    assert named
    assert {name for name in named if not name.startswith((str(tmp_path), "/dev/"))} == set()


def test_a_pipe_where_telemetry_wrote_stops_nobody(coco: CocoSetup, tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    os.mkfifo(tmp_path / "temporary" / ".ses")
    code, said = command("predict", coco.model, coco.images, "--output", tmp_path / "run", place=tmp_path)
    assert code == 0, said


@pytest.mark.long
@pytest.mark.parametrize("name", ["torch", "tokenizer"])
def test_pytorch_keeps_nothing_in_a_folder_that_others_can_make(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    model = write_onnx(tmp_path / "m.onnx", "g (float[2,4] x) => (float[2,4] y) { y = Relu(x) }")
    words: dict[str, tuple[object, ...]] = {
        "torch": ("infer-engine", model, "--backend", "torch", "--duration", 0, "--iterations", 1),
        "tokenizer": ("eval-llm", "--limit", 40, "--window", 16, "--backends", "ort-cpu"),
    }
    code, said = command(*words[name], "--output", tmp_path / "run", place=tmp_path)
    assert code == 0, said
    assert left(tmp_path) == []
    assert (tmp_path / "tmp" / "torchinductor").stat().st_mode & 0o077 == 0


@pytest.mark.long
@pytest.mark.parametrize("kind", ["pipe", "settings"])
def test_no_file_of_the_users_decides_how_plots_look(kind: str, tmp_path: Path) -> None:
    folders = [tmp_path / "current", tmp_path / "home" / ".config" / "matplotlib", tmp_path / "named"]
    for folder in folders:
        folder.mkdir(parents=True)
        file = folder / "matplotlibrc"
        match kind:
            case "pipe":
                os.mkfifo(file)
            case _:
                file.write_text("backend: module://evil\nfont.size: 900\n")
    run = copied(RECORDS / RUN, tmp_path / "run")
    variables = {"MATPLOTLIBRC": str(folders[2]), "MPLCONFIGDIR": str(folders[2]), "MPLBACKEND": "module://evil"}
    code, said = command("report", run, place=tmp_path, **variables)
    assert (code, [line for line in said.splitlines() if "Still running" not in line]) == (0, [])
    assert (run / "report.html").stat().st_mtime > (run / "run.json").stat().st_mtime


@pytest.mark.parametrize("value", ["x", "", "-1", "0", "1e9", "10MB", "0x10", "9" * 30, "٣"])
@pytest.mark.parametrize("name", ["PIXELS", "WIDTH", "HEIGHT"])
def test_a_limit_of_images_that_is_no_number(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"OPENCV_IO_MAX_IMAGE_{name}", value)
    assert f"OPENCV_IO_MAX_IMAGE_{name} must be a whole number" in settle_variables()


@pytest.mark.parametrize("value", ["²", "٣", "-1", "0", "x", "", "9" * 30])
@pytest.mark.parametrize("name", ["COLUMNS", "LINES"])
def test_a_size_that_no_terminal_has_is_unset(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert (settle_variables(), os.environ.get(name)) == ("", None)
    monkeypatch.setenv(name, "99999")
    assert (settle_variables(), os.environ[name]) == ("", "99999")


def test_a_terminal_of_no_size(tmp_path: Path) -> None:
    """Rich took "²" for digits: a command whose work was done ended in a traceback."""
    assert command("inspect", "shapes-classifier", place=tmp_path, COLUMNS="²", LINES="²") == (0, "")


def test_variables_that_end_opencv_are_not_seen_by_it(coco: CocoSetup, tmp_path: Path) -> None:
    ending = dict.fromkeys(("OPENCV_TRACE", "OPENCV_IO_MAX_IMAGE_PARAMS", "OPENCV_DUMP_ERRORS", "OPENCV_X_Y"), "x")
    words = ("predict", coco.model, coco.images, "--output", tmp_path / "run")
    code, said = command(*words, place=tmp_path, **ending)
    assert code == 0, said
    code, said = command(*words, place=tmp_path, OPENCV_IO_MAX_IMAGE_PIXELS="x")
    assert (code, said.count("error: ")) == (2, 1)
    assert left(tmp_path) == []
