"""The engine cache: `engines/KEY/` among the caches, the key made of everything that can change an engine."""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import filelock

from trt_workbench.core.files import replace_folder, write_bytes
from trt_workbench.core.interruptible import deferred_interrupts
from trt_workbench.core.workspace import PLAN_NAME, engine_cache
from trt_workbench.engine.manifest import Manifest, manifest_path, write_manifest

# Part of the key: raised when the meaning of a setting changes.
KEY_VERSION = 1


@dataclass(frozen=True)
class CacheKey:
    """Everything that can change an engine. A field that is None is not known on this machine.

    Attributes:
        model_sha256: of the model with its external data.
        options: build settings as `BuildSettings.key_fields` gives them.
        tensorrt_version: of the library.
        driver_version: of the NVIDIA driver; None where NVML is not installed.
        gpu_name: of the device; two models of one architecture get engines of their own.
        compute_capability: of the device.
        native_version: of the native core.
        calibration_sha256: of the calibration data.
        plugins_sha256: of the plugin libraries, in the order in which they are loaded.
    """

    model_sha256: str
    options: dict[str, Any]
    tensorrt_version: str | None
    driver_version: str | None
    gpu_name: str | None
    compute_capability: str | None
    native_version: str | None
    calibration_sha256: str | None = None
    plugins_sha256: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether this machine has all that an engine is built for."""
        return None not in (self.tensorrt_version, self.gpu_name, self.compute_capability, self.native_version)

    def digest(self) -> str:
        """Return the key as 32 hexadecimal digits."""
        document = {"key_version": KEY_VERSION, **asdict(self)}
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def engines_dir() -> Path:
    """Return the folder of the cache, made for this user only: anyone who can write there can run code here."""
    folder = engine_cache()
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def cached_plan(key: str) -> Path | None:
    """Return the plan kept under `key`; None if there is none."""
    plan = engine_cache() / key / PLAN_NAME
    return plan if plan.is_file() and manifest_path(plan).is_file() else None


@contextlib.contextmanager
def build_lock(key: str, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of `key`, so that two builds of one engine at once give one build.

    Args:
        key: of the engine.
        waiting: called once if another process holds the lock.
    """
    lock = filelock.FileLock(engines_dir() / f".{key}.lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        waiting()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def store(key: str, plan: bytes, manifest: Manifest) -> Path:
    """Keep a plan and its manifest under `key`, both or neither, in place of what was there; the lock must be held.

    Returns:
        The plan's path.

    Raises:
        OSError: the disk is full or the folder is not writable.
    """
    engines = engines_dir()
    for left in engines.glob(f".{key}.staging.*"):
        shutil.rmtree(left, ignore_errors=True)  # of a process that was killed
    staging = engines / f".{key}.staging.{secrets.token_hex(4)}"
    try:
        write_bytes(staging / PLAN_NAME, plan)
        write_manifest(staging / PLAN_NAME, manifest)
        folder = engines / key
        with deferred_interrupts():
            if folder.exists():
                replace_folder(staging, folder)
            else:
                staging.rename(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return folder / PLAN_NAME
