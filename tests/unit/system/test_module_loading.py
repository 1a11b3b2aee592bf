"""Kernels are loaded eagerly unless the user chose otherwise, whichever way the workbench is entered."""

import os
import subprocess
import sys

import pytest

from trt_workbench.system.module_loading import VARIABLE

ENTRIES = {
    "a backend": "from trt_workbench.backends.registry import get_backend; get_backend('ort-cpu')",
    "the core": "from trt_workbench.engine import native; import contextlib\n"
    "with contextlib.suppress(Exception): native.native()",
    "a command": "import sys, contextlib; sys.argv = ['trtw', '--help']\n"
    "from trt_workbench.cli.main import main\nwith contextlib.suppress(SystemExit): main()",
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize(("chosen", "expected"), [(None, "EAGER"), ("LAZY", "LAZY")])
def test_loading_is_eager_unless_the_user_chose(entry: str, chosen: str | None, expected: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    code = f"{ENTRIES[entry]}\nimport os; print(os.environ['{VARIABLE}'])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, **({VARIABLE: chosen} if chosen else {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split()[-1] == expected
