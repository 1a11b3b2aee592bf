"""How a command ends on an error that no part of the workbench gave words to."""

import errno
import os

import numpy as np
import pytest
from tests.texts import held
from typer.testing import CliRunner, Result

from trt_workbench.console.common import handled, single_command_app
from trt_workbench.core.errors import UsageProblem


def _invoke(error: BaseException) -> Result:
    @handled
    def command() -> None:
        raise error

    return CliRunner().invoke(single_command_app(command), [])


def test_arrays_beyond_the_memory_end_in_one_paragraph() -> None:
    with pytest.raises(MemoryError) as caught:
        np.empty((1 << 50, 16), np.float32)

    result = _invoke(caught.value)

    assert result.exit_code == 4
    assert result.stderr.startswith("error: Out of memory (Unable to allocate")


def test_a_file_in_place_of_a_folder_is_told_with_a_mend() -> None:
    result = _invoke(FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), "notes.txt"))

    assert result.exit_code == 2
    held(result.stderr)


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), 4, "Out of memory"),
        (ImportError("libx.so: failed to map segment from shared object"), 3, "failed to map segment"),
        (RecursionError("maximum recursion depth exceeded"), 2, "nested too deeply"),
        (BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)), 2, "Broken pipe"),
        (UnicodeEncodeError("utf-8", "b\udcff", 1, 2, "surrogates not allowed"), 2, "is not valid text: 'b\\udcff'"),
        (UsageProblem("\x1b[31mred\x1b[0m\0 \udcff"), 2, "error: red\\x00 \\udcff\n"),
    ],
)
def test_other_errors_have_their_code(error: Exception, code: int, text: str) -> None:
    result = _invoke(error)

    assert result.exit_code == code
    assert text in result.stderr
