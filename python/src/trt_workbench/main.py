"""The console scripts. Importing this module imports next to nothing: Ctrl-C is to be handled from the first moment."""

from __future__ import annotations

import gc
import os
import sys

from trt_workbench import __version__


def main() -> None:
    """Run `trtw`."""
    _run("app")


def build_engine() -> None:
    """Run `build-engine`."""
    _run("build_engine.cli")


def infer_engine() -> None:
    """Run `infer-engine`."""
    _run("infer.cli")


def eval_coco() -> None:
    """Run `eval-coco`."""
    _run("evaluate.cli")


def eval_llm() -> None:
    """Run `eval-llm`."""
    _run("llm.cli")


def _run(module: str) -> None:
    """Import a module of commands and call its `main`, then end. What a running command keeps, `handled` says."""
    code = _code(module)
    from trt_workbench.console.streams import finish

    sys.exit(finish(code))


def _code(module: str) -> int:
    # numpy's threads, one a core, would each spin for a tenth of a second once they are there: 2 s on 16 cores
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    gc.disable()  # modules stay, so that to look for garbage among them is in vain: an eighth of a short call
    try:
        from trt_workbench.core.start import reached

        reached("interpreter")
        from importlib import import_module

        from trt_workbench.console.streams import guard
        from trt_workbench.core.memory import too_little
        from trt_workbench.core.variables import settle_variables
        from trt_workbench.core.workspace import enter_users_folder

        guard()
        if module == "app" and sys.argv[1:] == ["--version"]:
            sys.stdout.write(f"trt-workbench {__version__}\n")
            return 0
        if problem := settle_variables():
            return _said(problem, 2)
        if problem := too_little():
            return _said(problem, 3)
        enter_users_folder()
        import_module(f"trt_workbench.{module}").main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        from trt_workbench.core.errors import INTERRUPTED

        return _said("Interrupted before the command started.", INTERRUPTED)
    except MemoryError:
        return _said("Out of memory at start; allow the process more memory.", 4)
    except (ImportError, OSError) as error:
        return _said(f"The command cannot start because a library cannot be loaded ({error}); reinstall it.", 3)
    return 0


def _said(message: str, code: int) -> int:
    sys.stderr.write(f"error: {message}\n")
    return code
