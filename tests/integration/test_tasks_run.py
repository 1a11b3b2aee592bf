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

# In this process tests/unit/tasks/test_taskrunner.py shows the same.
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
on-gpu = { cmd = "echo started by tasks/run in $PIXI_ENVIRONMENT_NAME: $TRTW_TASKS_RUN" }

[tasks]
greet = { cmd = "greet", description = "Greet" }
inside = { cmd = "pwd && echo $INIT_CWD $FROM_SCRIPT" }
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
def first_run(tmp_path_factory):
    """A repository, and what the first task said, which made the environment."""
    root = make_repository(tmp_path_factory.mktemp("repo"))
    return root, run(root, "greet", "hello")


@pytest.fixture(scope="module")
def repository(first_run):
    """A repository with the environment of most of its tasks."""
    return first_run[0]


def test_the_environment_is_made_once_and_stdout_is_the_tasks_alone(first_run):
    repository, (code, out, err) = first_run
    assert (code, out) == (0, "'hello'\n"), err
    assert "setting up environment default (once)" in err
    assert "conda-only packages of environment default are not installed: cuda-nvcc" in err
    code, out, err = run(repository, "greet", "again")
    assert (code, out, err) == (0, "'again'\n", "noise of the script\n")


def test_arguments_arrive_word_for_word(repository):
    words = ["--backend", "a b", "$HOME", "it's", '"', "*", "", "\\", "-e", "--", "ü;|&>"]
    code, out, _ = run(repository, "greet", *words)
    assert (code, out) == (0, " ".join(map(repr, words)) + "\n")


def test_folder_and_variables(repository):
    code, out, _ = run(repository, "inside")
    assert (code, out) == (0, f"{repository}\n{repository}/sub folder script of default\n")


def test_the_exit_code_is_the_commands(repository):
    assert run(repository, "fails")[0] == 7


def test_a_failure_inside_a_command_ends_it(repository):
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


def test_a_changed_requirement_makes_the_environment_again(repository):
    project = repository / "greeter" / "pyproject.toml"
    assert run(repository, "greet")[0] == 0
    leftover = repository / "tmp" / "venvs" / "default" / "leftover"
    leftover.touch()
    project.write_text(PROJECT + 'keywords = ["changed"]\n')
    code, out, err = run(repository, "greet", "x")
    assert (code, out) == (0, "'x'\n")
    assert "setting up" in err
    assert not leftover.exists()


def test_two_at_once_make_a_half_made_environment_once(repository):
    venv = repository / "tmp" / "venvs" / "default"
    (venv / "taskrunner.json").unlink(missing_ok=True)
    shutil.rmtree(venv / "bin", ignore_errors=True)
    log = venv.with_name("default.log")
    log.unlink(missing_ok=True)
    first = start(repository, "greet", "a")
    while not log.exists():  # written under the lock
        time.sleep(0.01)
    second = start(repository, "greet", "b")
    (out_a, err_a), (out_b, err_b) = first.communicate(), second.communicate()
    assert (first.returncode, out_a, second.returncode, out_b) == (0, "'a'\n", 0, "'b'\n")
    assert "setting up" in err_a
    assert "setting up" not in err_b
    assert "waiting for another run" in err_b


def test_a_failed_install_says_why_and_leaves_nothing_that_counts_as_done(repository):
    code, out, err = run(repository, "-e", "broken", "fail-to-install")
    assert (code, out) == (3, "")
    assert "No matching distribution found for no-such-package-anywhere==1.0" in err
    assert err.endswith("tmp/venvs/broken.log\n")
    assert not (repository / "tmp" / "venvs" / "broken" / "taskrunner.json").exists()


def test_dry_run_prints_the_command_and_makes_nothing(tmp_path):
    root = make_repository(tmp_path / "repo")
    assert run(root, "--dry-run", "greet", "a b") == (0, "[default] greet 'a b'\n", "")
    assert not (root / "tmp").exists()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("gret",), 2, "no task 'gret'; did you mean greet?"),
        (("-e", "gpuu", "greet"), 2, "no environment 'gpuu'; did you mean gpu?"),
        (("--frozen", "greet"), 2, "no option --frozen"),
        ((), 2, "usage: tasks/run"),
    ],
)
def test_what_cannot_be_run(repository, words, code, message):
    result = run(repository, *words)
    assert result[:2] == (code, "")
    assert message in result[2]
    assert "Traceback" not in result[2]


def test_an_environment_for_gpus_that_was_asked_for_is_not_installed_without_one(repository):
    code, out, err = run(repository, "-e", "gpu", "on-gpu")
    assert (code, out) == (3, "")
    assert "lacks a CUDA driver for 13.0" in err
    assert "It would install gigabytes that do not run here: leave -e out, or set CONDA_OVERRIDE_CUDA" in err
    assert "setting up" not in err


def test_a_task_for_gpus_runs_without_one_and_says_what_it_lacks(repository):
    for words, hint in ((("on-gpu",), "much of it will not run"), (("-e", "gpu", "on-gpu"), "leave -e out")):
        code, out, err = run(repository, *words)
        assert (code, out) == (0, "started by tasks/run in gpu: 1\n")
        assert "environment gpu is not for this machine, which lacks a CUDA driver for 13.0" in err
        assert hint in err


def test_list_and_help(repository):
    code, out, _ = run(repository, "--list")
    assert code == 0
    assert "greet            Greet [default, broken, gpu]" in out
    assert "gpu: not for this machine, which lacks a CUDA driver" in out
    assert run(repository, "--help")[1].startswith("usage: tasks/run")


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
