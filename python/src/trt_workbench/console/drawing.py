"""Drawing the report of a run whose measurements are in their place: a failure costs the report, never the run."""

from __future__ import annotations

import shlex
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trt_workbench.console.common import print_json, print_parts, print_run
from trt_workbench.console.progress import at_stage
from trt_workbench.core.errors import INTERRUPTED, DeviceFailure, UsageProblem, WorkbenchError

if TYPE_CHECKING:
    from trt_workbench.console.common import Parts


@dataclass(frozen=True)
class ReportOutcome:
    """How drawing went. `exit_code` is 0, or that of the kind of failure."""

    exit_code: int = 0

    def end(self) -> None:
        """End the command with the exit code of a failure; called when all else is done. Raises typer.Exit."""
        if self.exit_code:
            raise typer.Exit(self.exit_code)


def draw(directory: Path, *, debug: bool = False) -> ReportOutcome:
    """Draw the report into a finished run directory; a failure is a warning that says how to draw again.

    Args:
        directory: the run directory.
        debug: show the traceback of a failure.
    """
    try:
        with at_stage(lambda: "Drawing the report"):
            from trt_workbench.report.reports import write_report

            write_report(directory)
    except KeyboardInterrupt:
        problem, code = "interrupted", INTERRUPTED
    except WorkbenchError as error:
        problem, code = str(error), error.exit_code
    except MemoryError:
        problem, code = "out of memory", DeviceFailure.exit_code
    except Exception as error:  # whatever it is, the measurements are worth more
        problem, code = f"{type(error).__name__}: {error}", UsageProblem.exit_code
    else:
        return ReportOutcome()
    if debug:
        traceback.print_exc()
    again = f"draw it with: trtw report {shlex.quote(str(directory))}"
    line = " ".join(problem.split()).encode(errors="backslashreplace").decode()
    sys.stderr.write(f"warning: The report could not be drawn ({line}). The measurements are kept; {again}\n")
    return ReportOutcome(code)


def present(
    directory: Path,
    document: Any,
    show: Callable[[Path], Parts],
    *,
    as_json: bool,
    debug: bool = False,
    report: bool = True,
) -> ReportOutcome:
    """Draw the report of a finished run, then print what it found.

    Args:
        directory: the run directory.
        document: what `--json` prints, with the directory.
        show: returns what people see of it.
        as_json: whether `--json` was given.
        debug: as of `draw`.
        report: whether there is to be one.
    """
    drawing = draw(directory, debug=debug) if report else ReportOutcome()
    if as_json:
        from trt_workbench.core.documents import json_values

        print_json({**json_values(document), "directory": str(directory)})
    else:
        print_parts(show(directory))
        print_run(directory)
    return drawing
