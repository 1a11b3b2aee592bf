"""When a command has its first result: `infer-engine` again and again, of several source trees in turn.

Every call is a process of its own with the file cache warm. Wall time is the command's own `first_result_s`; where
other programs use the machine, the processor time of the whole call says more, or with `--until FILE` that of the main
thread until FILE is opened, where the call ends. `--program TEXT` measures other code, such as `import numpy`. Appends
a record a tree, and prints medians.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

PROGRAM = "from trt_workbench.main import main; main()"
UNTIL = """
import os, sys, time
def end_where_it_is_opened(event, given, file={file!r}):
    if event == "open" and isinstance(given[0], (str, os.PathLike)) and os.path.basename(given[0]) == file:
        os.write(1, str(time.thread_time()).encode())
        os._exit(0)
sys.addaudithook(end_where_it_is_opened)
"""


def call(words: list[str], source: Path | None, program: str, until: str) -> dict[str, Any]:
    """Run a program once; return what it says of its start, and the processor time it took."""
    environment = dict(os.environ)
    if source:
        environment["PYTHONPATH"] = os.pathsep.join([str(source), *filter(None, [environment.get("PYTHONPATH")])])
    load = os.getloadavg()[0]
    if until:
        program = UNTIL.format(file=until) + program
    with tempfile.TemporaryFile("w+") as out:
        started = subprocess.Popen([sys.executable, "-c", program, *words], env=environment, stdout=out)
        _, status, usage = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)  # Popen must not wait for it again
        if started.returncode:
            raise subprocess.CalledProcessError(started.returncode, words)
        out.seek(0)
        text = out.read()
    cpu_s = usage.ru_utime + usage.ru_stime
    found: dict[str, Any] = {"cpu_s": cpu_s, "load_before": load}
    if until:
        found["main_thread_s"] = float(text)
    elif "--json" in words:
        document = json.loads(text)
        names = ("first_result_s", "first_result_parts_s", "load_s", "backend")
        found |= {name: document.get(name) for name in names}
    return found


def columns(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the values of all rows by key, to three digits; a key that the rows lack is left out."""
    found: dict[str, Any] = {}
    for key, first in rows[0].items():
        values = [row[key] for row in rows]
        if isinstance(first, dict):
            found[key] = columns(values)
        elif first is not None:
            found[key] = [float(f"{value:.3g}") if isinstance(value, float) else value for value in values]
    return found


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=11, help="calls of each tree")
    parser.add_argument("--tree", action="append", default=[], metavar="NAME=FOLDER", help="a tree's python/src")
    parser.add_argument("--records", type=Path, required=True, help="JSON Lines to append to")
    parser.add_argument("--case", required=True, help="name of the case in the records")
    parser.add_argument("--until", default="", metavar="FILE", help="name of the file where a call ends")
    parser.add_argument("--program", default=PROGRAM, metavar="TEXT", help="what to run in place of trtw")
    parser.add_argument("words", nargs="*", help="words after trtw; put -- before them")
    asked = parser.parse_args()
    trees = {name: Path(folder) for name, _, folder in (text.partition("=") for text in asked.tree)} or {"here": None}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in trees}
    for number in range(-1, asked.runs):  # the first one of each warms the file cache
        for name, source in trees.items():
            one = call(asked.words, source, asked.program, asked.until)
            if number >= 0:
                found[name].append(one)
    with asked.records.open("a", encoding="utf-8") as file:
        for name, several in found.items():
            program = {"program": asked.program} if asked.program != PROGRAM else {}
            until = {"until": asked.until} if asked.until else {}
            record = {"case": asked.case, "tree": name, "words": asked.words, **program, **until, **columns(several)}
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
    for name, several in found.items():
        for key in ("first_result_s", "main_thread_s", "cpu_s"):
            if values := sorted(one[key] for one in several if one.get(key) is not None):
                print(f"{asked.case}, {name}: {key} median {median(values):.3f}, {values[0]:.3f} to {values[-1]:.3f}")


if __name__ == "__main__":
    main()
