"""Where the repository and its folders for models and output are."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from trt_workbench.errors import ComponentMissing

_MARKER = "pixi.toml"


def workspace_root() -> Path:
    """Return the root of the trt-workbench repository.

    Looked for in this order: `$TRTW_ROOT`, the folders above this file (an editable install), `$PIXI_PROJECT_ROOT`,
    the folders above the current one.

    Raises:
        ComponentMissing: none of them is the repository.
    """
    root = _repository([*_chosen_roots(), Path.cwd(), *Path.cwd().parents])
    if root is None:
        raise ComponentMissing(
            "The trt-workbench repository was not found from here; run inside it or set TRTW_ROOT to its folder."
        )
    return root


def _chosen_roots() -> list[Path]:
    """Return the folders that the user chose, by installing or by variables; the current one is none of them."""
    if chosen := os.environ.get("TRTW_ROOT"):
        return [Path(chosen).resolve()]
    pixi_root = os.environ.get("PIXI_PROJECT_ROOT")
    return [*Path(__file__).resolve().parents, *([Path(pixi_root).resolve()] if pixi_root else [])]


def _repository(candidates: Iterable[Path]) -> Path | None:
    if os.environ.get("TRTW_ROOT"):
        return next(iter(candidates))
    return next(
        (folder for folder in candidates if (folder / _MARKER).is_file() and (folder / "models").is_dir()), None
    )


def enter_users_folder() -> None:
    """Go to the folder in which the user stands, so that paths on the command line mean that one.

    pixi and tasks/run start a task in the root of the repository and leave the user's folder in `$INIT_CWD`. Any other
    folder was chosen: by `cd` in a shell that pixi started, or by a task of another project, whose paths are its own.
    """
    root, folder = os.environ.get("PIXI_PROJECT_ROOT"), os.environ.get("INIT_CWD")
    if not root or not folder or Path(root).resolve() not in Path(__file__).resolve().parents:
        return
    with contextlib.suppress(OSError):  # the folder is gone
        if Path(root).samefile(Path.cwd()):
            os.chdir(folder)


def models_dir() -> Path:
    """Return the folder of the embedded models."""
    return workspace_root() / "models"


def output_root() -> Path:
    """Return the folder for everything that commands make: `$TRTW_TMP`, else `tmp/` of the repository."""
    if chosen := os.environ.get("TRTW_TMP"):
        return Path(chosen).resolve()
    return workspace_root() / "tmp"


def tensorrt_root() -> Path:
    """Return `extern/tensorrt`, where `setup-tensorrt` puts one folder per version and the link `current`.

    What lies there is executed, so a repository that is only the current folder, perhaps somebody else's, does not
    count.

    Raises:
        ComponentMissing: no repository was chosen by installing from it, by pixi, by tasks/run or by `$TRTW_ROOT`.
    """
    root = _repository(_chosen_roots())
    if root is None:
        raise ComponentMissing(
            "TensorRT's libraries are code, so they are not taken from the current folder: set TRTW_ROOT to the "
            "repository's folder, or TENSORRT_HOME to TensorRT's."
        )
    return root / "extern" / "tensorrt"
