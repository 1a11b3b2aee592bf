"""`config.pbtxt`: Triton's configuration in the text form of its protocol buffers, written and parsed by them."""

from __future__ import annotations

from typing import Any

from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.core.launcher import package

HEAD = "# Written by `trtw export-triton`.\n"


def require_format() -> None:
    """Raise ComponentMissing where tritonclient is absent, which has Triton's protocol buffers."""
    try:
        import tritonclient.grpc.model_config_pb2  # noqa: F401
    except (ImportError, RuntimeError) as error:  # it raises the latter where a library that it needs is absent
        raise ComponentMissing(
            "export-triton writes Triton's configuration by tritonclient, which cannot be imported "
            f"({error.__cause__ or error}). "
            f"{package('tritonclient')}"
        ) from error


def text_of(config: dict[str, Any]) -> str:
    """Return a configuration as text, which was parsed again.

    Raises:
        UsageProblem: Triton's format does not take a value.
    """
    from google.protobuf import json_format, text_format  # type: ignore[import-untyped]
    from tritonclient.grpc import model_config_pb2

    try:
        message = json_format.ParseDict(config, model_config_pb2.ModelConfig())
        text: str = HEAD + text_format.MessageToString(message, as_utf8=True)
    except (json_format.ParseError, ValueError, TypeError) as error:
        raise UsageProblem(f"Triton's configuration of {config.get('name')} cannot be written: {error}") from error
    again = text_format.Parse(text, model_config_pb2.ModelConfig())
    if again != message:
        raise AssertionError(text)
    return text
