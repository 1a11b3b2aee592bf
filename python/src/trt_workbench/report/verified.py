"""The mark of a verified engine in a report, with the way to its evidence."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from trt_workbench.core.verification import Mark


def evidence_from(folder: Path) -> Callable[[Mark | None], str | None]:
    """Return a function from a mark, as records and metrics hold it, to the address of its evidence.

    Args:
        folder: of the page; addresses are relative to it.

    Returns:
        For a mark: the page of the verification, else its figures; None where there is none any more.
    """

    def address(mark: Mark | None) -> str | None:
        evidence = Path(mark["evidence"]) if mark and mark["evidence"] else None
        files = [evidence / name for name in ("report.html", "verify.json")] if evidence else []
        return next((os.path.relpath(path, folder) for path in files if path.is_file()), None)

    return address
