"""Write a run in one of the formats; a file that is there is replaced only if it is of the same format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from trt_workbench.core.artefacts import RunDocument, run_document
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import refuse_foreign, write_text
from trt_workbench.core.input_files import read_bytes, read_text
from trt_workbench.core.workspace import output_root
from trt_workbench.export.figures import figures_of
from trt_workbench.export.formats import ACTION, BENCHER, action, bencher
from trt_workbench.export.tables import require_pyarrow, write_table

_PARQUET = b"PAR1"


def write_export(run: Path, to: str, output: Path | None) -> list[Path]:
    """Write a run for another tool and return the paths of the files.

    Args:
        run: run directory.
        to: "parquet", "bencher" or "github-action-benchmark".
        output: folder, made if absent; None for `tmp/export/<run-id>/`.

    Raises:
        UsageProblem: the run is incomplete or damaged, or has no figures; or a file of that name is another's.
        ComponentMissing: a package is missing.
        OSError: a file cannot be written.
    """
    if to == "parquet":
        require_pyarrow()
    document = run_document(run)
    folder = output or output_root() / "export" / document.run_id
    if folder.exists() and not folder.is_dir():
        raise UsageProblem(f"The output is a file; name a folder: {folder}")
    if to == "parquet":
        place = folder / "records.parquet"
        refuse_foreign(place, _READ_BACK[to])
        write_table(run, place)
        return [place]
    written = []
    for name, text in _texts(run, to, document).items():
        place = folder / name
        write_text(place, text, over=_READ_BACK[to])
        _READ_BACK[to](place)
        written.append(place)
    return written


def _texts(run: Path, to: str, document: RunDocument) -> dict[str, str]:
    figures = figures_of(run)
    if not figures:
        raise UsageProblem(f"The run measured nothing, so there is nothing to export: {run}")
    if to == "bencher":
        return {"bencher.json": bencher(figures)}
    return {f"{tool}.json": text for tool, text in action(figures, document).items()}


# Whether a file is of the format; raises ValueError where it is not.
_READ_BACK: dict[str, Callable[[Path], object]] = {
    "bencher": lambda path: BENCHER.validate_json(read_text(path)) is not None,
    "github-action-benchmark": lambda path: ACTION.validate_json(read_text(path)) is not None,
    "parquet": lambda path: read_bytes(path).startswith(_PARQUET),
}
