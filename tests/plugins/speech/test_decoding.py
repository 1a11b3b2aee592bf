"""Greedy decoding: many streams in batches, chunk by chunk, write what a plain loop writes for each of them alone."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.speech_decoders import BLANK, TOKENS, WIDTH, lstm_parts, stateless_parts, write_tokens
from tests.texts import refused

from trt_workbench.backends.base import Session
from trt_workbench.backends.registry import get_backend
from trt_workbench.core.errors import UsageProblem
from trt_workbench.stream.contract.decoding import Decoding
from trt_workbench.stream.contract.vocabulary import Vocabulary
from trt_workbench_speech.decoding import Decoder, open_decoder

torch = pytest.importorskip("torch")

LENGTHS = (23, 1, 40, 17, 5)
DURATIONS = (0, 1, 2, 4)


def plain_loop(predictor: Any, join: Any, said: Decoding, frames: Any) -> list[tuple[int, int]]:
    """One stream by itself, written out: what NeMo's greedy loops do."""
    start, step = predictor
    written, place, passed = [], 0, (BLANK, said.unknown)
    with torch.no_grad():
        features, state = start()
        while place < len(frames):
            symbols = 0
            while True:
                scores = join(torch.from_numpy(frames[place]), features)
                token = int(scores[:TOKENS].argmax())
                skip = said.durations[int(scores[TOKENS:].argmax())] if said.durations else int(token in passed)
                if token not in passed:
                    written.append((token, place))
                    features, state = step(state, token)
                    symbols += 1
                elif skip == 0:
                    skip = 1
                if skip or symbols == said.max_symbols:
                    place += max(skip, 1)
                    break
    return written


@contextmanager
def decoder_of(said: Decoding, folder: Path, backend: str = "ort-cpu") -> Iterator[Decoder]:
    sessions: list[Session] = []

    def load(path: Path, _: Any) -> Session:
        sessions.append(get_backend(backend).load(path))
        return sessions[-1]

    with open_decoder(said, folder, load, len(LENGTHS)) as decoder:
        yield decoder
    for session in sessions:
        session.close()


def in_chunks(decoder: Decoder, frames: list[Any], sizes: Callable[[int, int], int]) -> list[list[tuple[int, int]]]:
    """All streams together, cut differently; each comes and goes by itself."""
    streams, places = [decoder.open() for _ in frames], [0] * len(frames)
    found: list[list[tuple[int, int]]] = [[] for _ in frames]
    turn = 0
    while left := [one for one, own in enumerate(frames) if places[one] < len(own)]:
        some = [one for one in left if (one + turn) % 3 or len(left) == 1]
        ends = {one: min(places[one] + sizes(one, turn), len(frames[one])) for one in some}
        pushed = decoder.push([streams[one] for one in some], [frames[one][places[one] : ends[one]] for one in some])
        for one, tokens in zip(some, pushed, strict=True):
            found[one] += [tuple(token) for token in tokens]
            places[one] = ends[one]
        turn += 1
    for stream in streams:
        decoder.close(stream)
    return found


@pytest.mark.parametrize("kind", ["transducer", "tdt", "stateless", "unknown"])
@pytest.mark.parametrize("backend", ["ort-cpu", "torch"])
def test_tokens_are_those_of_a_plain_loop(tmp_path: Path, kind: str, backend: str) -> None:
    write_tokens(tmp_path)
    predictor, join, said = (
        lstm_parts(tmp_path, DURATIONS if kind == "tdt" else ())
        if kind in ("transducer", "tdt")
        else stateless_parts(tmp_path)
    )
    said = said.model_copy(update={"unknown": 2 if kind == "unknown" else None})
    rng = np.random.default_rng(1)
    frames = [3 * rng.standard_normal((length, WIDTH)).astype(np.float32) for length in LENGTHS]
    right = [plain_loop(predictor, join, said, own) for own in frames]
    assert sum(map(len, right)) > 30
    with decoder_of(said, tmp_path, backend) as decoder:
        assert in_chunks(decoder, frames, lambda one, turn: 1 + (3 * one + turn) % 6) == right
        assert in_chunks(decoder, frames, lambda *_: 100) == right  # places of closed streams are free again


def test_ctc_joins_repeats_across_chunks(tmp_path: Path) -> None:
    write_tokens(tmp_path)
    best = [1, 1, 8, 1, 2, 2, 2, 8, 8, 3, 3]
    scores = np.eye(TOKENS, dtype=np.float32)[best]
    said = Decoding(kind="ctc", frames="logits", tokens="tokens.txt", blank=BLANK)
    with decoder_of(said, tmp_path) as decoder:
        for size in (1, 2, 3, 11):
            assert in_chunks(decoder, [scores], lambda *_, size=size: size) == [[(1, 0), (1, 3), (2, 4), (3, 9)]]


def test_parts_that_are_none_are_refused(tmp_path: Path) -> None:
    write_tokens(tmp_path)
    _, _, said = lstm_parts(tmp_path, ())
    with refused(UsageProblem), decoder_of(said.model_copy(update={"decoder": "joiner.onnx"}), tmp_path):
        pass
    with refused(UsageProblem), decoder_of(said.model_copy(update={"joiner": "decoder.onnx"}), tmp_path):
        pass
    with refused(UsageProblem), decoder_of(said.model_copy(update={"state": said.state[:1]}), tmp_path):
        pass
    with refused(UsageProblem), decoder_of(said.model_copy(update={"decoder": "none.onnx"}), tmp_path):
        pass
    frames = [np.ones((2, WIDTH), np.float32)]
    with decoder_of(said.model_copy(update={"durations": (0, 1)}), tmp_path) as decoder, refused(UsageProblem):
        decoder.push([decoder.open()], frames)
    with decoder_of(said, tmp_path) as decoder, refused(UsageProblem):
        decoder.push([decoder.open()], [np.full((2, WIDTH), np.nan, np.float32)])


@pytest.mark.parametrize(
    "change",
    [
        {"joiner": None},
        {"kind": "ctc"},
        {"kind": "tdt"},
        {"durations": [0]},
        {"kind": "tdt", "durations": [0, 0]},
        {"decoder": "../decoder.onnx"},
        {"state": [{"input": "h", "output": "hn"}, {"input": "c", "output": "hn"}]},
        {"state": [{"input": "h", "output": "hn"}, {"input": "h", "output": "cn"}]},
    ],
)
def test_what_contradicts_itself_is_no_decoding(change: dict[str, Any]) -> None:
    said = {"kind": "transducer", "frames": "x", "tokens": "t", "blank": 0, "decoder": "d.onnx", "joiner": "j.onnx"}
    with refused(ValueError):
        Decoding.model_validate({**said, **change})


def test_vocabulary_writes_and_splits(tmp_path: Path) -> None:
    path = tmp_path / "tokens.txt"
    path.write_text("<blk> 0\n▁the 1\n▁ 2\ns 3\nt 4\n<0xC3> 5\n<0xA9> 6\n▁t 7\n", encoding="utf-8")
    vocabulary = Vocabulary(path)
    assert vocabulary.text([1, 3, 2, 5, 6, 7, 4]) == "thes é tt"
    assert vocabulary.split("  the  st") == ["▁the", "▁", "s", "t"]
    assert vocabulary.split("") == []
    assert vocabulary.unwritten("the xsxéèé") == "xè"  # é of two bytes
    assert vocabulary.text([1, 0, 3, 0]) == "the<blk>s<blk>"  # a right decoder never writes it
    assert vocabulary.text([1, 9, 3], faulty=True) == "the<9>s"
    with refused(UsageProblem):
        vocabulary.text([9])


@pytest.mark.parametrize("text", ["\ufeff<blk> 0\n  1\na 2\n", "<blk>\t0\n \t1\na\t2", "<blk> 0 \r\n1\r\na 2\r\n"])
def test_what_other_programs_put_around_tokens_is_no_part_of_them(tmp_path: Path, text: str) -> None:
    (tmp_path / "tokens.txt").write_bytes(text.encode())
    assert Vocabulary(tmp_path / "tokens.txt").pieces == {0: "<blk>", 1: " ", 2: "a"}


@pytest.mark.parametrize("text", ["a\n", "a 1\nb 1\n", "a x\n", "\n", "a 99999999999\n"])
def test_a_damaged_vocabulary_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "tokens.txt").write_text(text)
    with refused(UsageProblem):
        Vocabulary(tmp_path / "tokens.txt")


def test_a_long_text_is_split_in_little_time(tmp_path: Path) -> None:
    (tmp_path / "tokens.txt").write_text(f"<blk> 0\n\u2581a 1\n{'b' * 20000} 2\nbb 3\n")
    vocabulary = Vocabulary(tmp_path / "tokens.txt")
    began = time.process_time()
    assert vocabulary.split("c" * 4000) == ["\u2581", *"c" * 4000]
    assert vocabulary.split(f"a {'b' * 20005}") == ["\u2581a", "\u2581", "b" * 20000, "bb", "bb", "b"]
    assert time.process_time() - began < 5
