"""What tests of several folders share."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

DOUBLES = Path(__file__).parent / "doubles"


@pytest.fixture
def doubled_core(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Put the double of the native core in its place, with an output folder of the test's own."""
    from trt_workbench.engine import native

    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    monkeypatch.syspath_prepend(DOUBLES)
    for name in [name for name in sys.modules if name.split(".")[0] == native.MODULE]:
        monkeypatch.delitem(sys.modules, name)
    native.native.cache_clear()
    yield
    sys.modules.pop(native.MODULE, None)
    native.native.cache_clear()
