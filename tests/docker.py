"""What stands in for `docker run`, and is as unkind: a container starts with nothing but what its command line names.

It gets the image's variables and those of `-e`, starts in `/`, sees of the test's folder only what `-v` names, reads
nothing without `-i`, and goes on where the client is killed, to which it is no child.
"""

import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

_PYTHON = sys.executable  # not that of a test, whose starts may be forks outside of the container
_DOCKER = """#!{python} -IS
import argparse, os, shlex, signal, subprocess, sys
parser = argparse.ArgumentParser("docker", allow_abbrev=False)
parser.add_argument("command", choices=["run"])
parser.add_argument("--rm", action="store_true")
parser.add_argument("-i", action="store_true", dest="interactive")
parser.add_argument("-e", action="append", default=[], dest="variables")
parser.add_argument("-v", action="append", default=[], dest="volumes")
parser.add_argument("image")
parser.add_argument("words", nargs=argparse.REMAINDER)
asked = parser.parse_args()
inside = dict(PATH="{path}:/usr/bin:/bin", HOME="/root", HOSTNAME="container")
inside |= dict(one.split("=", 1) if "=" in one else (one, os.environ.get(one, "")) for one in asked.variables)
script, last = "set -e\\n", ""
for number, volume in enumerate(asked.volumes, start=3):
    here, there = volume.split(":")
    script += f"exec {{number}}<{{shlex.quote(here)}}\\n"
    last += f"mkdir -p {{shlex.quote(there)}}\\nmount -c --bind /proc/self/fd/{{number}} {{shlex.quote(there)}}\\n"
script += "mount -t tmpfs none {hidden}\\n" + last + "cd /\\n. " + shlex.quote(asked.image)
script += '\\nset +e\\nexec "$@"'
stdin = None if asked.interactive else subprocess.DEVNULL
words = ["/usr/bin/unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", *asked.words]
container = subprocess.Popen(words, env=inside, stdin=stdin, start_new_session=True)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda number, _: os.killpg(container.pid, number))
code = container.wait()
sys.exit(128 - code if code < 0 else code)
"""


def docker(folder: Path, *options: object, image: str = "") -> str:
    """Return the command of a container, for `trtw upgrade` and such; skip where nothing can be mounted.

    Args:
        folder: of the test: hidden from the container but for what is mounted.
        options: of `docker run`, such as "-v", "DIR:DIR".
        image: lines of shell that run before the command, which is "$@" there.
    """
    if not can_mount():
        pytest.skip("nothing can be mounted here (unshare --map-root-user --mount)")
    program, entry = folder.parent / f"{folder.name}-docker", folder.parent / f"{folder.name}-image"
    program.write_text(_DOCKER.format(python=_PYTHON, path=Path(_PYTHON).parent, hidden=folder))
    program.chmod(0o755)
    number = 0
    while (place := entry.with_name(f"{entry.name}-{number}")).exists():
        number += 1
    place.write_text(f"{image or ':'}\n")
    return shlex.join([str(program), "run", "--rm", "-i", *map(str, options), str(place)])


@cache
def can_mount() -> bool:
    """Whether a test may mount something of its own here."""
    words = ["unshare", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    return shutil.which("unshare") is not None and subprocess.run(words, capture_output=True).returncode == 0
