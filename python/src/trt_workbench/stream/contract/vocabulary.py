"""The vocabulary of a decoder: the text of tokens, and the tokens of a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import require_file
from trt_workbench.core.input_files import read_text

WORD_START = "▁"
"""Begins a piece that begins a word."""
# Of bytes, which pieces stand for that no other writes.
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPECIAL = re.compile(r"<[^>]*>")
BLANKS = ("<blk>", "<blank>", "<eps>")
"""What blanks are called."""
UNKNOWN = "<unk>"
"""Stands for what no piece writes."""
_MOST_TOKENS = 2**20
_LINE = re.compile(r"(?:(.*)[ \t])?([0-9]{1,9})[ \t\r]*")


class Vocabulary:
    """Pieces of text by number.

    Attributes:
        pieces: by number.
    """

    def __init__(self, path: Path) -> None:
        """Read a file of lines such as `▁the 5`, as icefall and sherpa-onnx write them.

        Raises:
            UsageProblem: it cannot be read, a line has another form, or a number comes twice.
        """
        require_file("contract's tokens file", path)
        self.pieces: dict[int, str] = {}
        try:
            text = read_text(path)
        except (OSError, UnicodeDecodeError) as error:
            raise UsageProblem(f"The tokens file cannot be read ({error}): {path}") from error
        for place, line in enumerate(text.split("\n"), 1):
            if not line.strip():
                continue
            found = _LINE.fullmatch(line)
            piece, number = found.groups() if found else ("", "")
            if not found or int(number) >= _MOST_TOKENS or int(number) in self.pieces:
                raise UsageProblem(
                    f"A line of a tokens file has a piece, a space and its number, each number once: {path}:{place}"
                )
            self.pieces[int(number)] = piece or " "
        if not self.pieces:
            raise UsageProblem(f"The tokens file is empty: {path}")
        written = {number: piece for number, piece in self.pieces.items() if not _SPECIAL.fullmatch(piece)}
        self._bytes = {int(byte[1], 16) for byte in map(_BYTE.fullmatch, self.pieces.values()) if byte}
        self._by_piece = {piece.replace(" ", WORD_START): number for number, piece in written.items()}
        self._sizes = sorted({1, *map(len, self._by_piece)}, reverse=True)

    def text(self, tokens: Iterable[int], *, faulty: bool = False) -> str:
        """Return what tokens write: other special pieces write nothing, but a blank that was written is shown.

        Args:
            tokens: their numbers.
            faulty: whether a number that is none of a piece is written as it is.

        Raises:
            UsageProblem: a number is none of a piece.
        """
        found, pending = [], bytearray()
        for token in tokens:
            if token not in self.pieces and not faulty:
                raise UsageProblem(
                    f"The decoder gave token {token}, which the vocabulary of {len(self.pieces)} pieces lacks."
                )
            piece = self.pieces.get(token, f"<{token}>")
            if byte := _BYTE.fullmatch(piece):
                pending.append(int(byte[1], 16))
                continue
            silent = token in self.pieces and piece not in BLANKS and _SPECIAL.fullmatch(piece)
            found += [pending.decode("utf-8", "replace"), "" if silent else piece]
            pending.clear()
        found.append(pending.decode("utf-8", "replace"))
        return " ".join("".join(found).replace(WORD_START, " ").split())

    def split(self, text: str) -> list[str]:
        """Return the pieces that write a text, the longest first; a character that none writes stands for itself.

        Both texts of a comparison are split alike, so that it does not matter which of several splits a model chose.
        """
        return list(self._split(WORD_START + WORD_START.join(text.split()))) if text.split() else []

    def unwritten(self, text: str) -> str:
        """Return the characters of a text that no piece writes, each once."""
        pieces = dict.fromkeys(piece for piece in self.split(text) if piece not in self._by_piece)
        others = ((one, one.encode("utf-8", "surrogatepass")) for one in pieces if one != WORD_START)
        return "".join(one for one, content in others if not self._bytes.issuperset(content))

    def _split(self, text: str) -> Iterator[str]:
        place = 0
        while place < len(text):
            parts = (text[place : place + size] for size in self._sizes)
            part = next((part for part in parts if part in self._by_piece), text[place])
            yield part
            place += len(part)
