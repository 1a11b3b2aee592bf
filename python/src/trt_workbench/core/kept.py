"""Files kept between calls, with their hash: a damaged, edited or truncated one is discarded and made again.

The hash shows damage and edits, not origin: whoever can write the folder can write the hash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from trt_workbench.core.documents import Strict, json_values, read_document, write_json
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import anything
from trt_workbench.core.hashing import hash_document, hash_file

T = TypeVar("T")
Note = Callable[[str], None]
_SEAL = "seal.json"


class _Sealed(Strict):
    sha256: str
    document: dict[str, Any]


def keep(path: Path, document: Any) -> None:
    """Write a model or dataclass with its hash. Raises OSError where that fails."""
    values = json_values(document)
    write_json(path, _Sealed(sha256=hash_document(values), document=values), over=anything)


def recalled(path: Path, kind: type[T], note: Note) -> T | None:
    """Return a document that `keep` wrote; None where there is none, or it was changed, which is noted."""
    if not path.is_file():
        return None
    try:
        found = read_document(path, _Sealed)
        if hash_document(found.document) == found.sha256:
            return TypeAdapter(kind).validate_python(found.document)
    except (UsageProblem, ValueError):
        pass
    note(f"{path.name} was damaged or changed since it was written; it is created again: {path}")
    return None


class _Files(Strict):
    files: dict[str, str]


def seal(files: Sequence[Path]) -> None:
    """Keep the hashes of files of one folder next to them. Raises OSError where that fails."""
    keep(_seal_of(files[0]), _Files(files={file.name: hash_file(file) for file in files if file.is_file()}))


def sealed(files: Sequence[Path], note: Note = lambda _: None) -> bool:
    """Whether files of one folder are unchanged since they were sealed; if not, that is noted.

    Args:
        files: the first names the seal; further ones may be absent if they were.
        note: called with messages for the user.
    """
    path = _seal_of(files[0])
    if not path.is_file():
        return False
    found = recalled(path, _Files, note)
    if found is None:
        return False
    there = {file.name: hash_file(file) for file in files if file.is_file()}
    if there == found.files:
        return True
    changed = sorted({name for name, _ in there.items() ^ found.files.items()})
    note(f"{', '.join(changed)} changed since it was written; it is created again: {files[0].parent}")
    return False


def _seal_of(file: Path) -> Path:
    return file.with_name(f"{file.name}.{_SEAL}")
