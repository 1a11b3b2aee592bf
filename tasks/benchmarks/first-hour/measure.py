#!/usr/bin/env python3
"""The first hour: from a clone in an empty folder to the first report and to an own ONNX file judged, timed.

The commands are those of README and docs/index.md, run by `tasks/run` with the Python that is named and an empty cache
of pip, once with a terminal and once without, each in a clone of its own. Of each: seconds, exit code, and the longest
time for which nothing was printed. Needs Python 3.11 or newer and git, and no package.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import pty
import re
import selectors
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
# As README shows them; the names of files stand for the ones that are given.
FIRST = "tasks/run eval-coco"
OWN = "tasks/run eval-coco model.onnx --data images/ --annotations instances.json"
JUDGED = "tasks/run decide model.onnx --data images/ --annotations instances.json --calibration other-images/"
LIMIT_S = 3600.0
_LONGEST_TAIL = 2000


@contextmanager
def output_of(words: Sequence[str], folder: Path, variables: Mapping[str, str], *, terminal: bool) -> Iterator[tuple]:
    """Start a command, and yield it with the descriptor of all that it prints."""
    if terminal:
        from_, to = pty.openpty()
    else:
        from_, to = os.pipe()
    process = subprocess.Popen(
        words, cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=to, stderr=to, start_new_session=True
    )
    os.close(to)
    try:
        yield process, from_
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(from_)


def run(words: Sequence[str], folder: Path, variables: Mapping[str, str], *, terminal: bool) -> dict[str, Any]:
    """Run a command to its end, and return how long it took and how long it was silent."""
    began = last = time.monotonic()
    stillness, after, tail = 0.0, "", b""
    with (
        output_of(words, folder, variables, terminal=terminal) as (process, source),
        selectors.DefaultSelector() as wait,
    ):
        wait.register(source, selectors.EVENT_READ)
        while True:
            part = b""
            if wait.select(max(0.0, LIMIT_S - (time.monotonic() - began))):
                try:
                    part = os.read(source, 1 << 16)
                except OSError:  # a terminal whose last writer is gone
                    part = b""
            now = time.monotonic()
            if now - last > stillness:
                stillness, after = now - last, _last_line(tail)
            last = now
            if not part:
                break
            tail = (tail + part)[-_LONGEST_TAIL:]
        timed_out = time.monotonic() - began >= LIMIT_S
        code = process.wait(10) if not timed_out else None
    return {
        "command": shlex.join(words),
        "terminal": terminal,
        "seconds": round(last - began, 2),
        "exit_code": code,
        "longest_stillness_s": round(stillness, 2),
        "stillness_after": after,
        "last_lines": tail.decode(errors="replace").splitlines()[-5:],
    }


def without_places(value: Any, places: Mapping[str, str]) -> Any:
    """Return a record without the folders and addresses of the machine on which it was made."""
    if isinstance(value, str):
        for place, name in places.items():
            value = value.replace(place, name)
        return re.sub(r"https?://\S+", "URL", value)
    if isinstance(value, list):
        return [without_places(one, places) for one in value]
    if isinstance(value, dict):
        return {key: without_places(one, places) for key, one in value.items()}
    return value


def _last_line(tail: bytes) -> str:
    lines = [line.strip() for line in tail.decode(errors="replace").replace("\r", "\n").splitlines() if line.strip()]
    return lines[-1][:200] if lines else "the start"


def commands(asked: argparse.Namespace) -> list[list[str]]:
    """Return README's commands with the files that were named."""
    found = [shlex.split(FIRST)]
    if asked.model:
        files = {"model.onnx": asked.model, "images/": asked.images}
        files |= {"instances.json": asked.annotations, "other-images/": asked.calibration}
        for shown in (OWN, JUDGED):
            words = [str(files.get(word, word)) for word in shlex.split(shown)]
            if not asked.calibration and "--calibration" in words:
                del words[words.index("--calibration") :]
            found.append(words)
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Measure, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="JSON record to write.")
    parser.add_argument(
        "--python", type=Path, default=Path(sys.executable), help="Python that `tasks/run` starts with."
    )
    parser.add_argument("--clone", default=str(ROOT), help="Repository to clone; this one by default.")
    parser.add_argument("--model", type=Path, help="An own ONNX detector; without it the first report alone.")
    parser.add_argument("--images", type=Path, help="Folder of its images.")
    parser.add_argument("--annotations", type=Path, help="Their COCO annotation file.")
    parser.add_argument("--calibration", type=Path, help="Folder of other images, for ranges.")
    parser.add_argument("--only", choices=("terminal", "pipe"), help="One of the two alone.")
    parser.add_argument("--command", help="Run this in place of README's commands, in the folder of the clone.")
    asked = parser.parse_args(words)
    if asked.model and not (asked.images and asked.annotations):
        parser.error("--model needs --images and --annotations")
    for name in ("model", "images", "annotations", "calibration"):
        if path := getattr(asked, name):
            setattr(asked, name, path.resolve(strict=True))
    started = datetime.datetime.now(datetime.UTC)
    runs: list[Any] = []
    for terminal in [kind == "terminal" for kind in ("pipe", "terminal") if asked.only in (None, kind)]:
        with tempfile.TemporaryDirectory(prefix="first-hour-") as folder:
            place = Path(folder)
            variables = environment(place, asked.python)
            clone = ["git", "clone", "--quiet", asked.clone, "repository"]
            runs.append(run(clone, place, variables, terminal=terminal))
            for line in [shlex.split(asked.command)] if asked.command else commands(asked):
                one = run(line, place / "repository", variables, terminal=terminal)
                runs.append(without_places(one, {str(place): "FOLDER"}))
                sys.stderr.write(f"{json.dumps(runs[-1])}\n")
    record = {
        "schema_version": 1,
        "started_at": started.isoformat(timespec="seconds"),
        "python": version(asked.python),
        "revision": said("git", "-C", asked.clone, "rev-parse", "HEAD"),
        "machine": {"platform": platform.platform(), "processors": os.cpu_count(), "load_average": os.getloadavg()[0]},
        "runs": runs,
    }
    named = [path for path in (asked.model, asked.images, asked.annotations, asked.calibration) if path]
    places = {str(path.parent): "FILES" for path in sorted(named, key=lambda path: -len(str(path)))}
    places |= {str(asked.clone): "REPOSITORY"}
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    asked.output.write_text(json.dumps(without_places(record, places), indent=1) + "\n", encoding="utf-8")
    return max(abs(one["exit_code"] if one["exit_code"] is not None else 1) for one in runs)


def environment(place: Path, python: Path) -> dict[str, str]:
    """Return variables under which `python3` is this Python, and no cache and no variable of ours is at hand."""
    programs = place / "bin"
    programs.mkdir()
    (programs / "python3").write_text(f'#!/bin/sh\nexec {shlex.quote(str(python.absolute()))} "$@"\n', encoding="utf-8")
    (programs / "python3").chmod(0o755)
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("TRTW_", "PYTHON", "VIRTUAL_ENV"))
    }
    own = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "TERM": "xterm-256color", "COLUMNS": "100"}
    return kept | own | {"PIP_CACHE_DIR": str(place / "pip"), "XDG_CACHE_HOME": str(place / "cache")}


def version(python: Path) -> str:
    """Return the version of a Python."""
    return said(str(python), "-c", "import platform; print(platform.python_version())")


def said(*words: str) -> str:
    """Return what a program prints."""
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
