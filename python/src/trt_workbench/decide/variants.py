"""Further options of runtimes, each of which is tried as a runtime of its own: a file of YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trt_workbench.core.errors import UsageProblem

Variants = dict[str, dict[str, dict[str, Any]]]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


def read_variants(option: str, file: Path) -> Variants:
    """Return the options of each variant by backend and name.

    Raises:
        UsageProblem: the file is absent or no YAML mapping, or has another form.
    """
    from trt_workbench.core.yaml_files import read_yaml

    document, _ = read_yaml(file, "variants")
    for backend, named in document.items():
        if not isinstance(named, dict) or not all(isinstance(one, dict) and one for one in named.values()):
            raise UsageProblem(
                f"{option} takes options by backend and by name of the variant, such as trt: {{level5: "
                f"{{optimization_level: 5}}}}, not what {backend} has: {file}"
            )
        if wrong := [name for name in named if not _NAME.fullmatch(str(name))]:
            raise UsageProblem(f"A name of a variant has letters, digits and . _ + -, not {wrong[0]!r}: {file}")
    return {str(backend): {str(name): one for name, one in named.items()} for backend, named in document.items()}


def sentences(variants: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[str]:
    """Return what each variant is, in a sentence."""
    return [
        f"{backend}-{name} is {backend} with {', '.join(f'{key}={json.dumps(value)}' for key, value in more.items())}."
        for backend, named in variants.items()
        for name, more in named.items()
    ]
