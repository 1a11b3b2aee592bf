"""What colour a verdict has in every report: green, amber or red, and none where a word judges nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

# A check that could not have failed: nothing was compared with anything else. Grey, exit code 0.
NOTHING = "nothing to compare"
NOT_PROVEN = "not proven"
_DOUBTS = ", with doubts"


@dataclass(frozen=True)
class Reach:
    """What a check was asked for, what of it ran, and what of that could have failed: its badge and its exit code.

    Attributes:
        asked: how many shapes, points, models or parts.
        reached: how many of them ran.
        judged: how many of these could have failed; none where something is compared with itself.
        wrong: how many failed.
        unproven: how many questions are open.
        doubts: how many passed without being certain.
    """

    asked: int
    reached: int
    judged: int
    wrong: int = 0
    unproven: int = 0
    doubts: int = 0

    def word(self, good: str = "passed", bad: str = "failed") -> str:
        """Return the badge: `good` only where all that was asked for ran, and could have been `bad`."""
        if self.wrong:
            return bad
        if self.unproven or self.reached < self.asked:
            return NOT_PROVEN
        if not self.judged:
            return NOTHING
        return f"{good}{_DOUBTS}" if self.doubts else good

    @property
    def passed(self) -> bool:
        """Whether the exit code is 0."""
        return self.word("", "failed") not in ("failed", NOT_PROVEN)


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
        "accepted",
        "built",
        "caught",
        "faster",
        "improvement",
        "kept",
        "matched",
        "ok",
        "passed",
        "recommended",
        "right",
        "safe",
        "stable",
        "yes",
    ),
    # nothing is wrong, and nothing is shown to be right
    "doubt": (
        "absent",
        "anomalous",
        "cannot tell",
        "consistent",
        "far",
        "interrupted",
        "not checked",
        "not proven",
        "not run",
        "not shown",
        "partial",
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
        "infeasible",
        "lost",
        "lower score",
        "missed",
        "no",
        "not calibrated",
        "not safe",
        "problem",
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
    if verdict.endswith(_DOUBTS):
        return "doubt"
    # "right within fp16", and whatever a later format is called
    return "good" if verdict.startswith("right within ") else _TONES.get(verdict, "plain")
