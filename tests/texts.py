"""Texts that users read, held as snapshots: the files in tests/snapshots, one for each module of tests.

A test says what is refused, `with refused(UsageProblem): …`; its snapshot holds the whole message. What differs between
machines, runs and versions of libraries is masked here, in one place. CONTRIBUTING.md says how a text is changed.
"""

import dis
import functools
import platform
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import pytest

from trt_workbench.core.errors import printable

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "snapshots"
_Error = TypeVar("_Error", bound=BaseException)
# Folders come first: their names may hold what the other masks look for.
_MASKS = {
    r"[^\s'\"(]*/site-packages": "<site-packages>",
    r"\b\d{8}T\d{6}Z-[0-9a-f]{6}\b": "<run>",
    r"\[ONNXRuntimeError\].*(?=\))": "<reason>",
    r"<reason> Explanation: .*?(?=\)\. Omit)": "<reason>",  # of PyTorch's compiler, with lines of files
    r"\bline \d+ column \d+ \(char \d+\)": "<place>",  # in JSON that holds temporary folders
    r"\b127\.0\.0\.1:\d+": "127.0.0.1:<port>",
    r"[\d.]+ [KMGT]?i?B of memory are free": "<memory> of memory are free",
    r"\bcp3\d+-cp3\d+-\w+\.whl": "<tags>.whl",
    r"(?m)^\[\d+ s\] .*$": "",  # where the machine is slow
    r"\b(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{12,64}\b": "<hash>",
}
_running: list[pytest.FixtureRequest] = []
_said = ""  # the text that is compared


@contextmanager
def running(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let `held` know the test whose texts it holds."""
    _running.append(request)
    yield
    _running.pop()


@contextmanager
def refused(*kinds: type[_Error]) -> Iterator[pytest.ExceptionInfo[_Error]]:
    """Expect an error of one of these classes with the message that the snapshot has."""
    __tracebackhide__ = True
    with pytest.raises(kinds) as caught:
        yield caught
    held(without_reasons(caught.value))


def held(*texts: str) -> None:
    """Compare texts, masked and a line each, with their snapshot: the next one of the running test."""
    global _said
    __tracebackhide__ = True
    snapshot = _running[-1].getfixturevalue("text_snapshot")
    lines = masked("\n".join(texts), _running[-1].config).splitlines()
    _said = "\n".join(line for line in lines if line.strip())
    if snapshot != _said:
        difference = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(snapshot.get_assert_diff()))  # a colour for each letter
        pytest.fail(f"The text is not the snapshot's; --snapshot-update accepts it:\n{difference}")


def masked(text: str, config: pytest.Config) -> str:
    """Return a text without what differs between machines, runs and versions of libraries."""
    base = config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    # One may lie in another: the inner ones first.
    folders = {rf"{re.escape(str(base))}(/[\w-]+)?": "<tmp>", re.escape(sys.executable): "<python>"}
    folders |= {re.escape(str(ROOT)): "<repository>", rf"{re.escape(tempfile.gettempdir())}/[\w-]+": "<tmp>"}
    for pattern, name in {**folders, **_versions(), **_MASKS}.items():
        text = re.sub(pattern, name, text)
    return text


@functools.cache
def _versions() -> dict[str, str]:
    """Return patterns of the versions that are installed here; a version that a test made up stays."""
    packages = {re.split(r"[^\w-]", one)[0] for one in metadata.requires("trt-workbench") or []} | {"trt-workbench"}
    found = [platform.python_version(), platform.release()]
    found += [one.version for name in packages for one in metadata.distributions(name=name)]
    return {rf"(?<![\w.]){re.escape(one)}(?![\w.]*\d)": "<version>" for one in sorted(found, reverse=True)}


@functools.lru_cache(1)
def _known(file: Path, _written_ns: int) -> dict[str, str]:
    return {one.name: one.data for one in extension()().read_snapshot_collection(str(file))}


@functools.cache
def extension() -> type[Any]:
    """Return the syrupy extension that writes one file a module into `FOLDER`."""
    amber = pytest.importorskip("syrupy.extensions.amber")

    class Texts(amber.AmberSnapshotExtension):  # type: ignore[misc, name-defined]
        @classmethod
        def dirname(cls, **_location: Any) -> str:
            return str(FOLDER)

        @classmethod
        def get_file_basename(cls, *, test_location: Any, **_index: Any) -> str:
            # The folders, too: modules of several folders have the same name.
            return ".".join(Path(test_location.filepath).relative_to(ROOT / "tests").with_suffix("").parts)

        @classmethod
        def get_snapshot_name(cls, *, test_location: Any, index: Any = 0) -> str:
            """Cases of a test that say the same share a snapshot, without parameters in its name."""
            name = str(super().get_snapshot_name(test_location=test_location, index=index))
            shared = re.sub(r"(?s)\[.*\](?=(\.\d+)?$)", "", name)
            file = Path(cls.get_location(test_location=test_location, index=index))
            known = _known(file, file.stat().st_mtime_ns) if file.is_file() else {}
            updated = _running and _running[-1].config.option.update_snapshots  # none runs where names are ordered
            own = name in known or shared not in known or (updated and known[shared] != cls().serialize(_said))
            return name if own else shared

        @classmethod
        def matches_test_location(cls, *, test_location: Any, snapshot_location: str) -> bool:
            return Path(snapshot_location).stem == cls.get_file_basename(test_location=test_location)

    return Texts


def without_reasons(error: BaseException) -> str:
    """Return the message without what it quotes of a library or of Python: that changes with their versions."""
    text, cause = str(error), error.__cause__ or error.__context__
    while cause is not None:
        said = str(cause)
        for quoted in (" ".join(said.split()), printable(said), printable(said.split("\n", 1)[0])):
            if len(quoted) > 3 and not _is_ours(cause):
                text = text.replace(quoted, "<reason>")
        cause = cause.__cause__ or cause.__context__
    return text


def _is_ours(error: BaseException) -> bool:
    """Return whether a `raise` of this repository words the error; a missing key is worded by nobody."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or isinstance(error, KeyError):
        return True
    code = trace.tb_frame.f_code
    raises = code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"]
    return raises and Path(code.co_filename).is_relative_to(ROOT) and "site-packages" not in code.co_filename
