"""Copies of what is in the repository."""

import shutil
import stat
from pathlib import Path


def copied(source: Path, target: Path) -> Path:
    """Copy a folder of the repository, which may be read-only, to one that can be changed."""
    shutil.copytree(source, target, dirs_exist_ok=True)
    for path in (target, *target.rglob("*")):
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    return target
