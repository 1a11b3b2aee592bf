"""The command line of tasks/run."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

from taskrunner.errors import RunnerError, UsageProblem
from taskrunner.execute import run
from taskrunner.machine import this_machine
from taskrunner.manifest import Manifest, load
from taskrunner.plan import plan
from taskrunner.resolve import all_tasks, lacking
from taskrunner.venvs import tell

HELP = """\
usage: tasks/run [options] TASK [ARGS…]

Run a task of pixi.toml. With pixi on the PATH this is `pixi run TASK ARGS…`. Without it a virtual environment is
made under tmp/venvs/ (once, with pip), and the task's command runs in there. ARGS go to the task as they are.

options, before the task:
  -e, --environment NAME  the environment to run in, instead of the task's own
  -n, --dry-run           print the commands and run none
  --skip-deps             leave out the tasks that this one depends on
  --no-pixi               use a virtual environment even where there is pixi
  --list                  list the tasks
  -h, --help              show this help
"""


@dataclass
class Request:
    """What the command line asks for."""

    task: str | None = None
    args: list[str] = field(default_factory=list)
    environment: str | None = None
    dry_run: bool = False
    skip_deps: bool = False
    use_pixi: bool = True
    list_tasks: bool = False
    show_help: bool = False


def parse(argv: list[str]) -> Request:
    """Read the command line; everything after the task's name belongs to the task, word for word.

    Raises:
        UsageProblem: an unknown option, or an option without its value.
    """
    request = Request()
    words = list(argv)
    while words:
        word = words.pop(0)
        name, separator, value = word.partition("=")
        if name in {"-e", "--environment"}:
            if not separator and not words:
                msg = f"{name} needs the name of an environment"
                raise UsageProblem(msg)
            request.environment = value if separator else words.pop(0)
        elif word in {"-n", "--dry-run"}:
            request.dry_run = True
        elif word == "--skip-deps":
            request.skip_deps = True
        elif word == "--no-pixi":
            request.use_pixi = False
        elif word == "--list":
            request.list_tasks = True
        elif word in {"-h", "--help"}:
            request.show_help = True
        elif word.startswith("-"):
            msg = f"There is no option {word}; options of the task go after its name. See tasks/run --help"
            raise UsageProblem(msg)
        else:
            request.task, request.args = word, words
            return request
    return request


def main(argv: list[str], root: Path) -> int:
    """Run the task runner for the repository at `root` and return the exit code."""
    try:
        return _main(parse(argv), root)
    except RunnerError as error:
        tell(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def _main(request: Request, root: Path) -> int:
    if request.show_help:
        print(HELP, end="")
        return 0
    if request.list_tasks:
        print(_listing(load(root)))
        return 0
    if request.task is None:
        print(HELP, end="", file=sys.stderr)
        return UsageProblem.exit_code
    pixi = shutil.which("pixi") if request.use_pixi else None
    if pixi:
        command = _pixi_command(pixi, request, root)
        sys.stderr.flush()
        os.execv(pixi, command)
    manifest = load(root)
    machine = this_machine()
    steps = plan(manifest, request.task, request.args, request.environment, machine, skip_deps=request.skip_deps)
    if request.dry_run:
        for step in steps:
            print(f"[{step.environment.name}] {step.command}")
        return 0
    for environment in {step.environment.name: step.environment for step in steps}.values():
        if shortfall := lacking(environment, machine):
            tell(
                f"environment {environment.name} is for more than this machine has: it lacks {' and '.join(shortfall)}"
            )
    return run(manifest, steps)


def _pixi_command(pixi: str, request: Request, root: Path) -> list[str]:
    """Return the command line for pixi, whose own options stand before the task."""
    options = ["--manifest-path", str(root / "pixi.toml")]
    if request.environment is not None:
        options += ["-e", request.environment]
    if request.dry_run:
        options.append("--dry-run")
    if request.skip_deps:
        options.append("--skip-deps")
    return [pixi, "run", *options, request.task or "", *request.args]


def _listing(manifest: Manifest) -> str:
    machine = this_machine()
    tasks = all_tasks(manifest)
    width = max(map(len, tasks), default=0)
    lines = ["tasks"]
    for name, task in tasks.items():
        holders = ", ".join(e.name for e in manifest.environments.values() if name in e.tasks)
        lines.append(f"  {name:<{width}}  {task.description} [{holders}]")
    lines.append("environments")
    for environment in manifest.environments.values():
        shortfall = lacking(environment, machine)
        state = (
            f"for more than this machine has: lacks {' and '.join(shortfall)}" if shortfall else "runs on this machine"
        )
        lines.append(f"  {environment.name}: {state}")
    return "\n".join(lines)
