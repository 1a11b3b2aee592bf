"""How a script runs a model with only the runtime: the backend's part of a bug report."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reproduction:
    """Parts of a script that has `minimal.onnx` in the folder `here`, and arrays by name in `inputs` and `expected`.

    Attributes:
        needs: packages, as a list in a sentence.
        imports: lines that import them, numpy as `np` among them.
        body: lines that run the model on `inputs` and put arrays by the names of `expected` into `found`.
    """

    needs: str
    imports: str
    body: str
