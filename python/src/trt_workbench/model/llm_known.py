"""Which architectures transformers supports itself."""

from __future__ import annotations

from trt_workbench.core.errors import ComponentMissing
from trt_workbench.core.launcher import package


def is_known(model_type: str) -> bool:
    """Return whether transformers has a class of its own for an architecture.

    Raises:
        ComponentMissing: transformers cannot be imported.
    """
    try:
        from transformers import CONFIG_MAPPING
    except ImportError as error:
        advice = package("transformers")
        raise ComponentMissing(
            f"Language models need torch and transformers, which cannot be imported ({error}). {advice}"
        ) from error
    return model_type in CONFIG_MAPPING
