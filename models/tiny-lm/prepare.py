"""Make the tokenizer, the training tokens and the held-out text from Debian's text of the King James Bible.

    apt-get install bible-kjv bible-kjv-text
    python prepare.py --output DIR

Writes train.npy, validation.npy (token ids), tokenizer.json and tokenizer_config.json into the output folder, and the
held-out text beside this file. The packages need not be installed: --program and --data name unpacked ones.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = Path(__file__).parent
DATA_SHA256 = "6c746c2acc8a34bfded980883ff1701a5d68934a1c853ebf88a07b978fe0ae0e"  # bible-kjv-text 4.38
HELD_OUT_BOOKS = ("Ruth", "Esther", "Ecclesiastes", "Jonah", "Philippians", "James")
"""Never trained on: evaluated by eval-llm. Books with few passages that other books repeat."""
VALIDATION_BOOKS = ("Song of Solomon", "Malachi", "Galatians", "1 Peter")
"""Watched during training; the best checkpoint is chosen by them."""
VOCABULARY = 2048
SEPARATOR = "<|endoftext|>"
WINDOW = 512


def read_books(program: Path, data: Path) -> dict[str, str]:
    """The text of every book: a heading for each chapter, then one verse a line without its number."""
    found = hashlib.sha256((data / "bible.data").read_bytes()).hexdigest()
    if found != DATA_SHA256:
        raise SystemExit(f"bible.data is not that of bible-kjv-text 4.38 (SHA-256 {found}): {data}")
    command = [program, "-p", data, "-l2000", "gen1:1-rev22:21"]
    raw = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
    books: dict[str, str] = {}
    for part in re.split(r"\n(?=\S.* \d+\n\n)", raw.strip("\n")):
        heading, _, verses = part.partition("\n\n")
        lines = [re.sub(r"^ *\d+ ", "", line) for line in verses.splitlines() if line.strip()]
        book = heading.rpartition(" ")[0]
        books[book] = books.get(book, "") + "\n".join([heading, "", *lines]) + "\n\n"
    return books


def train_tokenizer(texts: list[str]) -> Tokenizer:
    """A byte-level BPE tokenizer, so that any text can be encoded."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[SEPARATOR],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def encode(tokenizer: Tokenizer, books: list[str]) -> np.ndarray:
    """Token ids of the books, each after a separator; uint16, any length."""
    return np.array([token for book in books for token in tokenizer.encode(SEPARATOR + book).ids], np.uint16)


def main() -> None:
    """Prepare everything that train.py reads."""
    parser = argparse.ArgumentParser(description="Make the tokenizer, the training tokens and the held-out text.")
    parser.add_argument("--output", type=Path, required=True, help="folder for tokens and tokenizer")
    parser.add_argument("--program", type=Path, default=Path("/usr/bin/bible"), help="the program of bible-kjv")
    parser.add_argument("--data", type=Path, default=Path("/usr/lib"), help="folder of bible.data")
    options = parser.parse_args()
    books = read_books(options.program, options.data)
    unknown = {*HELD_OUT_BOOKS, *VALIDATION_BOOKS} - books.keys()
    if unknown:
        raise SystemExit(f"no such books: {sorted(unknown)}; there are {list(books)}")
    held_out = "".join(books[name] for name in HELD_OUT_BOOKS).rstrip("\n") + "\n"
    validation = [books[name] for name in VALIDATION_BOOKS]
    training = [text for name, text in books.items() if name not in {*HELD_OUT_BOOKS, *VALIDATION_BOOKS}]

    options.output.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer(training)
    tokenizer.save(str(options.output / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SEPARATOR,
        "eos_token": SEPARATOR,
        "clean_up_tokenization_spaces": False,
        "model_max_length": WINDOW,
    }
    (options.output / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    np.save(options.output / "train.npy", encode(tokenizer, training))
    np.save(options.output / "validation.npy", encode(tokenizer, validation))
    (HERE / "held-out.txt").write_text(held_out)
    for name, text in (("training", "".join(training)), ("validation", "".join(validation)), ("held out", held_out)):
        tokens = len(tokenizer.encode(text).ids)
        print(f"{name}: {len(text)} bytes, {tokens} tokens, {len(text) / tokens:.2f} bytes a token")


if __name__ == "__main__":
    main()
