"""Plain English: phrases that documents, report templates, help texts and messages do not use."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# `beside` these is a place, and correct.
_PLACE = (
    r"(?:(?:the|a|an|its|their|this|that|these|those|every|each|your)\s+)?(?:[\w.`*]+\s+)?"
    r"(?:caches?|contract|engine|evidence|file|folder|graph|manifest|model|number|output|page|path|place|plan|repository"
    r"|target|it|them)\b(?!\s+on\b)"
)
# A name, the pattern (case is ignored, exceptions are part of it) and what to write instead.
BETTER = {
    "beside": (rf"\bbeside\b(?!\s+{_PLACE})", "compared with; next to"),
    "told": (r"\btold\b", "detected, distinguished, known, given"),
    # "cannot tell" is a verdict of the statistics
    "tell": (r"(?<!cannot )\btell(?:s|ing)?\b(?!\s+(?:you|the user)\b)", "show, distinguish, say"),
    "way around": (r"\bways?\s+around\b", "workaround"),
    "let through": (r"\b(?:let|lets|letting)\s+(?:\w+\s+)?through\b", "accepted"),
    "turn over": (r"\bturn(?:s|ed|ing)?\s+(?:\w+\s+){0,3}(?:over|round)\b", "exceed the limit; invert"),
    "calls a second": (
        r"\b(?:calls|chunks|frames|images|items|tokens)\s+a\s+second\b|>a second<|\|\s*a second\s*\|",
        "calls/s",
    ),
    "1 rows": (
        r"\b1 (?:calls|cases|chunks|engines|files|groups|images|nodes|points|rows|samples|shapes|streams|tokens)\b",
        "1 row",
    ),
    "of nothing": (r"\bof\s+nothing\b", "zero, empty"),
    "a person": (r"\ba\s+person\b", "the user, somebody"),
    "for want of": (r"\b(?:for|in)\s+want\s+of\b", "without, no"),
    "be had": (r"\bbe\s+had\b", "be available"),
    "at hand": (r"\bat\s+hand\b", "available, given"),
    "left as it was": (
        r"\b(?:are|is|left|leaves|stays?|state)\s+as\s+(?:it|they)\s+(?:was|were)\b",
        "unchanged",
    ),
    "all of it": (r"\ball\s+of\s+it:", "full report:"),
    "coarsest that": (r"\bcoarsest\s+that\b", "coarsest precision used, allowed or stored"),
    "due to done": (r"\bdue\s+to\s+done\b", "latency from due time"),
    "costs and brings": (r"\bcosts\s+and\s+brings\b", "trade-off"),
    "but where": (r"\bbut\s+where\b", "unless"),
    "nothing but": (r"\bnothing\s+but\b", "only"),
    "what came out": (r"\bwhat\s+came\s+out\b", "result"),
    "mend": (r"\bmend(?:s|ed|ing)?\b", "fix"),
    "anew": (r"\banew\b", "again"),
    "random by design": (r"\brandom\s+by\s+design\b", "nondeterministic"),
    "come to lie": (r"\bcomes?\s+to\s+lie\b", "be"),
    "says another": (r"(?<!contract )\bsays?\s+another\b", "sets, changes"),
    "a word of": (
        r"\bwords?\s+of\s+(?:another\s+tool|trtexec|Polygraphy|ultralytics|lm-eval|other\s+commands)\b",
        "an option of",
    ),
    "mean nothing": (r"\bmeans?\s+nothing\b", "meaningless, has no effect"),
}
# Of pages for users alone: a program has figures and processors, too.
ON_PAGES = {
    "processor": (r"(?<!multi)(?<!transformers' )\bprocessors?\b", "CPU"),
    "figure": (r"\bfigures?\b", "metric, value, number"),
    "doubt": (r"(?<!passed, with )(?<!recommended, with )\bdoubts?\b", "caveat"),
}
_PATTERNS = {wrong: re.compile(pattern, re.IGNORECASE) for wrong, (pattern, _) in (BETTER | ON_PAGES).items()}
_RECORDED = {"report.md", "CHANGELOG.md"}  # what a command wrote, and history
_RULES = "## How we write"  # names the words
_QUOTED = re.compile(r"^```.*?^```|^>.*?$|``.+?``|`[^`]+`", re.MULTILINE | re.DOTALL)
_C_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def documents() -> Iterator[Path]:
    yield from (path for path in ROOT.glob("*.md"))
    yield from (ROOT / "pixi.toml", ROOT / "cpp" / "README.md", ROOT / "extern" / "README.md")
    yield from (ROOT / "python").rglob("*.j2")
    for folder in ("docs", "models", "python"):
        yield from (ROOT / folder).rglob("*.md")


def prose(path: Path) -> str:
    """A document without code and quoted output."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        return "\n".join(line for line in text.splitlines() if line.startswith(("description", "#")))
    if path.suffix == ".md":
        text = text.split(_RULES)[0] if path.name == "CONTRIBUTING.md" else text
        return _QUOTED.sub("x", text)
    return text


def literals(path: Path) -> str:
    """The string literals of a source file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return "\n".join(
            node.value
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        )
    return "\n".join(found[1] for found in _C_STRING.finditer(text))


def found_in(text: str, phrases: Iterable[str] = BETTER) -> list[tuple[str, str]]:
    """Each phrase to replace: its name, and its context."""
    return [
        (wrong, " ".join(text[max(0, hit.start() - 40) : hit.end() + 40].split()))
        for wrong in phrases
        for hit in _PATTERNS[wrong].finditer(text)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "3 shapes beside ort-cpu",
        "is told by its outputs",
        "tries ways\naround it",
        "let through by an option",
        "rounding turns every output over",
        "50 tokens a second",
        "1 samples done",
        "differences of nothing",
        "what a person should know",
        "skipped for want of memory",
        "left as it was: 30 groups",
        "all of it: PATH",
        "--fp16 is a word of trtexec",
        "(--init says another value)",
    ],
)
def test_phrases_are_found(text: str) -> None:
    assert len(found_in(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "the manifest beside the plan",
        "in files beside the model",
        "it cannot tell",
        "1 s, 21 samples",
        "a second session",
    ],
)
def test_plain_sentences_pass(text: str) -> None:
    assert found_in(text) == []


def test_documents_and_templates_use_plain_words() -> None:
    hits = [
        f"{path.relative_to(ROOT)}: … {context} … (better: {BETTER[wrong][1]})"
        for path in documents()
        if path.name not in _RECORDED
        for wrong, context in found_in(prose(path))
    ]
    assert not hits, "\n".join(hits)


def test_pages_for_users_use_the_words_of_the_field() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    pages += [page for folder in ("guides", "reference", "pictures") for page in (ROOT / "docs" / folder).rglob("*.md")]
    hits = [
        f"{page.relative_to(ROOT)}: … {context} … (better: {ON_PAGES[wrong][1]})"
        for page in pages
        for wrong, context in found_in(prose(page), ON_PAGES)
    ]
    assert not hits, "\n".join(hits)


def test_messages_use_plain_words() -> None:
    sources = [ROOT / "python", ROOT / "cpp" / "src", ROOT / "cpp" / "include"]
    paths = (
        path for source in sources for kind in ("py", "cpp", "hpp", "def", "cu") for path in source.rglob(f"*.{kind}")
    )
    hits = [
        f"{path.relative_to(ROOT)}: … {text} … (better: {BETTER[wrong][1]})"
        for path in paths
        for wrong, text in found_in(literals(path))
    ]
    assert not hits, "\n".join(hits)
