"""A call starts well: imports are what the command needs, and Ctrl-C is handled from the first moment."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import cv2
import numpy as np
import pytest
import typer
from tests.onnx_text import write_onnx
from tests.texts import held

from trt_workbench import __version__
from trt_workbench.app import COMMANDS as TABLE
from trt_workbench.app import PURPOSES, app
from trt_workbench.core.errors import INTERRUPTED

ROOT = Path(__file__).parents[2]
HEAVY = {"numpy", "cv2", "PIL", "onnx", "onnxruntime", "torch", "transformers", "tokenizers", "safetensors"}
HEAVY |= {"pydantic", "matplotlib", "scipy", "hotcoco", "trt_workbench_native"}
SCRIPTS = tomllib.loads((ROOT / "python" / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
COMMANDS = sorted(TABLE)
MODULES = {f"trt_workbench.{place.split(':')[0]}" for place in TABLE.values()}
DOUBLES = ROOT / "tests" / "doubles"
# What a cached engine's first result needs none of, be it for a record or a report that is written after it.
NOT_BEFORE_A_RESULT = {
    "cv2",
    "PIL",
    "onnx",
    "torch",
    "transformers",
    "matplotlib",
    "scipy",
    "hotcoco",
    "jinja2",
    "yaml",
}
NOT_BEFORE_A_RESULT |= {"rich", "psutil", "pynvml", "google", "ml_dtypes", "jsonschema", "filelock", "lazy_loader"}
PARTS = ["interpreter", "options", "core", "imports", "read", "open", "deserialise", "first_call", "rest"]
# Each call in a fork of one process that has imported nothing but what every command imports: 20 times as fast as a
# process each, and as strict.
_CALLS = """
import importlib, json, os, sys, tempfile
import trt_workbench.console.common
answers = []
for entry, *arguments in json.load(sys.stdin):
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(reader)
        sys.argv = arguments
        module, function = entry.split(":")
        code, printed = None, tempfile.TemporaryFile()
        os.dup2(printed.fileno(), 1)
        try:
            getattr(importlib.import_module(module), function)()
        except SystemExit as error:
            code = error.code
        sys.stdout.flush()
        printed.seek(0)
        with open(writer, "w") as pipe:
            json.dump([code, printed.read().decode(), sorted({name.split(".")[0] for name in sys.modules})], pipe)
        os._exit(0)
    os.close(writer)
    with open(reader) as pipe:
        answers.append(json.load(pipe))
    os.wait()
print(json.dumps(answers))
"""

_INTERRUPTED_CALL = """
import importlib, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
module, function = sys.argv.pop(1).split(":")
getattr(importlib.import_module(module), function)()
"""


Answers = dict[tuple[str, ...], tuple[str, set[str]]]


@pytest.fixture(scope="module")
def called() -> Answers:
    """By entry point and arguments: what the call printed and the top-level modules it imported."""
    calls = [(entry, "--help") for entry in SCRIPTS.values()]
    calls += [(SCRIPTS["trtw"], command, "--help") for command in COMMANDS]
    calls += [("numpy:get_include",), (SCRIPTS["trtw"], "--version")]
    words = json.dumps([[entry, "program", *arguments] for entry, *arguments in calls])
    done = subprocess.run([sys.executable, "-c", _CALLS], input=words, capture_output=True, text=True, check=True)
    answers = json.loads(done.stdout)
    assert {code for code, _, _ in answers} <= {0, None}
    return {call: (printed, set(modules)) for call, (_, printed, modules) in zip(calls, answers, strict=True)}


@pytest.mark.parametrize("script", sorted(SCRIPTS))
def test_help_of_a_console_script_imports_nothing_heavy(script: str, called: Answers) -> None:
    printed, modules = called[SCRIPTS[script], "--help"]
    assert printed.lstrip().startswith("Usage: ")
    assert modules & HEAVY == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_imports_nothing_heavy(command: str, called: Answers) -> None:
    printed, modules = called[SCRIPTS["trtw"], command, "--help"]
    assert printed.lstrip().startswith(f"Usage: program {command}")
    assert modules & HEAVY == set()


@pytest.mark.parametrize(
    ("words", "absent"),
    [
        (["--version"], {"typer", "trt_workbench.console.common", *MODULES}),
        (["--help"], MODULES),
        (["-h"], MODULES),
    ],
)
def test_what_names_no_command_imports_none(words: list[str], absent: set[str]) -> None:
    told = "print(*sys.modules, file=sys.stderr)"
    program = f"import atexit, sys; atexit.register(lambda: {told}); from trt_workbench.main import main; main()"
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    imported = set(done.stderr.splitlines()[-1].split())
    assert "trt_workbench.console.streams" in imported
    assert imported & absent == set()


def test_the_version_is_printed(called: Answers) -> None:
    assert called[SCRIPTS["trtw"], "--version"][0] == f"trt-workbench {__version__}\n"


def test_the_list_of_commands_has_the_first_sentence_of_each() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    told = {name: sentence for listed in PURPOSES.values() for name, (_, sentence) in listed.items()}
    assert {name: one.get_short_help_str(limit=1000) for name, one in commands.items()} == told


def test_a_heavy_import_would_be_found(called: Answers) -> None:
    assert called["numpy:get_include",][1] & HEAVY == {"numpy"}


@pytest.mark.parametrize("script", sorted(SCRIPTS))
def test_ctrl_c_while_a_console_script_starts_is_no_traceback(script: str) -> None:
    call = [sys.executable, "-c", _INTERRUPTED_CALL, SCRIPTS[script], "--help"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (INTERRUPTED, "")
    held(done.stderr)


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (["model.plan"], set()),
        (["bare.plan", "--trust"], set()),  # which prints a note
        (["model.onnx", "--backend", "trt"], {"onnx", "google", "ml_dtypes", "filelock", "pynvml"}),
    ],
)
def test_the_first_result_of_an_engine_waits_for_few_imports(
    words: list[str], needed: set[str], tmp_path: Path
) -> None:
    """In processes of their own: what was imported before is what this is about.

    A small model is read, and the driver's version is part of a key of the cache.
    """
    write_onnx(tmp_path / "model.onnx", "g (float[1] x) => (float[1] y) { y = Add(x, x) }")
    environment = {**os.environ, "TRTW_TMP": str(tmp_path / "out"), "TRTW_DOUBLE_MODULES": str(tmp_path / "modules")}
    environment["PYTHONPATH"] = os.pathsep.join([str(DOUBLES), *filter(None, [environment.get("PYTHONPATH")])])

    def trtw(*arguments: str) -> bytes:
        call = [sys.executable, "-c", "from trt_workbench.main import main; main()", *arguments]
        return subprocess.run(call, cwd=tmp_path, env=environment, check=True, capture_output=True).stdout

    trtw("build-engine", "model.onnx", "-o", "model.plan")
    shutil.copy(tmp_path / "model.plan", tmp_path / "bare.plan")
    document = json.loads(trtw("infer-engine", *words, "--no-bench", "--json"))
    assert [*document["first_result_parts_s"]] == PARTS
    assert sum(document["first_result_parts_s"].values()) == pytest.approx(document["first_result_s"])
    assert document["opened_early_s"].keys() == {"cuda", "tensorrt"}
    modules = set((tmp_path / "modules").read_text(encoding="utf-8").splitlines()[-1].split())
    assert "trt_workbench.engine.loading" in modules
    assert {name.split(".")[0] for name in modules} & NOT_BEFORE_A_RESULT <= needed


@pytest.mark.long(but=1)
@pytest.mark.parametrize("words", [("infer-engine", "--no-bench"), ("predict", "image.png", "--no-pictures")])
def test_a_command_on_the_cpu_imports_no_report_and_no_other_runtime(words: tuple[str, ...], tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "image.png"), np.zeros((40, 60, 3), np.uint8))
    spins = "os.environ['OPENBLAS_THREAD_TIMEOUT']"
    told = f"print(gc.isenabled(), gc.get_freeze_count(), {spins}, *sys.modules, file=sys.stderr)"
    program = f"import atexit, gc, os, sys; atexit.register(lambda: {told}); import trt_workbench.main"
    call = [sys.executable, "-c", f"{program}; trt_workbench.main.main()", words[0], "shapes-yolov10", *words[1:]]
    environment = {**os.environ, "TRTW_TMP": str(tmp_path / "out")}
    done = subprocess.run(
        [*call, "--backend", "ort-cpu"], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    collects, frozen, spins, *modules = done.stderr.splitlines()[-1].split()
    assert (collects, spins) == ("True", "4")
    assert int(frozen) > 20_000  # what was imported by then is never searched for garbage
    top = {name.split(".")[0] for name in modules}
    assert "onnxruntime" in top
    assert (
        top & {"torch", "transformers", "matplotlib", "scipy", "jinja2", "jsonschema", "trt_workbench_native"} == set()
    )


def test_a_worker_of_bench_imports_what_arrays_need_alone() -> None:
    """Every repetition may begin in a new one; images, language models and streams are imported for their own kinds."""
    program = "import sys; from trt_workbench.bench import matrix, scenarios; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = set(done.stdout.split())
    assert "trt_workbench.bench.scenarios" in modules
    others = {"trt_workbench.bench.config", "trt_workbench.vision", "trt_workbench.llm", "trt_workbench.stream"}
    assert modules & {*others, "cv2", "PIL", "hotcoco"} == set()


def test_a_model_is_loaded_without_the_command_line_and_what_looks_at_images(tmp_path: Path) -> None:
    """A program that loads a model for arrays pays for ONNX and a runtime; the rest comes when it is asked for."""
    model = write_onnx(tmp_path / "model.onnx", "g (float[1] x) => (float[1] y) { y = Add(x, x) }")
    program = (
        "import sys, trt_workbench.api as tw\n"
        "model = tw.load(sys.argv[1], backend='ort-cpu', precision='fp32', preprocess=None, allow_unverified=False)\n"
        "loaded = {*sys.modules}\n"
        "tw.verify, tw.FoundObjects\n"
        "print(*loaded, '|', *{*sys.modules} - loaded)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(model)], check=True, capture_output=True, text=True)
    modules, later = (set(names.split()) for names in done.stdout.split("|"))
    assert {"onnxruntime", "onnx", "trt_workbench.vision.loaded"} <= modules
    commands = {"trt_workbench.console.common", "trt_workbench.verify.cli", "trt_workbench.bench.cli", "typer"}
    assert commands <= later
    assert modules & (MODULES | commands) == set()
    top = {name.split(".")[0] for name in modules}
    assert top & (HEAVY - {"numpy", "onnx", "onnxruntime"}) == set()
    assert top & NOT_BEFORE_A_RESULT <= {"onnx", "google", "ml_dtypes", "lazy_loader"}
