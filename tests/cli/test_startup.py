"""`--help` answers at once: no command imports a heavy library before it is asked to work."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

from trt_workbench.cli.main import app

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
