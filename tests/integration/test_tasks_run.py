"""tasks/run as a program, on a small repository of its own; nothing is fetched from anywhere."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

# What needs no process of its own is in tests/unit/tasks/test_taskrunner.py.
pytestmark = pytest.mark.long

TASKS = Path(__file__).parents[2] / "tasks"

MANIFEST = """
[workspace]
name = "mini"
channels = ["conda-forge"]
platforms = [
  { name = "gpu", platform = "linux-64", cuda = { driver = "13.0", arch = "12.0" } },
  { name = "cpu", platform = "linux-64" },
]

[environments]
default = ["base"]
broken = ["broken"]
gpu = ["gpu"]

[dependencies]
python = ">=3.11,<4"

[feature.base]
platforms = ["cpu"]
[feature.base.dependencies]
cuda-nvcc = "*"
[feature.base.pypi-dependencies]
greeter = { path = "greeter" }
[feature.base.activation]
scripts = ["activate.sh"]

[feature.broken.pypi-dependencies]
no-such-package-anywhere = "==1.0"
[feature.broken.tasks]
fail-to-install = { cmd = "true" }

[feature.gpu]
platforms = ["gpu"]
[feature.gpu.pypi-dependencies]
greeter = { path = "greeter" }
[feature.gpu.tasks]
on-gpu = { cmd = "true" }

[tasks]
greet = { cmd = "greet", description = "Greet" }
inside = { cmd = "pwd && echo $INIT_CWD $FROM_SCRIPT, $TRTW_TASKS_RUN" }
fails = { cmd = "exit 7" }
lasting = { cmd = "python -c 'import time; print(\\"up\\", flush=True); time.sleep(60)'" }
stops = { cmd = "false | true; echo never" }
"""

# A PEP 517 backend without requirements: pip installs the package without an index.
BACKEND = """
import base64, hashlib, zipfile

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    files = {
        "greeter.py": "import sys\\n\\ndef main():\\n    print(*map(repr, sys.argv[1:]))\\n",
        "greeter-1.0.dist-info/METADATA": "Metadata-Version: 2.1\\nName: greeter\\nVersion: 1.0\\n",
        "greeter-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        "greeter-1.0.dist-info/entry_points.txt": "[console_scripts]\\ngreet = greeter:main\\n",
    }
    files["greeter-1.0.dist-info/RECORD"] = "".join(f"{name},,\\n" for name in [*files, "greeter-1.0.dist-info/RECORD"])
    with zipfile.ZipFile(f"{wheel_directory}/greeter-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return "greeter-1.0-py3-none-any.whl"
"""

PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "greeter"
version = "1.0"
"""


def make_repository(root: Path) -> Path:
    shutil.copytree(TASKS, root / "tasks", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "sub folder").mkdir()
    (root / "greeter").mkdir()
    (root / "greeter" / "backend.py").write_text(BACKEND)
    (root / "greeter" / "pyproject.toml").write_text(PROJECT)
    script = 'echo "noise of the script"\nexport FROM_SCRIPT="script of $PIXI_ENVIRONMENT_NAME"\n'
    (root / "activate.sh").write_text(script)
    (root / "pixi.toml").write_text(MANIFEST)
    return root


def variables(**more: str) -> dict[str, str]:
    """Return this process's variables without pixi and without an index for pip."""
    without_pixi = [folder for folder in os.environ["PATH"].split(":") if not shutil.which("pixi", path=folder)]
    hidden = {"CONDA_OVERRIDE_CUDA": "", "CONDA_OVERRIDE_CUDA_ARCH": ""}
    return {**os.environ, "PATH": ":".join(without_pixi), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", **hidden, **more}


def start(root: Path, *words: str, python: str = sys.executable, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [python, str(root / "tasks" / "run"), *words],
        cwd=root / "sub folder",
        env=variables(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(root: Path, *words: str, **more: str) -> tuple[int, str, str]:
    """Run tasks/run from a folder inside the repository; return exit code, stdout and stderr."""
    with start(root, *words, **more) as process:
        out, err = process.communicate()
    return process.returncode, out, err


@pytest.fixture(scope="module")
def first_runs(tmp_path_factory):
    """A repository, and what two tasks said at once, of which the first made the environment."""
    root = make_repository(tmp_path_factory.mktemp("repo"))
    log = root / "tmp" / "venvs" / "default.log"
    first = start(root, "greet", "a")
    while not log.exists():  # written under the lock
        assert first.poll() is None, first.communicate()
        time.sleep(0.01)
    second = start(root, "greet", "b")
    said = [process.communicate() for process in (first, second)]
    return root, [(process.returncode, *texts) for process, texts in zip((first, second), said, strict=True)]


@pytest.fixture(scope="module")
def repository(first_runs):
    """A repository with the environment of most of its tasks."""
    return first_runs[0]


def test_the_environment_is_made_once_and_stdout_is_the_tasks_alone(first_runs):
    repository, (first, second) = first_runs
    assert (first[:2], second[:2]) == ((0, "'a'\n"), (0, "'b'\n")), first[2] + second[2]
    assert "setting up environment default (once)" in first[2]
    assert "conda-only packages of environment default are not installed: cuda-nvcc" in first[2]
    assert "setting up" not in second[2]
    assert "waiting for another run" in second[2]
    words = ["--backend", "a b", "$HOME", "it's", '"', "*", "", "\\", "-e", "--", "ü;|&>"]
    assert run(repository, "greet", *words) == (0, " ".join(map(repr, words)) + "\n", "noise of the script\n")


def test_folder_and_variables(repository):
    code, out, _ = run(repository, "inside")
    assert (code, out) == (0, f"{repository}\n{repository}/sub folder script of default, 1\n")


def test_the_exit_code_is_the_commands_which_a_failure_inside_it_ends(repository):
    assert run(repository, "fails")[0] == 7
    assert run(repository, "stops")[:2] == (1, "")


def test_ctrl_c_reaches_the_command(repository):
    with start(repository, "lasting") as process:
        assert process.stdout.readline() == "up\n"
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode in {-signal.SIGINT, 130}
    assert "KeyboardInterrupt" in err
    assert "taskrunner" not in err


def test_ctrl_c_ends_the_set_up_too(repository):
    venv = repository / "tmp" / "venvs" / "gpu"
    shutil.rmtree(venv, ignore_errors=True)
    venv.with_name("gpu.log").unlink(missing_ok=True)
    card = {"CONDA_OVERRIDE_CUDA": "13.0", "CONDA_OVERRIDE_CUDA_ARCH": "12.0"}
    with start(repository, "-e", "gpu", "on-gpu", **card) as process:
        while not venv.with_name("gpu.log").exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert not (venv / "taskrunner.json").exists()


def test_a_failed_install_says_why_and_leaves_nothing_that_counts_as_done(repository):
    code, out, err = run(repository, "-e", "broken", "fail-to-install")
    assert (code, out) == (3, "")
    assert "No matching distribution found for no-such-package-anywhere==1.0" in err
    assert err.endswith("tmp/venvs/broken.log\n")
    assert not (repository / "tmp" / "venvs" / "broken" / "taskrunner.json").exists()


def test_with_pixi_on_the_path_it_hands_over(repository, tmp_path):
    pixi = tmp_path / "pixi"
    pixi.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\nexit 5\n")
    pixi.chmod(0o755)
    path = f"{tmp_path}:{variables()['PATH']}"
    code, out, _ = run(repository, "-e", "gpu", "--dry-run", "greet", "-e", "a b", PATH=path)
    expected = ["run", "--manifest-path", f"{repository}/pixi.toml", "-e", "gpu", "--dry-run", "greet", "-e", "a b"]
    assert (code, out.splitlines()) == (5, expected)
    assert run(repository, "--no-pixi", "-n", "greet", PATH=path)[1] == "[default] greet\n"


def old_python() -> str | None:
    """Return a Python that is too old for tomllib, if this machine has one."""
    for name in ("python3.10", "python3.9", "python3.8"):
        if found := shutil.which(name):
            command = [found, "-c", "import sys; print(sys.executable)"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return done.stdout.strip()
    return None


def test_an_old_python_finds_a_newer_one_or_says_what_it_needs(repository, tmp_path):
    if (old := old_python()) is None:
        pytest.skip("no Python older than 3.11 on this machine")
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    named = tmp_path / f"python3.{sys.version_info[1]}"
    named.write_text(textwrap.dedent(f'#!/bin/sh\nexec {sys.executable} "$@"\n'))
    named.chmod(0o755)
    with start(repository, "--help", python=old, PATH=f"{tmp_path}:{path}") as process:
        assert process.communicate()[0].startswith("usage: tasks/run")
    with start(repository, "--help", python=old, PATH=str(tmp_path / "empty")) as process:
        assert "tasks/run needs Python 3.11 or newer" in process.communicate()[1]
    assert process.returncode == 1
