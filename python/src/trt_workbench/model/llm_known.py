"""transformers, and which architectures it supports itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trt_workbench.core.errors import ComponentMissing
from trt_workbench.core.launcher import package


@contextmanager
def imports_of_language_models() -> Iterator[None]:
    """Raise ComponentMissing where torch or transformers, which the block imports, cannot be imported."""
    try:
        yield
    except ImportError as error:
        advice = package("transformers")
        raise ComponentMissing(
            f"Language models need torch and transformers, which cannot be imported ({error}). {advice}"
        ) from error


def is_known(model_type: str) -> bool:
    """Return whether transformers has a class of its own for an architecture.

    Raises:
        ComponentMissing: transformers cannot be imported.
    """
    with imports_of_language_models():
        from transformers import CONFIG_MAPPING
    return model_type in CONFIG_MAPPING
