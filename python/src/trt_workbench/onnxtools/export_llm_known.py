"""Which architectures transformers knows by itself."""

from __future__ import annotations

from trt_workbench.errors import ComponentMissing

MEND = "Use the environment `llm` (`pixi run -e llm …`), or install them with `pip install './python[llm]'`."


def is_known(model_type: str) -> bool:
    """Return whether transformers has a class of its own for an architecture.

    Raises:
        ComponentMissing: transformers cannot be imported.
    """
    try:
        from transformers import CONFIG_MAPPING
    except ImportError as error:
        msg = f"Language models need torch and transformers, which cannot be imported ({error}). {MEND}"
        raise ComponentMissing(msg) from error
    return model_type in CONFIG_MAPPING
