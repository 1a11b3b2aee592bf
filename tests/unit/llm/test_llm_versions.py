"""A language model cannot be exported without PyTorch, and the error says what brings it."""

import importlib.metadata

import pytest
from tests.texts import refused

from trt_workbench.core.errors import ComponentMissing
from trt_workbench.llm import export


def test_a_missing_package_is_named_with_its_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.metadata.version

    def without_torch(name: str) -> str:
        if name == "torch":
            raise importlib.metadata.PackageNotFoundError(name)
        return found(name)

    monkeypatch.setattr(importlib.metadata, "version", without_torch)
    with refused(ComponentMissing):
        export._versions()
