"""What colour a verdict has in every report: green, amber or red, and none where a word judges nothing."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Headline(NamedTuple):
    """What a report says first of all.

    Attributes:
        said: sentences, the answer first.
        verdict: in a word that has a colour; None of a run that judges nothing.
    """

    said: list[str]
    verdict: str | None = None


Tone = Literal["good", "doubt", "bad", "plain"]
_WORDS: dict[Tone, tuple[str, ...]] = {
    "good": (
        "built",
        "caught",
        "faster",
        "improvement",
        "kept",
        "matched",
        "passed",
        "recommended",
        "right",
        "safe",
        "stable",
        "yes",
    ),
    # nothing is wrong, and nothing is shown to be right
    "doubt": (
        "cannot tell",
        "consistent",
        "far",
        "interrupted",
        "kept, not certain",
        "lost, not certain",
        "no recommendation",
        "not checked",
        "not proven",
        "not run",
        "partial",
        "recommended, with doubts",
        "refused by both",
        "simulated",
        "undecided",
        "unstable",
        "unavailable",
        "unverified",
        "warning",
    ),
    "bad": (
        "failed",
        "lost",
        "lower score",
        "missed",
        "no",
        "not calibrated",
        "not safe",
        "refused",
        "regression",
        "slower",
        "wrong",
    ),
}
_TONES = {word: tone for tone, words in _WORDS.items() for word in words}


def tone(verdict: str | None) -> Tone:
    """Return what a verdict of any command says, which is the class of its pill and of the answer that it stands in."""
    if not verdict:
        return "plain"
    # "right within fp16", and whatever a later format is called
    return "good" if verdict.startswith("right within ") else _TONES.get(verdict, "plain")
