"""Scripts that belong to no package, as modules."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest


def load_script(path: Path, monkeypatch: pytest.MonkeyPatch | None = None) -> Any:
    """Execute a script and return its module, which with `monkeypatch` can be imported by its name meanwhile."""
    spec = spec_from_file_location(path.stem, path)
    assert spec.loader
    module = module_from_spec(spec)
    if monkeypatch:
        monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    return module
