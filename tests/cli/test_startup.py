"""A call starts well: `--help` imports nothing heavy, and Ctrl-C is handled from the first moment."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

from trt_workbench.cli.app import app
from trt_workbench.errors import INTERRUPTED

ROOT = Path(__file__).parents[2]
HEAVY = {"numpy", "cv2", "PIL", "onnx", "onnxruntime", "torch", "transformers", "tokenizers", "safetensors"}
HEAVY |= {"matplotlib", "scipy", "pycocotools", "trt_workbench_native"}
SCRIPTS = tomllib.loads((ROOT / "python" / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
COMMANDS = sorted(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
_CALL = """
import importlib, json, sys
entry, *sys.argv = json.loads(sys.argv[1])
module, function = entry.split(":")
code = None
try:
    getattr(importlib.import_module(module), function)()
except SystemExit as error:
    code = error.code
sys.stderr.write(json.dumps([code, sorted({name.split(".")[0] for name in sys.modules})]))
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


def called(entry: str, *arguments: str) -> tuple[str, set[str]]:
    """Call an entry point in a process of its own; return what it printed and the top-level modules it imported."""
    call = json.dumps([entry, "program", *arguments])
    done = subprocess.run([sys.executable, "-c", _CALL, call], capture_output=True, text=True, check=True)
    code, modules = json.loads(done.stderr)
    assert code in (0, None)
    return done.stdout, set(modules)


@pytest.mark.parametrize("script", sorted(SCRIPTS))
def test_help_of_a_console_script_imports_nothing_heavy(script: str) -> None:
    printed, modules = called(SCRIPTS[script], "--help")
    assert printed.lstrip().startswith("Usage: ")
    assert modules & HEAVY == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_imports_nothing_heavy(command: str) -> None:
    printed, modules = called(SCRIPTS["trtw"], command, "--help")
    assert printed.lstrip().startswith(f"Usage: program {command}")
    assert modules & HEAVY == set()


def test_a_heavy_import_would_be_found() -> None:
    assert called("numpy:get_include")[1] & HEAVY == {"numpy"}


@pytest.mark.parametrize("script", sorted(SCRIPTS))
def test_ctrl_c_while_a_console_script_starts_is_no_traceback(script: str) -> None:
    call = [sys.executable, "-c", _INTERRUPTED_CALL, SCRIPTS[script], "--help"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (INTERRUPTED, "")
    assert done.stderr == "error: Interrupted; nothing was begun.\n"
