"""Where the repository and its folders for models and output are."""

from __future__ import annotations

import os
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
    if chosen := os.environ.get("TRTW_ROOT"):
        return Path(chosen).resolve()
    candidates = [*Path(__file__).resolve().parents]
    if pixi_root := os.environ.get("PIXI_PROJECT_ROOT"):
        candidates.append(Path(pixi_root).resolve())
    candidates += [Path.cwd(), *Path.cwd().parents]
    for folder in candidates:
        if (folder / _MARKER).is_file() and (folder / "models").is_dir():
            return folder
    msg = "The trt-workbench repository was not found from here; run inside it or set TRTW_ROOT to its folder."
    raise ComponentMissing(msg)


def models_dir() -> Path:
    """Return the folder of the embedded models."""
    return workspace_root() / "models"


def output_root() -> Path:
    """Return the folder for everything that commands make: `$TRTW_TMP`, else `tmp/` of the repository."""
    if chosen := os.environ.get("TRTW_TMP"):
        return Path(chosen).resolve()
    return workspace_root() / "tmp"


def tensorrt_root() -> Path:
    """Return `extern/tensorrt`, where `setup-tensorrt` puts one folder per version and the link `current`."""
    return workspace_root() / "extern" / "tensorrt"
