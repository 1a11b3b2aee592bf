"""Timing caches: kernel timings shared between builds, one file per TensorRT version and GPU, replaced under a lock."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import filelock

from trt_workbench.core.errors import UsageProblem, WorkbenchError
from trt_workbench.core.files import anything, write_bytes
from trt_workbench.core.input_files import read_bytes, refuse_special
from trt_workbench.core.workspace import cache_root
from trt_workbench.engine.manifest import manifest_path
from trt_workbench.model.opened import Model
from trt_workbench.model.sniff import PLAN_SUFFIXES, describe_file

Merge = Callable[[bytes, bytes], bytes]

_said: set[Path] = set()  # of these it is said already that timings cannot be joined


def shared_timing_cache(tensorrt_version: str, compute_capability: str, gpu_name: str) -> Path:
    """Return the file that all builds for one TensorRT version and one GPU model share."""
    gpu = re.sub(r"[^A-Za-z0-9]+", "-", gpu_name).strip("-").lower()
    name = f"tensorrt-{tensorrt_version}-sm{compute_capability.replace('.', '')}-{gpu}.timing"
    return cache_root() / "timing-caches" / name


def load_timing_cache(path: Path, *, strict: bool) -> bytes:
    """Return the bytes of a timing cache; empty if there is none yet.

    Raises:
        UsageProblem: `strict` demands a cache and there is none, or the path is a folder.
    """
    if path.is_dir():
        raise UsageProblem(f"The timing cache must be a file, but this is a folder; name a file in it: {path}")
    refuse_special(path)
    with _lock(path):
        if path.is_file():
            _refuse_other(path)
            return read_bytes(path)
    if strict:
        raise UsageProblem(
            f"The strict timing cache does not exist; build once without --timing-cache-strict first: {path}"
        )
    return b""


def save_timing_cache(path: Path, earlier: bytes, built: bytes, merge: Merge) -> str | None:
    """Write the timings of a build back, merged only with what another build wrote meanwhile.

    Nothing is merged while the lock is held, so that builds which end together do not wait for each other. What
    another build writes during a merge is merged in turn.

    Args:
        path: the file.
        earlier: the bytes that the build started from.
        built: the bytes that the build returned, which include `earlier`.
        merge: joins two caches into one; may take long.

    Returns:
        A note the first time that not all timings of concurrent builds could be kept; else None.

    Raises:
        OSError: the folder is not writable.
    """
    ours, seen, note = built, earlier, None
    while True:
        with _lock(path):
            now = read_bytes(path) if path.is_file() else b""
            if now in (b"", seen, ours):
                write_bytes(path, ours, over=anything)
                return note
        seen = now
        try:
            ours = merge(now, ours)
        except WorkbenchError as error:
            # Both may be sound: where it was tried, TensorRT 8.6 refused to join any that hold timings of its compiler
            # Myelin, its own as well, also in a process that had built nothing. A damaged one goes with the next
            # build, which starts from it in vain and then replaces it.
            ours = max(now, ours, key=len)
            if path not in _said:
                known = "" if "myelinCache" in str(error) else f" ({error})"
                note = (
                    f"TensorRT cannot merge this build's timings with another's{known}; the larger set is kept: {path}"
                )
                _said.add(path)


# TensorRT 8.6 begins its timing caches with the tag of its engines, which only their names and manifests distinguish.
_ENGINES = (*PLAN_SUFFIXES, ".trt")


def _refuse_other(path: Path) -> None:
    """Raise UsageProblem for a file that is something else: a build would replace it at its end."""
    what = "is an ONNX model"
    try:
        Model.open(path)
    except UsageProblem:
        what = describe_file(path)
        if "TensorRT engine" in what and not (path.suffix in _ENGINES or manifest_path(path).exists()):
            return
    if not any(words in what for words in ("no known model format", "starts like one", "is empty")):
        raise UsageProblem(
            f"The file given as timing cache {what.split(';')[0]}, and a build would overwrite it: {path}"
        )


def _lock(path: Path) -> filelock.BaseFileLock:
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(path.name + ".lock")
    lock.touch()  # for a file that cannot be made, as below /proc, FileLock waits for ever
    return filelock.FileLock(lock)
