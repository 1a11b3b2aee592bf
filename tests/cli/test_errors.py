"""How a command ends on an error that no part of the workbench gave words to."""

import errno
import os

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from trt_workbench.cli.common import handled, single_command_app


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
    assert result.stderr == "error: File exists; a folder is needed there, so choose another place: notes.txt\n"


def test_a_reader_that_went_away_gets_no_words() -> None:
    result = _invoke(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)))

    assert result.exit_code == 1
    assert result.stderr == ""
