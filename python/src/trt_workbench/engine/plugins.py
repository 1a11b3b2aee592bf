"""Plugin libraries: only those that the user names, opened once, hashed and loaded through one descriptor."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.input_files import open_regular


@dataclass(frozen=True)
class PluginLibrary:
    """A plugin library that is open.

    Attributes:
        path: as the user names it.
        sha256: of what is open.
        descriptor_path: what the core gets: it names this very file, even if `path` changes.
    """

    path: Path
    sha256: str
    descriptor_path: str


@contextmanager
def opened_plugins(paths: Sequence[Path], expected: Sequence[str] | None = None) -> Iterator[tuple[PluginLibrary, ...]]:
    """Open plugin libraries for as long as the context lasts; one that is named twice is opened once.

    Args:
        paths: as the user names them.
        expected: their SHA-256, where they were opened before.

    Raises:
        UsageProblem: a library cannot be read, or is not what was expected.
    """
    with ExitStack() as stack:
        found: dict[str, PluginLibrary] = {}
        for path in paths:
            try:
                file = stack.enter_context(open_regular(path))
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                raise UsageProblem(f"The plugin library cannot be read ({error.strerror}): {path}") from error
            found.setdefault(digest, PluginLibrary(path, digest, f"/proc/self/fd/{file.fileno()}"))
        if expected is not None and list(found) != list(expected):
            changed = ", ".join(map(str, paths))
            raise UsageProblem(f"A plugin library changed while its engine was being prepared; try again: {changed}")
        yield tuple(found.values())
