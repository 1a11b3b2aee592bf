"""The `decoding` of a first contract: decoder, joiner and tokens that an exporter wrote next to an encoder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trt_workbench.core.errors import whole_number
from trt_workbench.model.facts import ModelTensor
from trt_workbench.model.opened import Model
from trt_workbench.stream.contract.model_tensors import ModelTensors, read_tensors
from trt_workbench.stream.contract.reading import UNDECIDED
from trt_workbench.stream.contract.vocabulary import BLANKS, UNKNOWN, Vocabulary

_ENCODER = "encoder"


def add_decoding(document: dict[str, Any], path: Path) -> list[str]:
    """Add `decoding` to a contract's document where a transducer's files, or those of CTC, are next to the encoder.

    Args:
        document: of the contract; changed in place.
        path: of the encoder. A transducer's name has `encoder` where the others have `decoder` and `joiner`; CTC has as
            many scores as `tokens.txt` has tokens.

    Returns:
        What was concluded, a sentence; nothing where a file is missing.

    Raises:
        UsageProblem: one of the files cannot be read.
    """
    files = {part: path.with_name(path.name.replace(_ENCODER, part)) for part in ("decoder", "joiner")}
    tokens = path.with_name("tokens.txt")
    if not tokens.is_file():
        return []
    if _ENCODER not in path.name or not all(one.is_file() for one in files.values()):
        return _add_ctc(document, tokens)
    decoder, joiner = (read_tensors(one) for one in files.values())
    width = next((dim for one in joiner.inputs.values() for dim in one.shape or () if isinstance(dim, int)), None)
    frames = _frames(document, width)
    if frames is None:
        return []
    pieces = Vocabulary(tokens).pieces
    count = whole_number(decoder.metadata.get("vocab_size", ""))  # icefall's, with the blank
    scored = max(pieces) + 1 if count is None else count
    said: dict[str, Any] = {**_kind(joiner, scored), "frames": frames, "tokens": tokens.name}
    said["blank"] = _blank(pieces)
    said |= {part: one.name for part, one in files.items()}
    said |= {"state": states} if (states := _states(decoder)) else {"max_symbols": 1}
    if not states:
        said |= _of_icefall(pieces, _start(files["decoder"], decoder, said["blank"]))
    document |= {"schema_version": 3, "decoding": said}
    return [f"Decoding: {said['kind']} of {files['decoder'].name}, {files['joiner'].name} and {tokens.name}"]


def _add_ctc(document: dict[str, Any], tokens: Path) -> list[str]:
    """Add the decoding of CTC where one output has a score for each token."""
    pieces = Vocabulary(tokens).pieces
    count = max(pieces) + 1
    frames = _frames(document, count)
    if frames is None or document["outputs"][frames]["shape"][2] != count:
        return []
    said = {"kind": "ctc", "frames": frames, "tokens": tokens.name, "blank": _blank(pieces)}
    document |= {"schema_version": 3, "decoding": said}
    return [f"Decoding: ctc of {frames} by {tokens.name}"]


def _blank(pieces: Mapping[int, str]) -> int | str:
    found = [number for number, piece in pieces.items() if piece in BLANKS]
    return found[0] if found else f"{UNDECIDED}: the number of the blank"


def _kind(joiner: ModelTensors, tokens: int) -> dict[str, Any]:
    """Return kind and durations: what the joiner scores beyond the tokens are durations from 0 on."""
    (scores, *_) = joiner.outputs.values()
    count = (scores.shape or (None,))[-1]
    if not isinstance(count, int) or count < tokens:
        return {"kind": f"{UNDECIDED}: transducer, or tdt with durations"}
    return {"kind": "tdt", "durations": list(range(count - tokens))} if count > tokens else {"kind": "transducer"}


def _states(decoder: ModelTensors) -> list[dict[str, str]]:
    """Return pairs of inputs and outputs of floats, in their order, that have equal shapes."""
    left, found = dict(decoder.outputs), []
    for name, given in decoder.inputs.items():
        if given.dtype.startswith("float") and (other := next((one for one in left if _alike(given, left[one])), None)):
            found.append({"output": other, "input": name})
            del left[other]
    return found


def _of_icefall(pieces: Mapping[int, str], start: list[int | str]) -> dict[str, Any]:
    """Return what decoders that take their last tokens do besides: icefall and sherpa-onnx pass over `<unk>`."""
    unknown = [number for number, piece in pieces.items() if piece == UNKNOWN]
    return ({"start": start} if start else {}) | ({"unknown": unknown[0]} if unknown else {})


def _start(path: Path, decoder: ModelTensors, blank: int | str) -> list[int | str]:
    """Return the tokens before the first one of a decoder that takes -1 for none; empty where it does not.

    icefall's compares its tokens with 0, and was trained with nothing before the blank.
    """
    places = next((dim for one in decoder.inputs.values() for dim in (one.shape or ())[1:] if isinstance(dim, int)), 1)
    takes = any(node.op_type == "GreaterOrEqual" for node in Model.open(path).proto.graph.node)
    return [*[-1] * (places - 1), blank] if takes and places > 1 else []


def _alike(one: ModelTensor, other: ModelTensor) -> bool:
    sizes = [[dim if isinstance(dim, int) else None for dim in tensor.shape or ()] for tensor in (one, other)]
    return one.dtype == other.dtype and sizes[0] == sizes[1]


def _frames(document: Mapping[str, Any], width: int | None) -> str | None:
    """Return the one output of frames so wide, and say that all of them count where no length says how many."""
    states = {pair["output"] for pair in document["state"]}
    outputs: dict[str, dict[str, Any]] = {name: one for name, one in document["outputs"].items() if name not in states}
    found = [name for name, one in outputs.items() if one["dtype"].startswith("float") and len(one["shape"]) == 3]
    if len(found) != 1:
        return None
    output = outputs[found[0]]
    axes = [axis for axis in (1, 2) if output["shape"][axis] != width]
    if "valid" not in output and len(axes) == 1:
        output["valid"] = {"axis": axes[0], "by": output["shape"][axes[0]]}
    return found[0]
