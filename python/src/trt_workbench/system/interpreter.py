"""Python processes of our own that import nothing from the folder in which the user happens to be."""

from __future__ import annotations

import sys
from pathlib import Path


def python_command(*arguments: str, python: str | Path = sys.executable) -> list[str]:
    """Return the command line that runs Python with `arguments`, such as "-m" and a module.

    `-m` and `-c` alone would put the current folder first on the import path: a file `json.py` in it would be executed.
    """
    return [str(python), "-P", *arguments]
