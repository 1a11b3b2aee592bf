"""Train the language model on the tokens that prepare.py made.

    python train.py --data DIR --output DIR [--seconds 240] [--steps 20000] [--batch 128]

Writes the model in Hugging Face's format and training-log.jsonl (one line a measurement) into the output folder. The
learning rate follows whichever of the two budgets, seconds or steps, is closer to its end.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

VOCABULARY, WINDOW, SEPARATOR_ID = 2048, 512, 0
WARM_UP_STEPS = 200
CLIP_NORM = 1.0


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Train the language model on the tokens that prepare.py made.")
    parser.add_argument("--data", type=Path, required=True, help="folder that prepare.py wrote")
    parser.add_argument("--output", type=Path, required=True, help="folder for the model and the log")
    parser.add_argument("--seconds", type=float, default=240, help="training time (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=20000, help="most steps (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=128, help="windows of 512 tokens in a step")
    parser.add_argument("--learning-rate", type=float, default=4e-3, help="peak, at the end of the warm-up")
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--dropout", type=float, default=0.1, help="of the embedding and of what each block adds")
    parser.add_argument("--score-every", type=int, default=250, help="steps between two measurements")
    parser.add_argument("--seed", type=int, default=0, help="of the initial weights, the windows and the dropout")
    return parser.parse_args()


def make_model() -> LlamaForCausalLM:
    """Llama's architecture at 1.4 million parameters: 4 query heads share 2 key and value heads."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=WINDOW,
        tie_word_embeddings=True,
        bos_token_id=SEPARATOR_ID,
        eos_token_id=SEPARATOR_ID,
    )
    return LlamaForCausalLM(config)


def add_dropout(model: LlamaForCausalLM, share: float) -> None:
    """Llama has no residual dropout of its own; hooks leave the saved architecture as it is."""

    def drop(module: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        return nn.functional.dropout(output, share, module.training)

    model.model.embed_tokens.register_forward_hook(drop)
    for layer in model.model.layers:
        layer.self_attn.o_proj.register_forward_hook(drop)
        layer.mlp.down_proj.register_forward_hook(drop)


def optimiser(model: nn.Module, rate: float, decay: float) -> torch.optim.Optimizer:
    """AdamW; the scales of normalisation do not decay."""
    weights = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": weights, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), fused=next(model.parameters()).is_cuda)


def rate_factor(step: int, done: float) -> float:
    """Share of the peak learning rate: linear warm-up, then half a cosine over the budget, of which `done` is spent."""
    return min(1.0, (step + 1) / WARM_UP_STEPS) * (0.01 + 0.99 * (1 + math.cos(math.pi * done)) / 2)


def loss_of(model: LlamaForCausalLM, windows: Tensor, device: torch.device) -> Tensor:
    """Mean cross entropy in nats of windows [B, L+1], int64."""
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        logits = model(input_ids=windows[:, :-1], use_cache=False).logits
    return nn.functional.cross_entropy(logits.float().flatten(0, 1), windows[:, 1:].flatten())


@torch.no_grad()
def validation_loss(model: LlamaForCausalLM, tokens: Tensor, device: torch.device) -> float:
    """Mean cross entropy over consecutive whole windows."""
    count = (len(tokens) - 1) // WINDOW
    windows = torch.stack([tokens[i * WINDOW : (i + 1) * WINDOW + 1] for i in range(count)])
    model.eval()
    losses = [loss_of(model, part.to(device), device).item() * len(part) for part in windows.split(32)]
    model.train()
    return sum(losses) / count


def random_windows(tokens: Tensor, batch: int, seed: int) -> Iterator[Tensor]:
    """Endless batches [B, WINDOW+1] from random places."""
    generator = torch.Generator(tokens.device).manual_seed(seed)
    offsets = torch.arange(WINDOW + 1, device=tokens.device)
    while True:
        starts = torch.randint(len(tokens) - WINDOW, (batch, 1), generator=generator, device=tokens.device)
        yield tokens[starts + offsets]


def train(options: argparse.Namespace) -> None:
    """Train, keep the weights with the lowest validation loss, and write the model."""
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    tokens = torch.from_numpy(np.load(options.data / "train.npy").astype(np.int64)).to(device)
    validation = torch.from_numpy(np.load(options.data / "validation.npy").astype(np.int64))
    model = make_model().to(device)
    add_dropout(model, options.dropout)
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {len(tokens)} training tokens, {device}")
    moves = optimiser(model, options.learning_rate, options.weight_decay)
    options.output.mkdir(parents=True, exist_ok=True)
    best, running, since = math.inf, torch.zeros((), device=device), 0
    start = time.perf_counter()
    with (options.output / "training-log.jsonl").open("w") as log:
        for step, windows in enumerate(random_windows(tokens, options.batch, options.seed)):
            done = max(step / options.steps, (time.perf_counter() - start) / max(options.seconds, 1e-9))
            if done >= 1 or step % options.score_every == 0:
                loss = validation_loss(model, validation, device)
                record = {
                    "step": step,
                    "seconds": round(time.perf_counter() - start, 2),
                    "learning_rate": moves.param_groups[0]["lr"],
                    "train_loss": (running / since).item() if since else None,
                    "validation_loss": loss,
                }
                log.write(json.dumps(record) + "\n")
                log.flush()
                print(json.dumps(record), flush=True)
                running.zero_()
                since = 0
                if loss < best:
                    best = loss
                    model.save_pretrained(options.output)
            if done >= 1:
                break
            for group in moves.param_groups:
                group["lr"] = options.learning_rate * rate_factor(step, done)
            loss = loss_of(model, windows, device)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
            moves.step()
            moves.zero_grad()
            running += loss.detach()
            since += 1
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(options.data / name, options.output)
    print(f"best validation loss {best:.4f} nats a token, perplexity {math.exp(best):.3f}")


if __name__ == "__main__":
    train(arguments())
