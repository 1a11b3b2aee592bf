"""Decoders and joiners with the names, shapes and types that NeMo and icefall export; weights are random."""

from pathlib import Path
from typing import Any

import pytest
from tests.speech_exports import export

from trt_workbench.stream.contract.decoding import Decoding

torch = pytest.importorskip("torch")
nn = torch.nn

WIDTH, TEXT, TOKENS, BLANK = 16, 6, 9, 8


class Lstm(nn.Module):  # type: ignore[misc]
    """A predictor as NeMo exports it: targets [B, U], a length, and states [layers, B, D]."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.cell = nn.Embedding(TOKENS, TEXT), nn.LSTM(TEXT, TEXT, 2)

    def forward(self, targets: Any, target_length: Any, hidden: Any, cell: Any) -> Any:
        found, (hidden, cell) = self.cell(self.embedding(targets).transpose(0, 1), (hidden, cell))
        return found.permute(1, 2, 0), target_length + 0, hidden, cell


class Stateless(nn.Module):  # type: ignore[misc]
    """A predictor as icefall exports it: the last two tokens, of which -1 is none."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.mix = nn.Embedding(TOKENS, TEXT), nn.Linear(2 * TEXT, TEXT)

    def forward(self, y: Any) -> Any:
        known = self.embedding(y.clamp(min=0)) * (y >= 0).unsqueeze(-1)
        return self.mix(known.flatten(1))


class Join(nn.Module):  # type: ignore[misc]
    """A joiner; with `deep`, of [B, D, 1] as NeMo exports it."""

    def __init__(self, scores: int, *, deep: bool) -> None:
        super().__init__()
        self.frame, self.text, self.out = nn.Linear(WIDTH, 16), nn.Linear(TEXT, 16), nn.Linear(16, scores)
        self.deep = deep

    def forward(self, encoder_outputs: Any, decoder_outputs: Any) -> Any:
        if self.deep:
            encoder_outputs, decoder_outputs = encoder_outputs.transpose(1, 2), decoder_outputs.transpose(1, 2)
        joined = self.out(torch.tanh(self.frame(encoder_outputs) + self.text(decoder_outputs)))
        return joined.unsqueeze(2) if self.deep else joined


def write_tokens(folder: Path) -> None:
    pieces = ["▁", *"abcdefg", "<blk>"]
    (folder / "tokens.txt").write_text("".join(f"{piece} {number}\n" for number, piece in enumerate(pieces)))


def lstm_parts(folder: Path, durations: tuple[int, ...]) -> tuple[Any, Any, Decoding]:
    torch.manual_seed(3)
    predictor, joiner = Lstm(), Join(TOKENS + len(durations), deep=True)
    state = torch.zeros(2, 2, TEXT)
    export(
        predictor,
        folder / "decoder.onnx",
        {
            "targets": torch.zeros(2, 1, dtype=torch.int32),
            "target_length": torch.ones(2, dtype=torch.int32),
            "states.1": state,
            "onnx::Slice_3": state,
        },
        ["outputs", "prednet_lengths", "states", "states_1"],
        {"targets": {0: "B", 1: "U"}, "target_length": {0: "B"}, "states.1": {1: "B"}, "onnx::Slice_3": {1: "B"}}
        | {"outputs": {0: "B", 2: "U"}, "prednet_lengths": {0: "B"}, "states": {1: "B"}, "states_1": {1: "B"}},
    )
    export(
        joiner,
        folder / "joiner.onnx",
        {"encoder_outputs": torch.zeros(2, WIDTH, 1), "decoder_outputs": torch.zeros(2, TEXT, 1)},
        ["outputs"],
        {"encoder_outputs": {0: "B", 2: "T"}, "decoder_outputs": {0: "B", 2: "U"}, "outputs": {0: "B"}},
    )
    said = Decoding(
        kind="tdt" if durations else "transducer",
        frames="encoded",
        tokens="tokens.txt",
        blank=BLANK,
        decoder="decoder.onnx",
        joiner="joiner.onnx",
        state=({"output": "states", "input": "states.1"}, {"output": "states_1", "input": "onnx::Slice_3"}),  # type: ignore[arg-type]
        durations=durations,
        max_symbols=3,
    )

    def start() -> Any:
        zeros = torch.zeros(2, 1, TEXT)
        return step((zeros, zeros), BLANK)

    def step(state: Any, token: int) -> Any:
        found, _, hidden, cell = predictor(torch.tensor([[token]]), torch.ones(1), *state)
        return found, (hidden, cell)

    return (start, step), lambda frame, text: joiner(frame[None, :, None], text).flatten(), said


def stateless_parts(folder: Path) -> tuple[Any, Any, Decoding]:
    torch.manual_seed(4)
    predictor, joiner = Stateless(), Join(TOKENS, deep=False)
    export(
        predictor,
        folder / "decoder.onnx",
        {"y": torch.zeros(2, 2, dtype=torch.int64)},
        ["decoder_out"],
        {"y": {0: "N"}, "decoder_out": {0: "N"}},
    )
    names = {"encoder_out": torch.zeros(2, WIDTH), "decoder_out": torch.zeros(2, TEXT)}
    export(joiner, folder / "joiner.onnx", names, ["logit"], {name: {0: "N"} for name in (*names, "logit")})
    said = Decoding(
        kind="transducer",
        frames="encoded",
        tokens="tokens.txt",
        blank=BLANK,
        decoder="decoder.onnx",
        joiner="joiner.onnx",
        max_symbols=1,
        start=(-1, BLANK),
    )

    def text(last: Any) -> Any:
        return predictor(torch.tensor([last])), last

    return (
        (lambda: text((-1, BLANK)), lambda last, token: text((last[1], token))),
        lambda frame, features: joiner(frame[None], features).flatten(),
        said,
    )
