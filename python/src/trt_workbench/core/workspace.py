"""Where things lie: the repository, if there is one, the embedded models, outputs, caches and third-party trees."""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
from pathlib import Path
from typing import Any

from trt_workbench.core.errors import ComponentMissing, UsageProblem

_OWN_PLACE = Path("python", "src", "trt_workbench", "__init__.py")
_NAME = "trt-workbench"


def repository() -> Path | None:
    """Return the root of the trt-workbench repository that the user chose; None for an installed package on its own.

    It is `$TRTW_ROOT`, else the one that this file lies in (an editable install), else that of `$PIXI_PROJECT_ROOT`.
    The current folder does not count: what lies in `tmp/` and `extern/` is executed, and it may be anybody's.
    """
    if chosen := os.environ.get("TRTW_ROOT"):
        return Path(chosen).resolve()
    pixi_root = os.environ.get("PIXI_PROJECT_ROOT")
    candidates = [*Path(__file__).resolve().parents, *([Path(pixi_root).resolve()] if pixi_root else [])]
    return next((folder for folder in candidates if (folder / _OWN_PLACE).is_file()), None)


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
    """Return the folder of the embedded models: a part of the package, and in the repository a link to `models/`."""
    return (Path(__file__).parents[1] / "embedded_models").resolve()


def output_root() -> Path:
    """Return the folder for what commands make: `$TRTW_TMP`, else `tmp/` of the repository or of the current folder.

    Raises:
        UsageProblem: the current folder cannot be written.
    """
    if chosen := _chosen_tmp():
        return chosen
    folder = Path.cwd() / "tmp"
    if not os.access(folder if os.path.lexists(folder) else Path.cwd(), os.W_OK):
        raise UsageProblem(f"The current folder is not writable; choose another with --output: {Path.cwd()}")
    return folder


def cache_root() -> Path:
    """Return the folder for what can be made again: `$TRTW_TMP`, else `tmp/` of the repository, else the user's cache.

    Raises:
        UsageProblem: the user's cache cannot be made, or as `_users_cache`.
    """
    if chosen := _chosen_tmp():
        return chosen
    folder = _users_cache()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageProblem(
            f"The cache folder cannot be created ({error.strerror}); set XDG_CACHE_HOME to another: {folder}"
        ) from error
    return folder


PLAN_NAME = "engine.plan"


def engine_cache() -> Path:
    """Return the folder of the engine cache, a folder for each key with `PLAN_NAME` in it. Raises as `cache_root`."""
    return cache_root() / "engines"


def extern_root() -> Path:
    """Return the folder for third-party trees: `extern/` of the repository, else of the user's cache.

    Raises:
        UsageProblem: as `_users_cache`.
    """
    return (repository() or _users_cache()) / "extern"


def tensorrt_root() -> Path:
    """Return where `setup-tensorrt` puts one folder per version and the link `current`. Raises as `extern_root`."""
    return extern_root() / "tensorrt"


def _chosen_tmp() -> Path | None:
    if chosen := os.environ.get("TRTW_TMP"):
        return Path(chosen).resolve()
    root = repository()
    return root and root / "tmp"


def _users_cache() -> Path:
    """Return `trt-workbench` in the user's folder for caches, by the XDG Base Directory Specification 0.8.

    It ignores an `$XDG_CACHE_HOME` that is not absolute. Without a `$HOME`, the user's entry names the folder.

    Raises:
        UsageProblem: neither variable is set, and the user has no entry; or the folder is another user's, or anybody
            can write it.
    """
    chosen = [Path(os.environ.get("XDG_CACHE_HOME", "")), Path(os.environ.get("HOME", ""), ".cache")]
    if not any(one.is_absolute() for one in chosen):  # else nobody is asked: accounts may lie in the network
        with contextlib.suppress(KeyError):  # no entry, as in a container that is started for a number
            chosen.append(Path(pwd.getpwuid(os.getuid()).pw_dir, ".cache"))
    folder = next((one / _NAME for one in chosen if one.is_absolute()), None)
    if folder is None:
        raise UsageProblem(f"User {os.getuid()} has no home folder for caches; set XDG_CACHE_HOME to an absolute path.")
    with contextlib.suppress(OSError):
        found, others = folder.stat(), stat.S_IWOTH | stat.S_IWGRP
        if found.st_uid not in (0, os.getuid()) or found.st_mode & others:
            whose = "is writable by others" if found.st_mode & others else "belongs to another user"
            raise UsageProblem(
                f"The cache folder {whose}, and its files would be loaded; set XDG_CACHE_HOME to a folder that only "
                f"you can write: {folder}"
            )
    return folder


DETECTOR, SEGMENTER, CLASSIFIER = "shapes-yolov10", "shapes-segmenter", "shapes-classifier"
LLM, ENCODER = "tiny-lm", "streaming-encoder"
EMBEDDED_MODELS = {
    DETECTOR: Path(DETECTOR, f"{DETECTOR}.onnx"),
    SEGMENTER: Path(SEGMENTER, f"{SEGMENTER}.onnx"),
    CLASSIFIER: Path(CLASSIFIER, f"{CLASSIFIER}.onnx"),
    LLM: Path(LLM),
    ENCODER: Path(ENCODER, f"{ENCODER}.onnx"),
}
"""By the names that bench configurations use: a file, or the folder of a language model."""


def embedded_model(name: str = DETECTOR) -> Path:
    """Return the file of an embedded model, or the folder of a language model.

    Raises:
        ComponentMissing: the model is absent.
    """
    return _existing(EMBEDDED_MODELS[name], f"The embedded model {name}", "a model")


def embedded_text() -> Path:
    """Return the file of the text that the embedded language model has never seen. Raises as `embedded_model`."""
    return _existing(EMBEDDED_MODELS[LLM] / "held-out.txt", "The embedded text", "--text")


def embedded_contract() -> Path:
    """Return the contract of the embedded streaming encoder. Raises as `embedded_model`."""
    return _existing(Path(ENCODER, "contract.json"), "The contract of the embedded encoder", "--contract")


def with_embedded(given: dict[str, Any]) -> dict[str, Any]:
    """Replace the name of an embedded model or contract by its path, unless a file here has that name."""
    for role in ("model", "target", "file", "contract"):
        value = given.get(role)
        if isinstance(value, str | Path) and str(value) in EMBEDDED_MODELS and not Path(value).exists():
            if role != "contract":
                given[role] = type(value)(embedded_model(str(value)))
            elif str(value) == ENCODER:
                given[role] = embedded_contract()
    return given


def _existing(part: Path, what: str, instead: str) -> Path:
    path = models_dir() / part
    if not (path / "model.safetensors" if path.is_dir() else path).is_file():
        raise ComponentMissing(
            f"{what} is missing; reinstall trt-workbench, restore it with git, or pass {instead}: {path}"
        )
    return path
