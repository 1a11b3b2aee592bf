"""The console scripts. Importing this module imports next to nothing: Ctrl-C is to be handled from the first moment."""

from __future__ import annotations

import sys


def main() -> None:
    """Run `trtw`."""
    _run("app")


def build_engine() -> None:
    """Run `build-engine`."""
    _run("build_engine")


def infer_engine() -> None:
    """Run `infer-engine`."""
    _run("infer_engine")


def eval_coco() -> None:
    """Run `eval-coco`."""
    _run("eval_coco")


def eval_llm() -> None:
    """Run `eval-llm`."""
    _run("eval_llm")


def _run(module: str) -> None:
    """Import a module of commands and call its `main`. What a running command keeps, `handled` says."""
    try:
        from importlib import import_module

        import_module(f"trt_workbench.cli.{module}").main()
    except KeyboardInterrupt:
        from trt_workbench.errors import INTERRUPTED

        sys.stderr.write("error: Interrupted; nothing was begun.\n")
        sys.exit(INTERRUPTED)
