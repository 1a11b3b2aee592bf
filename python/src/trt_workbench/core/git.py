"""git, run so that no hook, file system monitor or settings from outside of a repository are executed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

# Settings of a repository that name programs, which commands as harmless as `status` start.
_HARMLESS = ("-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null")


def ask_git(root: Path, *arguments: str, timeout_s: float = 10) -> str:
    """Return what a command that only reads prints about the repository whose work tree is `root`.

    No setting outside the repository is read, and no variable `GIT_…`; no folder above `root` is taken for it.

    Raises:
        OSError: git is not installed.
        subprocess.SubprocessError: `root` is no repository, or the command failed or took too long.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CEILING_DIRECTORIES": str(root.parent),
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }
    # the code of this work tree is what runs here, whoever owns its files
    trusted = ("-c", f"safe.directory={root}")
    command = ["git", "-C", str(root), *_HARMLESS, *trusted, *arguments]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, errors="replace", timeout=timeout_s, env=environment
    ).stdout
