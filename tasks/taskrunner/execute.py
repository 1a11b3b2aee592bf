"""Running the steps: all but the last are waited for, the last takes this process's place."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from taskrunner.activation import activate, with_settings
from taskrunner.errors import ComponentMissing, UsageProblem
from taskrunner.manifest import Manifest
from taskrunner.plan import Step
from taskrunner.venvs import ensure


def run(manifest: Manifest, steps: list[Step]) -> int:
    """Run the steps in order up to the first that fails, and return its exit code.

    The last step replaces this process, so that its exit code and every signal (Ctrl-C among them) are its own.

    Raises:
        ComponentMissing: an environment could not be made, or there is no bash.
        UsageProblem: a task's working directory does not exist.
    """
    shell = shutil.which("bash")
    if shell is None:
        msg = "tasks/run needs bash, and there is none on the PATH"
        raise ComponentMissing(msg)
    # Environments first: a task must not run halfway before its successor's environment proves impossible.
    venvs = {step.environment.name: ensure(step.environment, manifest.root) for step in steps}
    for position, step in enumerate(steps):
        variables = activate(manifest, step.environment, venvs[step.environment.name])
        variables = with_settings(variables, step.task.env)
        folder = _folder(manifest.root, step)
        command = [shell, "-e", "-o", "pipefail", "-c", step.command]
        if position == len(steps) - 1:
            sys.stdout.flush()
            sys.stderr.flush()
            os.chdir(folder)
            os.execve(shell, command, variables)
        code = _wait(command, folder, variables)
        if code != 0:
            return code
    return 0


def _folder(root: Path, step: Step) -> Path:
    folder = root / (step.task.cwd or "")
    if not folder.is_dir():
        msg = f"The working directory of the task {step.task.name!r} does not exist. {folder}"
        raise UsageProblem(msg)
    return folder


def _wait(command: list[str], folder: Path, variables: dict[str, str]) -> int:
    """Wait for a step; Ctrl-C reaches it through the terminal, and it decides what to do about it."""
    with subprocess.Popen(command, cwd=folder, env=variables) as process:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            code = process.wait()
        finally:
            signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code
