"""The same audio heard in other ways: in chunks of other sizes, by another contract, in whole utterances.

So that it shows what a word costs in errors and in waiting. All of it runs on the reference's backend.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from trt_workbench.backends.base import Session
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.model_tensors import read_tensors
from trt_workbench.stream.contract.parts import SymbolProfile
from trt_workbench.stream.contract.reading import read_contract
from trt_workbench.stream.pool import StreamPool
from trt_workbench_speech.decoding import Load, open_decoder
from trt_workbench_speech.hearing import Ear, Hearing
from trt_workbench_speech.settings import WHOLE, Also
from trt_workbench_speech.speech import Speech

# Frames that a whole utterance may be padded by until its size fits.
_MOST_PADDING = 256


class HeardWay(NamedTuple):
    """How the same utterances are also heard.

    Attributes:
        name: of it.
        model: that hears them; None for the reference's.
        speech: the utterances by its contract.
        whole: whether each is one chunk.
    """

    name: str
    model: Path | None
    speech: Speech
    whole: bool


def way_of(asked: Also, model: Path, path: Path, speech: Speech) -> HeardWay:
    """Return what was asked for.

    Args:
        asked: one of `--also`.
        model: the reference's file.
        path: of its contract.
        speech: the utterances by that.

    Raises:
        UsageProblem: the contract cannot be read, does not fit the model, or takes no chunks of that size.
    """
    contract = speech.contract
    if asked.contract:
        path = Path(asked.contract)
        contract = read_contract(path, read_tensors(Path(asked.model) if asked.model else model))
    if isinstance(asked.chunks, int):
        contract = in_chunks(contract, asked.chunks)
    heard = Speech(contract, path, speech.utterances, speech.asked._replace(hop_ms=None))
    return HeardWay(asked.name, Path(asked.model) if asked.model else None, heard, asked.chunks == WHOLE)


def in_chunks(contract: Contract, size: int, *, first: bool = True) -> Contract:
    """Return a contract whose later chunks have so many frames, and whose first ones have as many more or fewer.

    Args:
        contract: of the model.
        size: of a later chunk, contexts included.
        first: whether that is said of later chunks; else the first one has this size.

    Raises:
        UsageProblem: chunks cannot have this size.
    """
    cut = contract.chunking
    if cut.right_context:  # what counts of an output, and constants, are those of its windows
        raise UsageProblem(
            f"The windows of this model look ahead by {counted(cut.right_context, 'frame')}; others need a contract of "
            "their own: --also CONTRACT.json."
        )
    more = size - (cut.later.size if first else cut.first.size)
    kinds = {name: getattr(cut, name) for name in ("first", "later")}
    for kind in kinds.values():
        if kind.size + more <= kind.left_context:
            raise UsageProblem(f"Chunks of {size} frames have no room for {kind.left_context} frames of left context.")
    changed = {name: kind.model_copy(update={"size": kind.size + more}) for name, kind in kinds.items()}
    sizes = [kind.size for kind in changed.values()]
    free = {name: (value,) * 3 for name, value in contract.other_symbols.items()}
    free[contract.time_symbol] = (min(sizes), changed["later"].size, max(sizes))
    if contract.batch_symbol:
        rows = [one.symbols[contract.batch_symbol] for one in contract.profiles]
        free[contract.batch_symbol] = (min(one[0] for one in rows), rows[0][1], max(one[2] for one in rows))
    fields = {name: getattr(contract, name) for name in Contract.model_fields}
    fields |= {
        "chunking": cut.model_copy(update=changed),
        "profiles": (SymbolProfile.model_validate({"name": "chunks", "symbols": free}),),
    }
    made = Contract.model_validate(fields)
    try:
        for chunk in made.chunks(sum(kind.hop for kind in changed.values())):
            made.chunk_values(chunk)
    except ValueError as error:
        raise UsageProblem(f"Chunks of {size} frames do not fit the contract: {error}.") from error
    return made


def hear(way: HeardWay, session: Session, load: Load, progress: Callable[[int], None]) -> Hearing:
    """Hear all utterances in a way.

    Args:
        way: of `way_of`.
        session: of its model, open.
        load: opens the files of its decoder.
        progress: called with the utterances that ended.

    Raises:
        UsageProblem: audio, contract and files do not fit one another.
        DeviceFailure: the device failed.
    """
    if not way.whole:
        with way.speech.ear(session, load) as (ear, _, _):
            return ear.hear(way.speech.signals(), progress=progress)
    found, speech = Hearing([]), way.speech
    with open_decoder(speech.said, speech.folder, load, 2) as decoder:
        for said in speech.signals():
            contract = whole(speech.contract, said[0].shape[speech.contract.signal[1].time_axis])
            seconds = contract.chunking.first.hop * (contract.chunking.frame_seconds or 0.0)
            with StreamPool(session, contract, folder=speech.folder, capacity=1) as pool:
                heard = Ear(pool, decoder, contract, speech.vocabulary, seconds).hear(iter([said]), progress=progress)
            found.heard += heard.heard
            found.work_s, found.rounds = found.work_s + heard.work_s, found.rounds + heard.rounds
    return found


def whole(contract: Contract, frames: int) -> Contract:
    """Return a contract whose first chunk holds so many frames, and some of padding where others do not fit.

    Raises:
        UsageProblem: no such size fits.
    """
    size = frames + contract.chunking.first.left_context
    for padded in range(size, size + _MOST_PADDING):
        with suppress(UsageProblem):
            return in_chunks(contract, padded, first=False)
    return in_chunks(contract, size, first=False)
