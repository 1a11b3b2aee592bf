"""What a contract says of decoding: how an encoder's frames become tokens, and by which files beside it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from trt_workbench.core.documents import Inside, Strict

_Token = Annotated[int, Field(ge=0, le=2**31 - 1)]
_Name = Annotated[str, Field(min_length=1, max_length=500)]


class PredictorState(Strict):
    """A pair of the decoder: what an output gave is the input at the next token; zeros at the start."""

    output: _Name
    input: _Name


class Decoding(Strict):
    """Greedy decoding.

    Attributes:
        kind: `transducer`, `tdt` (a transducer that says how many frames it skips), or `ctc`.
        frames: output of the encoder that is decoded; its `valid` gives the axis of frames. Scores of tokens for ctc.
        tokens: file of the vocabulary: a token and its number a line.
        blank: number of the blank.
        decoder: ONNX file or plan of the predictor.
        joiner: ONNX file or plan of the joiner.
        state: pairs of the predictor; none where it takes its last tokens instead.
        durations: frames to skip, in the order of the joiner's last scores.
        max_symbols: most tokens of one frame.
        start: tokens before the first one; the blank by default. -1 is none, where the decoder takes that.
        unknown: number of a token that counts as a blank, such as `<unk>` of icefall's; none by default.
    """

    kind: Literal["transducer", "tdt", "ctc"]
    frames: _Name
    tokens: Inside
    blank: _Token
    decoder: Inside | None = None
    joiner: Inside | None = None
    state: Annotated[tuple[PredictorState, ...], Field(max_length=64)] = ()
    durations: Annotated[tuple[Annotated[int, Field(ge=0, le=1000)], ...], Field(max_length=64)] = ()
    max_symbols: Annotated[int, Field(ge=1, le=1000)] = 10
    start: Annotated[tuple[Annotated[int, Field(ge=-1, le=2**31 - 1)], ...], Field(max_length=64)] = ()
    unknown: _Token | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        files, joined = (self.decoder, self.joiner), self.kind != "ctc"
        if joined and None in files:
            raise ValueError(f"a {self.kind} needs decoder and joiner")
        if not joined and (any(files) or self.state or self.start or self.unknown is not None):
            raise ValueError("ctc has no decoder, joiner, state, start and unknown")
        for names in ([pair.input for pair in self.state], [pair.output for pair in self.state]):
            if twice := next((name for name in names if names.count(name) > 1), None):
                raise ValueError(f"state has {twice} twice")
        if (self.kind == "tdt") != bool(self.durations):
            raise ValueError("durations belong to the kind tdt, which needs them")
        if self.durations and not any(self.durations):
            raise ValueError("one of the durations must be above 0")
        return self
