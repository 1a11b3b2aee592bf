"""The commands that README and the guides show in fenced blocks, and the hardware that each needs.

A block names what its commands need behind its language: "```sh gpu network". Markdown shows nothing of it.
"""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import typer

from trt_workbench.app import app

ROOT = Path(__file__).parents[1]
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
# Of the reference what shows commands: the long parts of the guides.
DETAILS = [
    *sorted((ROOT / "docs" / "reference" / "commands").glob("*.md")),
    *(ROOT / "docs" / "reference" / f"{name}.md" for name in ("low-precision-formats", "troubleshooting")),
]
PAGES = [ROOT / "README.md", ROOT / "docs" / "index.md", *GUIDES, *DETAILS]


def whole(name: str) -> str:
    """Return the text of a guide, and of the reference behind it where there is one."""
    pages = [ROOT / "docs" / folder / f"{name}.md" for folder in ("guides", "reference/commands")]
    return "\n".join(page.read_text(encoding="utf-8") for page in pages if page == pages[0] or page.is_file())


COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
FENCE = re.compile(r"^```(\w*)((?: [a-z-]+)*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NEEDS = {
    "gpu": "an NVIDIA GPU, and TensorRT where the command builds or runs an engine",
    "network": "a download of gigabytes",
    "tensorrt-rtx": "the package tensorrt-rtx, 95 MB; no GPU",
}
_FRONT = {"trtw", "pixi", "run", "tasks/run", "$", "-", "run:"}
_GPU_BACKENDS = {"trt", "ort-trt", "ort-cuda", "ort-rtx"}
_GPU_MATRICES = {"encoder", "llm", "runtimes", "trt-options", "vit"}


@dataclass(frozen=True)
class Shown:
    """A command as a page shows it."""

    page: str
    environment: str
    words: tuple[str, ...]
    marks: frozenset[str]

    @property
    def line(self) -> str:
        return shlex.join(self.words)

    @property
    def needs(self) -> frozenset[str]:
        """What it cannot run without, read from its own words."""
        name, *rest = self.words
        if "--dry-run" in rest or "--manifest-only" in rest:
            return frozenset()
        if name == "check-target" or "--targets" in rest:
            return frozenset({"tensorrt-rtx"})
        if name in ("setup-tensorrt", "build-ort"):
            return frozenset() if "--from" in rest or "wheels" in rest else frozenset({"network"})
        chosen = {part.split(":")[0] for word in rest for part in word.split(",")} & _GPU_BACKENDS
        engines = "--builds" in rest or any(word.endswith(".plan") for word in rest)
        of_engines = name in ("build-engine", "refit-engine") or (name == "verify" and "--backend" not in rest)
        gpu_matrix = name == "bench" and bool(rest) and rest[0] in _GPU_MATRICES
        if gpu_matrix or chosen or engines or of_engines or self.environment.startswith(("gpu", "rtx", "h200")):
            return frozenset({"gpu"})
        return frozenset()


def blocks(text: str) -> list[tuple[frozenset[str], str]]:
    """Return the marks and the body of every block that may show commands."""
    return [
        (frozenset(marks.split()), body)
        for kind, marks, body in FENCE.findall(text)
        if kind in ("", "sh", "console", "yaml")
    ]


def shown(page: Path) -> list[Shown]:
    """Return every command of this project that a page shows in a block."""
    return [one for marks, body in blocks(page.read_text(encoding="utf-8")) for one in of_block(page.name, marks, body)]


def of_block(page: str, marks: frozenset[str], body: str) -> list[Shown]:
    """Return the commands of one block."""
    found = []
    for line in body.replace("\\\n", " ").splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            continue
        environment = ""
        while words and (words[0] in _FRONT or words[0] == "-e"):
            if words[0] == "-e":
                environment = words[1]
            words = words[2 if words[0] == "-e" else 1 :]
        if words and words[0] in COMMANDS and not re.match(r"export \w+=", line):  # which is the shell's
            words = words[: words.index(">")] if ">" in words else words
            found.append(Shown(page, environment, tuple(word for word in words if word != "…"), marks))
    return found
