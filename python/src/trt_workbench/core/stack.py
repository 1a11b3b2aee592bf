"""A stack: the Python with its runtimes, or the TensorRT libraries, that a command is to run in instead of our own.

A Python environment needs no trt-workbench of its own: its packages come first on the import path, and what it lacks
is taken from ours, which must then be of the same minor version of Python, as compiled packages are.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from trt_workbench.core.errors import ComponentMissing, UsageProblem, error_kind
from trt_workbench.core.workers import STACK, WorkerFailure, ask_command, python_command
from trt_workbench.core.workspace import cache_root

Kind = Literal["this environment", "Python environment", "TensorRT libraries", "command"]
HERE = "."
"""What names our own environment."""
_LIBRARY = "libnvinfer.so*"
_ASK = """import json, os, sys
unseen = [one for one in sys.argv[2:] if not os.path.exists(one)]
if unseen:
    print(json.dumps({"unseen": unseen[0]}))
    sys.exit()
from trt_workbench.core.errors import WorkbenchError, error_document
try:
    from trt_workbench import __version__
    from trt_workbench.backends.registry import require_backend
    from trt_workbench.core.gpu import first_gpu
    versions = dict(require_backend(sys.argv[1], ".onnx").availability().versions)
    gpus = [one["name"] for one in [first_gpu()] if one]
    found = {"versions": {**versions, "trt-workbench": __version__}, "gpus": gpus}
except WorkbenchError as error:
    found = error_document(error)
print(json.dumps({**found, "python": list(sys.version_info[:3])}))
"""
# What decides numbers on any machine. A container gets no variable of ours, so its first line of code sets them.
_HANDED_ON = ("CUDA_MODULE_LOADING", "NVIDIA_TF32_OVERRIDE", "OMP_NUM_THREADS", "OMP_WAIT_POLICY")
_SET = """import os; os.environ.update({variables!r})
if os.access({caches!r}, os.W_OK): os.environ["TRTW_TMP"] = {caches!r}
"""


@dataclass(frozen=True)
class Stack:
    """One stack.

    Attributes:
        text: as the user named it.
        kind: what it is.
        start: the command line that starts its Python, without arguments.
        environment: variables that differ from ours.
    """

    text: str
    kind: Kind
    start: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def open(cls, text: str) -> Stack:
        """Return the stack that a text names.

        Args:
            text: "." for this environment; the folder or the Python of an environment; a folder with TensorRT's
                libraries, or whose `lib` has them; else a command that runs `python3` in a container, such as
                `docker run --rm -i --gpus all -v /data:/data IMAGE`.

        Raises:
            UsageProblem: it names none of them.
        """
        path, here = Path(text), (sys.executable,)
        if text == HERE:
            return cls(text, "this environment", here)
        if pythons := [one for one in (path / "bin" / "python", path) if one.is_file() and os.access(one, os.X_OK)]:
            # never resolved: the link itself tells Python which environment it is of
            return cls(text, "Python environment", (str(pythons[0].absolute()),))
        if path.is_dir():
            folders = [one for one in (path / "lib", path) if any(one.glob(_LIBRARY))]
            if not folders:
                raise UsageProblem(f"The folder has neither bin/python nor TensorRT's {_LIBRARY}: {path}")
            return cls(text, "TensorRT libraries", here, {"TENSORRT_HOME": str(path.absolute())})
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise UsageProblem(f"The stack's command cannot be read ({error}): {text}") from error
        if len(words) < 2:
            raise UsageProblem(f"The stack does not exist: {text}")
        return cls(text, "command", (*words, "python3"))

    def python(self, *arguments: str) -> list[str]:
        """Return the command line that runs the stack's Python with arguments, "-m" or "-c" first."""
        *before, python = self.start
        variables = {STACK: "", **{name: os.environ[name] for name in _HANDED_ON if name in os.environ}}
        first = _SET.format(variables=variables, caches=str(cache_root())) if self.kind == "command" else ""
        return [*before, *python_command(*arguments, python=python, packages=self._packages, first=first)]

    @property
    def variables(self) -> dict[str, str]:
        """All variables of its processes."""
        return {**os.environ, **self.environment, STACK: os.pathsep.join(self._packages)}

    def seen_from(self, other: Stack) -> str | None:
        """Return what names this stack in a process of another one; None where the two would be mixed there.

        There "." is the other's environment, and a TensorRT folder would run in the other's Python.
        """
        environments = ("this environment", "Python environment")
        if self.kind in environments and other.kind in environments:
            return self.start[0]
        if self.kind == "TensorRT libraries" and other.kind in ("this environment", self.kind):
            return self.environment["TENSORRT_HOME"]
        return None

    def ask(self, backend: str, needed: Iterable[Path] = (), timeout_s: float = 300.0) -> dict[str, Any]:
        """Start the stack, and return the "versions" of a backend there, the "gpus" and the version of "python".

        Args:
            backend: its name.
            needed: files and folders that have to be there at the same paths as here.
            timeout_s: after which it counts as one that does not start.

        Raises:
            ComponentMissing: the stack does not start, or its backend cannot serve.
            UsageProblem: there is no backend of this name, or something is not there.
        """
        paths = [str(one.absolute()) for one in needed]
        try:
            found: dict[str, Any] = ask_command(self.python("-c", _ASK, backend, *paths), timeout_s, self.variables)
        except WorkerFailure as failure:
            raise ComponentMissing(
                f"The stack does not start: {failure}. Check its command and its packages; its Python must be of the "
                f"same minor version as this one, or have trt-workbench installed: {self.text}"
            ) from failure
        if unseen := found.get("unseen"):
            raise UsageProblem(
                f"The stack {self.text} does not see {unseen}; give it the folder at the same path, such as by "
                "`docker run -v DIR:DIR`."
            )
        if "error" in found:
            kind = error_kind(found["kind"]) or ComponentMissing
            raise kind(f"In the stack {self.text}: {found['error']}")
        return found

    @cached_property
    def _packages(self) -> list[str]:
        """Our folders of packages for the end of the stack's import path; none where its Python is another."""
        if self.kind == "command":
            return []
        version = list(sys.version_info[:2])
        if self.kind == "Python environment":
            code = "import json, sys; print(json.dumps(sys.version_info[:2]))"
            try:
                version = ask_command([*self.start, "-I", "-c", code], 60.0)
            except WorkerFailure as failure:
                raise ComponentMissing(f"The stack's Python does not start ({failure}): {self.text}") from failure
        same = version == list(sys.version_info[:2])
        return [
            one
            for one, path in zip(sys.path, map(Path, sys.path), strict=True)
            # those of packages, not of Python's own library
            if same and path.is_dir() and not (path / "os.py").is_file() and path.name != "lib-dynload"
        ]


def is_chosen() -> bool:
    """Whether this process runs in a stack: then its versions are the user's choice, however old."""
    return STACK in os.environ
