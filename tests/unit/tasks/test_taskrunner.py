"""The task runner's rules: what it reads of pixi.toml, which environment it chooses, when it makes one anew."""

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import taskrunner
from taskrunner import Environment, Machine, all_tasks, load, main, parse, pip_calls, resolve, this_machine

CPU = Machine("linux-64", glibc="2.36")
BLACKWELL = Machine("linux-64", glibc="2.39", cuda_driver="13.1", cuda_arch="12.0")
HOPPER = Machine("linux-64", glibc="2.39", cuda_driver="13.0", cuda_arch="9.0")

MANIFEST = """
[workspace]
name = "mini"
channels = []
platforms = [
  { name = "sm120", platform = "linux-64", glibc = "2.28", cuda = { driver = "13.0", arch = "12.0" } },
  { name = "sm90", platform = "linux-64", glibc = "2.28", cuda = { driver = "13.0", arch = "9.0" } },
  { name = "cpu", platform = "linux-64", glibc = "2.28" },
]
[environments]
default = ["cpu"]
dev = ["cpu", "dev"]
blackwell = ["cuda", "sm120"]
hopper = ["cuda", "sm90"]
[dependencies]
python = ">=3.11,<4"
[pypi-dependencies]
numpy = ">=2"
ruff = "==1"
local = { path = "python", editable = true }
[tasks]
everywhere = { cmd = "run --fast " }
preferring = { cmd = "a", default-environment = "blackwell" }
[feature.cpu]
platforms = ["cpu"]
[feature.sm120]
platforms = ["sm120"]
[feature.sm90]
platforms = ["sm90"]
[feature.dev.tasks]
once = { cmd = "a", description = "Do it" }
[feature.dev.pypi-dependencies]
ruff = "==2"
[feature.cuda.activation]
scripts = ["tensorrt.sh"]
[feature.cuda.tasks]
on-gpu = { cmd = "a" }
on-gpu-preferring = { cmd = "a", default-environment = "blackwell" }
on-gpu-preferring-hopper = { cmd = "a", default-environment = "hopper" }
"""
PROJECT = '[project]\nname = "local"\ndependencies = ["numpy"]\n[tool.x]\ny = 1\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with the manifest, a local package and constraints for this Python."""
    (tmp_path / "pixi.toml").write_text(MANIFEST)
    for path, text in {"python/pyproject.toml": PROJECT, constraints_path(): "numpy==2.5.5\n"}.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def constraints_path() -> str:
    return f"tasks/constraints/python3.{sys.version_info[1]}.txt"


@pytest.fixture
def ends(capsys: pytest.CaptureFixture[str]) -> Callable[[int, str], contextlib.AbstractContextManager[None]]:
    """Expect that the block ends the run: `with ends(2, "no task")`."""

    @contextlib.contextmanager
    def expect(code: int, message: str) -> Iterator[None]:
        with pytest.raises(SystemExit) as stop:
            yield
        assert stop.value.code == code
        assert message in capsys.readouterr().err

    return expect


# The manifest


def test_the_first_listed_feature_wins_over_later_ones_and_the_default(root):
    (root / "pixi.toml").write_text(
        MANIFEST.replace('dev = ["cpu", "dev"]', 'dev = ["first", "dev"]')
        + '[feature.first.pypi-dependencies]\nruff = "==3"\n[feature.first.activation]\nscripts = ["first.sh"]\n'
        + '[feature.dev.activation]\nscripts = ["dev.sh"]\n'
    )
    environments = load(root)
    assert environments["dev"].pypi["ruff"] == "==3"
    assert environments["default"].pypi["ruff"] == "==1"
    assert environments["dev"].scripts == ["dev.sh", "first.sh"]
    assert (len(environments["dev"].platforms), len(environments["hopper"].platforms)) == (3, 1)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[workspace]", "[workspace", "cannot be read"),
        ('"cpu", "dev"', '"absent"', "feature 'absent'"),
        ('["cpu", "dev"]', '{ features = ["cpu"] }', "features of environment 'dev'"),
        ("[tasks]", "[target.linux-64.tasks]", "target of environment 'default'; use pixi"),
        ("scripts =", "env =", "env of environment 'blackwell'"),
        ('cmd = "run', 'clean-env = true, cmd = "run', "clean-env of task 'everywhere'"),
        ('{ cmd = "run --fast " }', '"run"', "the short form of task 'everywhere'"),
        ('{ driver = "13.0", arch = "12.0" }', '"13.0"', "the short form of platform 'sm120'"),
    ],
)
def test_what_cannot_be_read_or_honoured_ends_the_run(root, ends, old, new, message):
    (root / "pixi.toml").write_text(MANIFEST.replace(old, new, 1))
    with ends(2, message):
        load(root)


def test_an_absent_manifest(tmp_path, ends):
    with ends(2, f"{tmp_path}/pixi.toml"):
        load(tmp_path)


# The machine


def test_overrides_replace_what_is_found_and_an_empty_one_hides_it(monkeypatch):
    for name, value in {"CUDA": "13.2", "CUDA_ARCH": "12.0", "GLIBC": "2.31"}.items():
        monkeypatch.setenv(f"CONDA_OVERRIDE_{name}", value)
    assert this_machine() == Machine(this_machine().subdir, "2.31", "13.2", "12.0")
    monkeypatch.setenv("CONDA_OVERRIDE_CUDA", "")
    assert this_machine().cuda_driver is None


def test_versions_are_compared_as_numbers():
    environment = Environment("e", (Machine("linux-64", "2.9", "9.0"),), {}, {}, {}, [])
    assert taskrunner.lacking(environment, Machine("linux-64", "2.28", "13.0")) == []
    assert taskrunner.lacking(environment, Machine("linux-64", "2.8", "13.0")) == ["glibc 2.9 or newer (found: 2.8)"]


# The environment, one test for each of pixi's rules


@pytest.fixture
def choose(root):
    def chosen(task, asked=None, machine=CPU):
        return resolve(load(root), task, asked, machine).name

    return chosen


@pytest.mark.parametrize(
    ("task", "asked", "message"),
    [
        ("everywhere", "blackwel", "no environment 'blackwel'; did you mean blackwell?"),
        ("once", "hopper", "'hopper' has no task 'once'; it is in: dev"),
        ("everywher", None, "no task 'everywher'; did you mean everywhere?"),
        ("zzz", "dev", "there are: everywhere, on-gpu, on-gpu-preferring, on-gpu-preferring-hopper, once,"),
    ],
)
def test_what_does_not_exist(choose, ends, task, asked, message):
    with ends(2, message):
        choose(task, asked)


def test_another_kind_of_machine(choose, ends):
    for task, asked in (("everywhere", "blackwell"), ("on-gpu", None)):
        with ends(3, "'blackwell' is for linux-64, and this is osx-arm64."):
            choose(task, asked, Machine("osx-arm64"))


@pytest.mark.parametrize(
    ("task", "asked", "machine", "chosen"),
    [
        ("everywhere", "dev", CPU, "dev"),
        ("preferring", "hopper", BLACKWELL, "hopper"),
        # as pixi does it: the environment can be installed, and what in it needs the GPU says so itself
        ("everywhere", "blackwell", CPU, "blackwell"),
        ("everywhere", "blackwell", HOPPER, "blackwell"),
        *(("everywhere", None, machine, "default") for machine in (CPU, BLACKWELL, HOPPER)),
        # the task's own environment where it can run
        ("preferring", None, BLACKWELL, "blackwell"),
        ("preferring", None, HOPPER, "default"),
        ("preferring", None, CPU, "default"),
        # the only one with the task
        ("once", None, CPU, "dev"),
        ("on-gpu", None, HOPPER, "hopper"),
        ("on-gpu-preferring-hopper", None, BLACKWELL, "hopper"),
        # none with the task is made for the machine
        ("on-gpu", None, CPU, "blackwell"),
        ("on-gpu-preferring-hopper", None, CPU, "hopper"),
    ],
)
def test_the_environment_of_a_task(choose, task, asked, machine, chosen):
    assert choose(task, asked, machine) == chosen


def test_several_environments_with_the_task(choose, ends):
    with ends(2, "'on-gpu' exists in several environments; choose one with -e blackwell or -e hopper"):
        choose("on-gpu", machine=BLACKWELL)


def test_all_tasks_are_sorted(root):
    assert list(all_tasks(load(root)))[:2] == ["everywhere", "on-gpu"]


# What pip is asked for


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("*", ["pkg"]),
        (">=1,<2", ["pkg>=1,<2"]),
        ({"version": "==1.2", "extras": ["a", "b"]}, ["pkg[a,b]==1.2"]),
        ({"path": "/p", "editable": True, "extras": ["gpu"]}, ["--editable", "/p[gpu]"]),
        ({"path": "cpp"}, ["/repo/cpp"]),
    ],
)
def test_forms_of_requirements(spec, expected):
    assert pip_calls(Environment("e", (), {}, {}, {"pkg": spec}, []), Path("/repo")) == [expected]


@pytest.mark.parametrize(
    ("spec", "message"),
    [("1.2", "needs an operator before its version '1.2'"), ({"git": "x"}, "git of the requirement 'pkg'; use pixi")],
)
def test_forms_that_cannot_be_honoured(spec, message, ends):
    with ends(2, message):
        pip_calls(Environment("e", (), {}, {}, {"pkg": spec}, []), Path("/repo"))


def test_an_index_of_its_own_is_the_only_place_for_that_package():
    own = {"version": "==10", "index": "https://index.example"}
    assert pip_calls(Environment("e", (), {}, {}, {"libs": own, "other": "*"}, []), Path("/repo")) == [
        ["--index-url", "https://index.example", "--no-deps", "libs==10"],
        ["libs==10", "other"],
    ]


# When an environment is made, and with which versions; neither venv nor pip is called


@pytest.fixture
def made(root, monkeypatch):
    """Call it for the commands that make an environment now; none where it is up to date."""
    commands = []

    def step(command, *_):
        commands.append(command)
        if "venv" in command:
            Path(command[-1]).mkdir(parents=True)

    monkeypatch.setattr(taskrunner, "_step", step)

    def ensure(name="default"):
        commands.clear()
        assert taskrunner.ensure(load(root)[name], root) == root / "tmp" / "venvs" / name
        return list(commands)

    return ensure


def test_versions_are_pinned_where_no_gpu_is_needed(root, made):
    make, install = made()
    assert make == [sys.executable, "-P", "-m", "venv", f"{root}/tmp/venvs/default"]
    local = ["--editable", f"{root}/python"]
    assert install[-6:] == ["--constraint", f"{root}/{constraints_path()}", "numpy>=2", "ruff==1", *local]
    assert "--constraint" not in made("hopper")[-1]
    assert "ruff==2" in made("dev")[-1]


@pytest.mark.parametrize(
    ("file", "old", "new", "again"),
    [
        ("pixi.toml", "numpy = ", "numpy  = ", False),
        ("pixi.toml", ">=2", ">=2.1", True),
        ("pixi.toml", "run --fast", "run --slow", False),
        ("python/pyproject.toml", '["numpy"]', '["numpy", "scipy"]', True),
        ("python/pyproject.toml", "[project]", '[build-system]\nbuild-backend = "b"\n[project]', True),
        ("python/pyproject.toml", "y = 1", "y = 2", False),
        ("python/pyproject.toml", PROJECT[10:50], 'dependencies = ["numpy"]\nname = "local"\n', False),
        (constraints_path(), "2.5.5", "2.6.0", True),
    ],
)
def test_an_environment_is_made_once_and_again_when_what_decides_its_content_changes(root, made, file, old, new, again):
    assert made()
    assert not made()
    path = root / file
    path.write_text(path.read_text().replace(old, new, 1))
    assert bool(made()) == again
    assert not made()


@pytest.mark.parametrize(("name", "value"), [("base_prefix", "/opt/other"), ("version_info", (3, 99, 0))])
def test_another_python_makes_the_environment_again(made, monkeypatch, name, value):
    assert made()
    monkeypatch.setattr(sys, name, value)
    assert made()


def test_a_copy_of_an_environment_in_another_place_is_made_again(root, made, tmp_path_factory):
    assert made()
    moved = root.rename(tmp_path_factory.mktemp("elsewhere") / "repo")
    root.symlink_to(moved)
    assert made()


@pytest.mark.parametrize("stamp", ["", "{", "[]", '{"fingerprint": "0"}\n', "\xff"])
def test_a_half_made_environment_is_made_again(root, made, stamp):
    made()
    path = root / "tmp" / "venvs" / "default" / "taskrunner.json"
    assert json.loads(path.read_text()).keys() == {"fingerprint"}
    path.write_text(stamp, encoding="latin-1")
    (leftover := path.with_name("leftover")).touch()
    assert made()
    assert not leftover.exists()


@pytest.mark.parametrize(("version", "fits"), [((3, 10, 13), False), ((3, 11, 0), True), ((4, 0, 0), False)])
def test_python_is_held_against_the_manifest(made, ends, monkeypatch, version, fits):
    monkeypatch.setattr(sys, "version_info", version)
    shown = ".".join(map(str, version))
    message = f"'default' needs Python >=3.11,<4, and this is {shown}; use python3.X"
    with contextlib.nullcontext() if fits else ends(2, message):
        assert made()


def test_a_python_that_cannot_be_read(root, made, ends):
    (root / "pixi.toml").write_text(MANIFEST.replace(">=3.11,<4", "3.12.*"))
    with ends(2, "cannot read Python '3.12.*'"):
        made()


# The command line


def test_everything_after_the_task_belongs_to_it():
    assert parse(["-e", "gpu", "test", "-e", "x", "--", "--dry-run"]) == (
        set(),
        "gpu",
        ["test", "-e", "x", "--", "--dry-run"],
    )


@pytest.mark.parametrize("words", [["-e", "gpu"], ["--environment", "gpu"], ["--environment=gpu"], ["-e=gpu"]])
def test_the_environment(words):
    assert parse([*words, "t"])[1] == "gpu"


def test_the_other_options():
    assert parse(["-n", "--no-pixi", "--list", "-h", "t"])[0] == {"--dry-run", "--no-pixi", "--list", "--help"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--frozen", "t"], "no option --frozen"),
        (["-e"], "-e needs the name of an environment"),
        (["--environment"], "--environment needs"),
    ],
)
def test_bad_options(words, message, ends):
    with ends(2, message):
        parse(words)


def test_a_dry_run_prints_arguments_as_the_shell_gets_them_and_makes_nothing(root, capsys):
    main(["--no-pixi", "-n", "everywhere", "a b", "$HOME", "it's", "--x=1", "", "*"], root)
    assert capsys.readouterr().out == """[default] run --fast 'a b' '$HOME' 'it'"'"'s' --x=1 '' '*'\n"""
    assert not (root / "tmp").exists()


def test_a_task_for_gpus_runs_without_one_and_says_what_it_lacks(root, ends, monkeypatch, capsys):
    ran = []
    monkeypatch.setattr(taskrunner, "this_machine", lambda: CPU)
    monkeypatch.setattr(taskrunner, "run", lambda *given: ran.append((given[0], given[1].name, given[2])))
    lacks = "environment hopper is not for this machine, which lacks a CUDA driver for 13.0 or newer (found: none)"
    with ends(3, f"{lacks} and a GPU of compute capability 9.0 or newer (found: none). It would install gigabytes"):
        main(["--no-pixi", "-e", "hopper", "on-gpu"], root)
    assert ran == []
    main(["--no-pixi", "on-gpu-preferring-hopper", "x y"], root)
    assert "; much of it will not run" in capsys.readouterr().err
    (root / "tmp" / "venvs" / "hopper").mkdir(parents=True)  # as it was made for another machine
    main(["--no-pixi", "-e", "hopper", "on-gpu"], root)
    assert f"{lacks} and " in (said := capsys.readouterr().err)
    assert "; leave -e out for one that is" in said
    assert ran == [(root, "hopper", "a 'x y'"), (root, "hopper", "a")]


def test_list_help_and_no_task(root, ends, monkeypatch, capsys):
    monkeypatch.setattr(taskrunner, "this_machine", lambda: CPU)
    main(["--list"], root)
    listed = capsys.readouterr().out
    assert "once                      Do it [dev]" in listed
    assert "hopper: not for this machine, which lacks a CUDA driver" in listed
    main(["--help"], root)
    assert capsys.readouterr().out.startswith("usage: tasks/run")
    with ends(2, "usage: tasks/run"):
        main([], root)


def test_a_long_step_shows_signs_of_life(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tell, told, enough = taskrunner.tell, list[str](), tmp_path / "enough"

    def telling(text: str) -> None:
        tell(text)
        told.append(text)
        if told.count("[7 s] Collecting numpy") == 2:
            enough.touch()

    monkeypatch.setattr(taskrunner, "SIGN_OF_LIFE_S", 0.05)
    monkeypatch.setattr(taskrunner, "tell", telling)
    monkeypatch.setattr(time, "monotonic", lambda: 107.0)
    lasting = ["sh", "-c", 'echo Collecting numpy; until [ -e "$1" ]; do sleep 0.05; done', "sh", str(enough)]
    with (tmp_path / "step.log").open("w", encoding="utf-8") as log:
        taskrunner._step(lasting, log, "no fix", 100.0)
    assert [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines()] == told
