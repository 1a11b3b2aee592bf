"""Runs the tasks of pixi.toml without pixi: the standard library, pip and bash are all it needs."""

from __future__ import annotations

import ctypes
import difflib
import fcntl
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TextIO

HELP = """\
usage: tasks/run [options] TASK [ARGS…]

Run a task of pixi.toml. With pixi on the PATH this is `pixi run TASK ARGS…`. Without it the task's command runs in
a virtual environment under tmp/venvs/, made once with pip. ARGS are passed to the task unchanged.

options, before the task:
  -e, --environment NAME  the environment to run in, instead of the task's own
  -n, --dry-run           print the commands without running them
  --no-pixi               use a virtual environment even if there is pixi
  --list                  list the tasks
  -h, --help              show this help
"""
_FLAGS = {"-n": "--dry-run", "-h": "--help"} | {word: word for word in ("--dry-run", "--help", "--list", "--no-pixi")}
SIGN_OF_LIFE_S = 4.0  # what is printed never stands still for longer than 5
USAGE, MISSING = 2, 3  # exit codes, those of every command of the repository
# Sources each script with its words kept off stdout, then hands the variables over, separated by NUL.
_SOURCE = 'for script in "$@"; do . "$script" >&2 || exit; done; env -0'

Table = dict[str, Any]


@dataclass(frozen=True)
class Machine:
    """What a machine offers or a platform asks for, as conda's virtual packages; None where there is no such thing."""

    subdir: str
    glibc: str | None = None
    cuda_driver: str | None = None
    cuda_arch: str | None = None


@dataclass(frozen=True)
class Environment:
    """One environment of the manifest, its features joined: tasks, requirements and activation scripts, as written."""

    name: str
    platforms: tuple[Machine, ...]  # any one of them will do
    tasks: dict[str, Table]
    conda: Table
    pypi: Table
    scripts: list[str]


def tell(line: str) -> None:
    """Say something about the run itself; stdout belongs to the task alone."""
    print(f"tasks/run: {line}", file=sys.stderr, flush=True)


def fail(message: str, exit_code: int = USAGE) -> NoReturn:
    """End the run with a message."""
    tell(message)
    raise SystemExit(exit_code)


def load(root: Path) -> dict[str, Environment]:
    """Read the environments of `pixi.toml` in the folder `root`; what only pixi can honour in it ends the run."""
    path = root / "pixi.toml"
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        fail(f"The manifest cannot be read: {error}. {path}")
    workspace, features, described = (table.pop(key, {}) for key in ("workspace", "feature", "environments"))
    platforms = {}
    for entry in workspace.get("platforms", []):
        cuda = honoured(entry.get("cuda", {}), "driver arch", f"platform {entry['name']!r}")
        platforms[entry["name"]] = Machine(entry["platform"], entry.get("glibc"), cuda.get("driver"), cuda.get("arch"))
    return {name: _join(name, listed, table, features, platforms) for name, listed in described.items()}


def _join(name: str, listed: list[str], default: Table, features: Table, platforms: dict[str, Machine]) -> Environment:
    """Join an environment's tables: the default feature, then its features, of which the first listed wins."""
    tables: dict[str, Table] = {"tasks": {}, "dependencies": {}, "pypi-dependencies": {}}
    scripts: list[str] = []
    honoured({} if isinstance(listed, list) else listed, "", f"environment {name!r}")
    if unknown := [feature for feature in listed if feature not in features]:
        fail(f"Environment {name!r} names the feature {unknown[0]!r}, which pixi.toml does not define")
    for layer in (default, *(features[feature] for feature in reversed(listed))):
        honoured(layer, "activation dependencies platforms pypi-dependencies tasks", f"environment {name!r}")
        for key, table in tables.items():
            table |= layer.get(key, {})
        scripts += honoured(layer.get("activation", {}), "scripts", f"environment {name!r}").get("scripts", [])
        platforms = {key: floor for key, floor in platforms.items() if key in layer.get("platforms", platforms)}
    for task, table in tables["tasks"].items():
        honoured(table, "cmd description default-environment", f"task {task!r}")
    tasks, conda, pypi = tables.values()
    return Environment(name, tuple(platforms.values()), tasks, conda, pypi, scripts)


def honoured(table: Any, known: str, what: str) -> Table:
    """Return the table if all of it is read here: no task may run in half of what pixi would give it."""
    unread = ", ".join(sorted(table.keys() - known.split())) if isinstance(table, dict) else "the short form"
    if unread:
        fail(f"tasks/run does not support {unread} of {what}; use pixi")
    return dict(table)


def version_tuple(text: str) -> tuple[int, ...]:
    """Return the numbers of a version: `13.0.1` gives `(13, 0, 1)`."""
    return tuple(int(part) for part in re.findall(r"\d+", text))


def this_machine() -> Machine:
    """Look at this machine; CONDA_OVERRIDE_{GLIBC,CUDA,CUDA_ARCH} replace what is found, an empty value hides it."""
    system = {"darwin": "osx"}.get(sys.platform, sys.platform)
    processor = {"x86_64": "64"}.get(platform.machine(), platform.machine())
    library, version = platform.libc_ver()
    driver, arch = _cuda()
    found = {"GLIBC": version if library == "glibc" else None, "CUDA": driver, "CUDA_ARCH": arch}
    facts = [os.environ.get(f"CONDA_OVERRIDE_{name}", value) or None for name, value in found.items()]
    return Machine(f"{system}-{processor}", *facts)


def _cuda() -> tuple[str | None, str | None]:
    """Ask the driver for the CUDA version that it serves and the first GPU's compute capability."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None, None
    number = ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDriverGetVersion(ctypes.byref(number)) != 0:
        return None, None
    version = f"{number.value // 1000}.{number.value % 1000 // 10}"
    parts = []
    for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{MAJOR,MINOR} of cuda.h
        if driver.cuDeviceGetAttribute(ctypes.byref(number), attribute, 0) != 0:
            return version, None
        parts.append(number.value)
    return version, f"{parts[0]}.{parts[1]}"


def lacking(environment: Environment, machine: Machine) -> list[str]:
    """Return in words what the machine lacks to run the environment; nothing when one of its platforms fits."""
    return min((_shortfall(floor, machine) for floor in environment.platforms), key=len, default=[])


def _shortfall(floor: Machine, machine: Machine) -> list[str]:
    """Every figure of a platform is a floor: a newer machine fits as well."""
    lacks = [] if machine.subdir == floor.subdir else [f"{floor.subdir} (this is {machine.subdir})"]
    for what, least, offered in (
        ("glibc", floor.glibc, machine.glibc),
        ("a CUDA driver for", floor.cuda_driver, machine.cuda_driver),
        ("a GPU of compute capability", floor.cuda_arch, machine.cuda_arch),
    ):
        if least and version_tuple(offered or "") < version_tuple(least):
            lacks.append(f"{what} {least} or newer (found: {offered or 'none'})")
    return lacks


def all_tasks(environments: dict[str, Environment]) -> dict[str, Table]:
    """Return every task, sorted by name."""
    found = {name: task for environment in environments.values() for name, task in environment.tasks.items()}
    return {name: found[name] for name in sorted(found)}


def resolve(environments: dict[str, Environment], task: str, asked: str | None, machine: Machine) -> Environment:
    """Return the environment that `task` runs in on `machine`, by pixi's rules.

    An environment that was asked for is the only one looked at. Else it is, among those that this machine can run, the
    one that the task names, the default one, or the single one. Where the machine can run none, all are looked at:
    without a GPU much of a command still works, such as `--help`.
    """
    hits = {name: environment for name, environment in environments.items() if task in environment.tasks}
    names = {"environment": (asked, sorted(environments)), "task": (task, list(all_tasks(environments)))}
    for kind, (name, known) in names.items():
        if name is not None and name not in known:
            near = difflib.get_close_matches(name, known)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(known)}"
            fail(f"There is no {kind} {name!r}; {hint}")
    if asked is not None and asked not in hits:
        fail(f"The environment {asked!r} has no task {task!r}; it is in: {', '.join(hits)}")
    runnable = {name: environment for name, environment in hits.items() if not lacking(environment, machine)}
    candidates = {asked: hits[asked]} if asked is not None else runnable or hits
    named = next(iter(hits.values())).tasks[task].get("default-environment", "default")
    chosen = candidates.get(named) or candidates.get("default") or next(iter(candidates.values()))
    if chosen.name not in {named, "default"} and candidates is runnable and len(runnable) > 1:
        choices = " or ".join(f"-e {name}" for name in runnable)
        fail(f"The task {task!r} exists in several environments; choose one with {choices}")
    subdirs = sorted({floor.subdir for floor in chosen.platforms})
    if machine.subdir not in subdirs:
        fail(f"The environment {chosen.name!r} is for {' and '.join(subdirs)}, and this is {machine.subdir}.", MISSING)
    return chosen


def pip_calls(environment: Environment, root: Path) -> list[list[str]]:
    """Return the arguments of the calls of `pip install` that make the environment, in order.

    A requirement with an index of its own is fetched from there and nowhere else, without its dependencies; the last
    call then finds it installed and brings the dependencies from the usual index.
    """
    calls: list[list[str]] = []
    everything: list[str] = []
    for name, spec in environment.pypi.items():
        table = {"version": spec} if isinstance(spec, str) else spec
        honoured(table, "version extras index path editable", f"the requirement {name!r}")
        version = table.get("version", "*")
        if version[0].isdigit():  # pixi reads a bare number as a floor within the series, pip not at all
            fail(f"The requirement {name!r} needs an operator before its version {version!r}: ==, >= or ~=")
        package = str((root / table["path"]).resolve()) if "path" in table else name
        extras = f"[{','.join(table['extras'])}]" if "extras" in table else ""
        requirement = ["--editable"] if table.get("editable") else []
        requirement += [f"{package}{extras}{version.lstrip('*')}"]
        if "index" in table:
            calls.append(["--index-url", table["index"], "--no-deps", *requirement])
        everything += requirement
    return [*calls, everything]


def is_covered(environment: Environment) -> bool:
    """Whether `tasks/lock` pins the environment's versions: those with CUDA hold what no index resolves everywhere."""
    return not any(floor.cuda_driver for floor in environment.platforms)


def constraints_file(environment: Environment, root: Path, python: tuple[int, ...]) -> Path | None:
    """Return the file of the exact versions that pip installs into an environment on a Python; None where none is.

    An environment whose requirements hold others back has a file of its own.
    """
    stem = root / "tasks" / "constraints" / f"python{python[0]}.{python[1]}"
    paths = [Path(f"{stem}-{environment.name}.txt"), Path(f"{stem}.txt")] if is_covered(environment) else []
    return next((path for path in paths if path.is_file()), None)


def ensure(environment: Environment, root: Path) -> Path:
    """Return the folder of the environment's virtual environment under tmp/venvs/, made first where needed.

    It is made once, and again when what decides its content changes; half-made it is never used.
    """
    spec, version = str(environment.conda.get("python")), sys.version_info[:3]
    allowed = re.fullmatch(r">=([\d.]+),<([\d.]+)", spec) or fail(f"tasks/run cannot read Python {spec!r}; use pixi")
    if not version_tuple(allowed[1]) <= version < version_tuple(allowed[2]):
        mine = ".".join(map(str, version))
        fail(f"The environment {environment.name!r} needs Python {spec}, and this is {mine}; use python3.X tasks/run …")
    folder = root / "tmp" / "venvs" / environment.name
    calls = pip_calls(environment, root)
    constraints = constraints_file(environment, root, version)
    paths = {name: root / spec["path"] / "pyproject.toml" for name, spec in environment.pypi.items() if "path" in spec}
    projects = {name: tomllib.loads(path.read_text(encoding="utf-8")) for name, path in paths.items()}
    decisive = [
        str(root.resolve()),
        [*version[:2], sys.base_prefix],
        calls,
        {name: {key: table.get(key) for key in ("build-system", "project")} for name, table in projects.items()},
        constraints.read_text(encoding="utf-8") if constraints else None,
    ]
    fingerprint = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()
    wanted = json.dumps({"fingerprint": fingerprint}) + "\n"
    stamp = folder / "taskrunner.json"
    if _text(stamp) == wanted:
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"waiting for another run that sets up environment {environment.name}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if _text(stamp) != wanted:  # another run may have made it meanwhile
            _make(environment, folder, calls, constraints)
            stamp.write_text(wanted, encoding="utf-8")
    return folder


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _make(environment: Environment, folder: Path, calls: list[list[str]], constraints: Path | None) -> None:
    started = time.monotonic()
    tell(f"setting up environment {environment.name} (once) …")
    if missing := sorted(environment.conda.keys() - {"python", "pip"}):
        tell(
            f"conda-only packages of environment {environment.name} are not installed: {', '.join(missing)}. "
            "The machine's own are used if it has them; pixi would install them."
        )
    if folder.exists():
        shutil.rmtree(folder)  # half-made, or out of date
    with folder.with_name(f"{folder.name}.log").open("w", encoding="utf-8") as log:
        # -P: with -m alone, a module in the current folder would come first
        make = [sys.executable, "-P", "-m", "venv", str(folder)]
        _step(make, log, "apt-get install python3-venv, on Debian and Ubuntu", started)
        pip = [str(folder / "bin" / "python"), "-P", "-m", "pip", "install"]
        pip += ["--disable-pip-version-check", "--no-input"]
        pip += ["--constraint", str(constraints)] if constraints else []
        for call in calls:
            _step([*pip, *call], log, "see the log, then run the same command again", started)
    tell(f"environment {environment.name} is ready after {time.monotonic() - started:.0f} s")


def _ended(process: subprocess.Popen[bytes], started: float) -> int | None:
    """Return the exit code of a process that ends before the next sign of life since the start, else None."""
    try:
        return process.wait(SIGN_OF_LIFE_S - (time.monotonic() - started) % SIGN_OF_LIFE_S)
    except subprocess.TimeoutExpired:
        return None


def _step(command: list[str], log: TextIO, fix: str, started: float) -> None:
    """Run one step with all its output in the log, where stdout cannot suffer from it; tell its last line at times."""
    log.write(f"$ {' '.join(command)}\n")
    log.flush()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT) as process:
        try:
            while (code := _ended(process, started)) is None:
                last = _text(Path(log.name)).rstrip().rpartition("\n")[2].strip()
                tell(f"[{time.monotonic() - started:.0f} s] {last[:100]}")
        except BaseException:
            process.kill()
            raise
    if code != 0:
        tail = "".join(f"\n  {line}" for line in _text(Path(log.name)).splitlines()[-8:])
        fail(f"Setting up the environment failed ({fix}):{tail}\n{os.path.relpath(log.name)}", MISSING)


def run(root: Path, environment: Environment, command: str) -> NoReturn:
    """Let the command take this process's place, so that its exit code and every signal (Ctrl-C too) are its own."""
    shell = shutil.which("bash") or fail("tasks/run needs bash, which is not on the PATH", MISSING)
    venv = ensure(environment, root)
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONHOME"} | {
        "INIT_CWD": str(Path.cwd()),
        "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "PIXI_ENVIRONMENT_NAME": environment.name,
        "PIXI_PROJECT_ROOT": str(root),
        "TRTW_TASKS_RUN": "1",  # tells it from pixi, whose words messages would use otherwise
        "VIRTUAL_ENV": str(venv),
    }
    os.chdir(root)
    if environment.scripts:
        source = ["bash", "-c", _SOURCE, "bash", *(str(root / script) for script in environment.scripts)]
        done = subprocess.run(source, env=variables, stdout=subprocess.PIPE, check=False)
        if done.returncode != 0:
            scripts = ", ".join(environment.scripts)
            fail(f"An activation script failed with exit code {done.returncode}: {scripts}", MISSING)
        variables = dict(pair.split("=", 1) for pair in os.fsdecode(done.stdout).split("\0") if "=" in pair)
    os.execve(shell, [shell, "-e", "-o", "pipefail", "-c", command], variables)


def listing(environments: dict[str, Environment], machine: Machine) -> str:
    """Return the tasks with the environments that have them, and whether each environment is for this machine."""
    tasks = all_tasks(environments)
    width = max(map(len, tasks))
    lines = ["tasks"]
    for name, task in tasks.items():
        holders = ", ".join(e.name for e in environments.values() if name in e.tasks)
        lines.append(f"  {name:<{width}}  {task.get('description', '')} [{holders}]")
    lines.append("environments")
    for environment in environments.values():
        lacks = " and ".join(lacking(environment, machine))
        state = f"not for this machine, which lacks {lacks}" if lacks else "runs on this machine"
        lines.append(f"  {environment.name}: {state}")
    return "\n".join(lines)


def parse(argv: list[str]) -> tuple[set[str], str | None, list[str]]:
    """Return the flags, the environment that is asked for, and the task with all that follows it, word for word."""
    words, asked = list(argv), None
    flags: set[str] = set()
    while words and words[0].startswith("-"):
        word = words.pop(0)
        name, separator, value = word.partition("=")
        if name in {"-e", "--environment"}:
            if not separator and not words:
                fail(f"{name} needs the name of an environment")
            asked = value if separator else words.pop(0)
        elif word in _FLAGS:
            flags.add(_FLAGS[word])
        else:
            fail(f"There is no option {word}; options of the task go after its name. See tasks/run --help")
    return flags, asked, words


def main(argv: list[str], root: Path) -> None:
    """Run the task runner for the repository at `root`; problems end in SystemExit."""
    flags, asked, words = parse(argv)
    if "--help" in flags:
        print(HELP, end="")
    elif "--list" in flags:
        print(listing(load(root), this_machine()))
    elif not words:
        sys.stderr.write(HELP)
        raise SystemExit(USAGE)
    else:
        if "--no-pixi" not in flags and (pixi := shutil.which("pixi")):
            options = [*(["-e", asked] if asked is not None else []), *(flags & {"--dry-run"})]
            os.execv(pixi, [pixi, "run", "--manifest-path", str(root / "pixi.toml"), *options, *words])
        machine = this_machine()
        environment = resolve(load(root), words[0], asked, machine)
        command = " ".join([environment.tasks[words[0]]["cmd"].strip(), *map(shlex.quote, words[1:])])
        if "--dry-run" in flags:
            print(f"[{environment.name}] {command}")
            return
        if lacks := lacking(environment, machine):
            text = f"environment {environment.name} is not for this machine, which lacks {' and '.join(lacks)}"
            if asked is not None and not (root / "tmp" / "venvs" / asked).exists():  # pixi refuses it, too
                fail(
                    f"{text}. It would install gigabytes that do not run here: leave -e out, or set "
                    "CONDA_OVERRIDE_CUDA and CONDA_OVERRIDE_CUDA_ARCH to install it for another machine",
                    MISSING,
                )
            tell(f"{text}; {'leave -e out for one that is' if asked else 'much of it will not run'}")
        run(root, environment, command)
