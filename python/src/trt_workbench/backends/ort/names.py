"""The model's nodes behind a node of ONNX Runtime, whose rewrites rename and fuse."""

from __future__ import annotations

import re

from trt_workbench.model.node_names import ModelNodes

# The endings of graph fusions and of GenerateUniqueNodeName; what the rewrites of convolutions put before and after
# the name of a node or of its output.
_UNIQUE = re.compile(r"(?:/\w+Fusion/?)?(?:_token_\d+)?$")
_BEFORE = "fused "
_AFTER = "_nchwc"
# Put before the name of a tensor whose type ONNX Runtime changed where it has no kernel for the model's.
_CAST = "InsertedPrecisionFreeCast_"
# Operators that are no part of a model unless they bear one of its names.
_MADE = frozenset({"Cast", "MemcpyFromHost", "MemcpyToHost", "ReorderInput", "ReorderOutput"})
# The longest chain that a fusion absorbs: convolution, addition, activation.
_REACH = 4


def origin(name: str, operator: str | None, model: ModelNodes) -> list[str]:
    """Return the names of the model's nodes in execution order; none if ONNX Runtime made the node up.

    A node that was fused bears the name of its last part (`NAME/QuickGeluFusion/`), of that part's output
    (`OUTPUT_nchwc`) or of its first part (`fused NAME`).
    From the last part the chain is followed back to the node of the same operator.

    Args:
        name: of the node in the session.
        operator: of the node in the session.
        model: the nodes of the file.
    """
    if name in model.operators:
        return [name]
    if operator in _MADE:
        return []
    stem = _UNIQUE.sub("", name, count=1).removeprefix(_BEFORE).removesuffix(_AFTER).removeprefix(_CAST)
    last = stem if stem in model.operators else model.producers.get(stem)
    if last is None:
        return []
    chain = [last]
    while model.operators[chain[0]] != operator and len(chain) < _REACH and chain[0] in model.sources:
        chain.insert(0, model.sources[chain[0]])
    return chain if model.operators[chain[0]] == operator else [last]
