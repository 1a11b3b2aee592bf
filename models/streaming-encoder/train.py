"""Train the streaming encoder on the code, on the CPU, in minutes.

    python train.py --output DIR [--steps 800] [--seconds 900]

Writes weights.safetensors and training-log.jsonl (one line a measurement) into the output folder. The learning rate
follows whichever of the two budgets, steps or seconds, is closer to its end.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import torch
from model import LEFT_FRAMES, Size, StreamingEncoder
from safetensors.torch import save_model
from torch import Tensor, nn

from trt_workbench.stream.contract.log_mel import log_mel
from trt_workbench.stream.input import code_audio

SYMBOLS_A_SEQUENCE = 128
HELD_OUT_SEED, HELD_OUT = 10**6, 32
WARM_UP_STEPS = 100


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Train the streaming encoder on the code.")
    parser.add_argument("--output", type=Path, required=True, help="folder for the weights and the log")
    parser.add_argument("--steps", type=int, default=800, help="most steps (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=900, help="training time (default: %(default)s)")
    parser.add_argument("--sequences", type=int, default=400, help="of 10 s to learn from (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--learning-rate", type=float, default=2e-3, help="peak")
    parser.add_argument("--threads", type=int, default=1, help="processors to use; more gain little at this size")
    parser.add_argument("--seed", type=int, default=0, help="of the weights, the audio and the order")
    return parser.parse_args()


def sequences(count: int, first_seed: int) -> tuple[Tensor, Tensor]:
    """Return features [N, 80, 8 S + 9] with nine frames of silence before, and answers [N, S]."""
    features, answers = [], []
    for seed in range(first_seed, first_seed + count):
        audio = code_audio(SYMBOLS_A_SEQUENCE, seed)
        features.append(np.pad(log_mel(audio.samples), ((0, 0), (LEFT_FRAMES, 0))))
        answers.append(audio.answers)
    return torch.from_numpy(np.stack(features)), torch.from_numpy(np.stack(answers))


def loss_and_right(model: StreamingEncoder, signal: Tensor, answers: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean cross entropy in nats and the share of right answers."""
    lengths = torch.full((len(signal),), signal.shape[2])
    logits = model(signal, lengths, *model.empty_state(len(signal)))[2]
    known = answers >= 0
    right = (logits.argmax(-1) == answers)[known].float().mean()
    return nn.functional.cross_entropy(logits[known], answers[known]), right


def train(options: argparse.Namespace) -> None:
    """Train and write the weights of the last step."""
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    start = time.perf_counter()
    signals, answers = sequences(options.sequences, options.seed * options.sequences)
    held_out = sequences(HELD_OUT, HELD_OUT_SEED)
    print(f"{options.sequences} sequences in {time.perf_counter() - start:.0f} s", flush=True)
    model = StreamingEncoder(Size(frames=SYMBOLS_A_SEQUENCE))
    moves = torch.optim.AdamW(model.parameters(), options.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    options.output.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    with (options.output / "training-log.jsonl").open("w") as log:
        for step in range(options.steps + 1):
            done = max(step / options.steps, (time.perf_counter() - start) / options.seconds)
            if step % 100 == 0 or done >= 1:
                with torch.no_grad():
                    loss, right = loss_and_right(model, *held_out)
                record = {
                    "step": step,
                    "seconds": round(time.perf_counter() - start, 1),
                    "held_out_loss": round(loss.item(), 5),
                    "held_out_accuracy": round(right.item(), 5),
                }
                log.write(json.dumps(record) + "\n")
                print(json.dumps(record), flush=True)
            if done >= 1:
                break
            rate = min(1.0, (step + 1) / WARM_UP_STEPS) * (0.01 + 0.99 * (1 + math.cos(math.pi * done)) / 2)
            for group in moves.param_groups:
                group["lr"] = options.learning_rate * rate
            chosen = torch.randint(len(signals), (options.batch,))
            louder = torch.randn(options.batch, 1, 1) * 0.2
            loss, _ = loss_and_right(model, signals[chosen] + louder, answers[chosen])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            moves.step()
            moves.zero_grad()
    save_model(model, str(options.output / "weights.safetensors"))


if __name__ == "__main__":
    train(arguments())
