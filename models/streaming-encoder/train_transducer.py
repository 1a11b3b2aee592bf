"""Train the decoder and joiner on texts of the code, on the CPU, in minutes, and export them.

    python train_transducer.py --output DIR [--steps 3000] [--seconds 900]

The encoder is the embedded ONNX file and stays as it is. The alignment of a text is known, so the loss is the cross
entropy of token and duration at every step of it. Writes decoder.onnx, joiner.onnx, tokens.txt and a log.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime
import torch
from export import OPSET
from model import LEFT_FRAMES, SUBSAMPLING, Size, StreamingEncoder
from torch import Tensor, nn
from transducer import Decoder, Joiner

from trt_workbench.stream.contract.log_mel import log_mel
from trt_workbench_speech.spoken_code import BLANK, DURATIONS, TOKENS, steps, utterance

ENCODER = Path(__file__).with_name("streaming-encoder.onnx")
HELD_OUT_SEED, HELD_OUT = 2 * 10**6, 64
METADATA = {"author": "trt-workbench", "license": "Apache-2.0", "version": "1"}


class Aligned(NamedTuple):
    """An utterance: the encoder's frames, the tokens with the blank first, and what is written at each step.

    Attributes:
        frames: [S, 64], of every step.
        tokens: [U + 1].
        seen: how many tokens were written before each step, [S].
        token: that it writes, or the blank, [S].
        duration: index of its duration, [S].
    """

    frames: Tensor
    tokens: Tensor
    seen: Tensor
    token: Tensor
    duration: Tensor


def aligned(session: onnxruntime.InferenceSession, seed: int) -> Aligned:
    """Return the utterance of a seed as the embedded encoder hears it."""
    said = utterance(seed)
    signal = np.pad(log_mel(said.samples), ((0, 0), (LEFT_FRAMES, 0)))[None, :, : len(said.answers) * SUBSAMPLING + 9]
    channel, cached_time, cached = StreamingEncoder(Size()).empty_state(1)
    feed = {"audio_signal": signal, "length": np.array([signal.shape[2]])}
    feed |= {"cache_last_channel": channel.numpy(), "cache_last_time": cached_time.numpy()}
    encoded = session.run(["encoded"], {**feed, "cache_last_channel_len": cached.numpy()})[0][0].T
    written = list(steps(said.answers))
    tokens = torch.tensor([one.token for one in written])
    return Aligned(
        torch.from_numpy(encoded)[[one.place for one in written]],
        torch.cat([torch.tensor([BLANK]), tokens[tokens != BLANK]]),
        (tokens != BLANK).cumsum(0) - (tokens != BLANK).long(),
        tokens,
        torch.tensor([DURATIONS.index(one.duration) for one in written]),
    )


def loss_and_right(decoder: Decoder, joiner: Joiner, batch: list[Aligned]) -> tuple[Tensor, Tensor]:
    """Return the mean cross entropy of tokens and durations in nats, and the share of steps with both right."""
    tokens = nn.utils.rnn.pad_sequence([one.tokens for one in batch], batch_first=True)
    features = decoder.over(tokens)
    logits = joiner(
        torch.cat([one.frames for one in batch]),
        torch.cat([features[row, one.seen] for row, one in enumerate(batch)]),
    )
    token, duration = (torch.cat([getattr(one, name) for one in batch]) for name in ("token", "duration"))
    by_token, by_duration = logits[:, : len(TOKENS) + 1], logits[:, len(TOKENS) + 1 :]
    loss = nn.functional.cross_entropy(by_token, token) + nn.functional.cross_entropy(by_duration, duration)
    right = (by_token.argmax(-1) == token) & (by_duration.argmax(-1) == duration)
    return loss, right.float().mean()


def train(options: argparse.Namespace) -> tuple[Decoder, Joiner]:
    """Train, and write the log."""
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(ENCODER, settings)
    heard = [aligned(session, seed) for seed in range(options.utterances)]
    held_out = [aligned(session, HELD_OUT_SEED + seed) for seed in range(HELD_OUT)]
    decoder = Decoder(len(TOKENS) + 1)
    joiner = Joiner(Size().width, decoder.width, len(TOKENS) + 1, len(DURATIONS))
    moves = torch.optim.AdamW([*decoder.parameters(), *joiner.parameters()], options.learning_rate, weight_decay=0.01)
    start = time.perf_counter()
    with (options.output / "training-log-transducer.jsonl").open("w") as log:
        for step in range(options.steps + 1):
            done = max(step / options.steps, (time.perf_counter() - start) / options.seconds)
            if step % 200 == 0 or done >= 1:
                with torch.no_grad():
                    loss, right = loss_and_right(decoder, joiner, held_out)
                record = {
                    "step": step,
                    "seconds": round(time.perf_counter() - start, 1),
                    "held_out_loss": round(loss.item(), 5),
                    "held_out_steps_right": round(right.item(), 5),
                }
                log.write(json.dumps(record) + "\n")
                print(json.dumps(record), flush=True)
            if done >= 1:
                break
            for group in moves.param_groups:
                group["lr"] = options.learning_rate * (0.01 + 0.99 * (1 + math.cos(math.pi * done)) / 2)
            chosen = torch.randint(len(heard), (options.batch,)).tolist()
            loss, _ = loss_and_right(decoder, joiner, [heard[one] for one in chosen])
            loss.backward()
            nn.utils.clip_grad_norm_([*decoder.parameters(), *joiner.parameters()], 1.0)
            moves.step()
            moves.zero_grad()
    return decoder.eval(), joiner.eval()


def export(module: nn.Module, path: Path, inputs: dict[str, Tensor], outputs: tuple[str, ...]) -> None:
    """Write a part as ONNX with any number of rows."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            module,
            tuple(inputs.values()),
            str(path),
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_axes={name: {0: "B"} for name in (*inputs, *outputs)},
            opset_version=OPSET,
            dynamo=False,
        )
    document = onnx.load(path)
    document.graph.name = path.stem
    onnx.helper.set_model_props(document, METADATA)
    onnx.checker.check_model(document, full_check=True)
    onnx.save(document, path)


def main() -> None:
    """Train, export."""
    parser = argparse.ArgumentParser(description="Train decoder and joiner on the code.")
    parser.add_argument("--output", type=Path, required=True, help="folder for the models and the log")
    parser.add_argument("--steps", type=int, default=3000, help="most steps (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=900, help="training time (default: %(default)s)")
    parser.add_argument("--utterances", type=int, default=2000, help="to learn from (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=4e-3, help="at the start")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and the order")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    decoder, joiner = train(options)
    state = torch.zeros(2, decoder.width)
    targets = torch.zeros(2, 1, dtype=torch.int32)
    export(
        decoder,
        options.output / "decoder.onnx",
        {"targets": targets, "hidden": state, "cell": state},
        ("decoder_outputs", "hidden_next", "cell_next"),
    )
    frame = torch.zeros(2, Size().width)
    export(joiner, options.output / "joiner.onnx", {"encoder_outputs": frame, "decoder_outputs": state}, ("logits",))
    lines = [f"{token} {number}\n" for number, token in enumerate((*TOKENS, "<blk>"))]
    (options.output / "tokens.txt").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
