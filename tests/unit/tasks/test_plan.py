import pytest

from taskrunner.errors import UsageProblem
from taskrunner.machine import Machine
from taskrunner.manifest import load
from taskrunner.plan import plan

MACHINE = Machine("linux-64", glibc="2.36")


@pytest.fixture
def lines(tmp_path):
    def planned(tasks, name, *args, environment=None, **options):
        (tmp_path / "pixi.toml").write_text(f'[workspace]\nchannels = []\nplatforms = ["linux-64"]\n{tasks}')
        steps = plan(load(tmp_path), name, list(args), environment, MACHINE, **options)
        return [f"{step.environment.name}: {step.command}" for step in steps]

    return planned


def test_arguments_are_quoted_for_the_shell_and_go_last(lines):
    table = '[tasks]\nit = "run --fast "'
    assert lines(table, "it", "a b", "$HOME", "it's", "--x=1", "", "*") == [
        """default: run --fast 'a b' '$HOME' 'it'"'"'s' --x=1 '' '*'"""
    ]


def test_dependencies_run_first_each_once_and_without_the_arguments(lines):
    table = """
    [tasks]
    base = "base"
    left = { cmd = "left", depends-on = ["base"] }
    right = { cmd = "right", depends-on = ["base"] }
    top = { cmd = "top", depends-on = ["left", "right"] }
    """
    assert lines(table, "top", "x") == ["default: base", "default: left", "default: right", "default: top x"]
    assert lines(table, "top", "x", skip_deps=True) == ["default: top x"]


def test_a_dependency_with_environment_and_arguments(lines):
    table = """
    [environments]
    other = []
    [tasks]
    base = { cmd = "base {{ size }}", args = ["size"] }
    top = { cmd = "top", depends-on = [{ task = "base", environment = "other", args = ["3"] }, { task = "base", args = ["4"] }] }
    """  # noqa: E501 - TOML 1.0 keeps an inline table on one line
    assert lines(table, "top") == ["other: base 3", "default: base 4", "default: top"]


def test_dependencies_stay_in_the_environment_that_was_asked_for(lines):
    table = """
    [environments]
    other = []
    [tasks]
    base = "base"
    top = { cmd = "top", depends-on = ["base"] }
    """
    assert lines(table, "top", environment="other") == ["other: base", "other: top"]


def test_an_alias_runs_its_tasks_and_takes_no_arguments(lines):
    table = '[tasks]\na = "a"\nall = [{ task = "a" }]'
    assert lines(table, "all") == ["default: a"]
    with pytest.raises(UsageProblem, match="takes no arguments"):
        lines(table, "all", "x")


def test_tasks_that_wait_for_each_other(lines):
    table = '[tasks]\na = { cmd = "a", depends-on = ["b"] }\nb = { cmd = "b", depends-on = ["a"] }'
    with pytest.raises(UsageProblem, match="a → b → a"):
        lines(table, "a")


def test_a_dependency_that_does_not_exist(lines):
    with pytest.raises(UsageProblem, match="no task 'b'"):
        lines('[tasks]\na = { cmd = "a", depends-on = ["b"] }', "a")


TYPED = """
[tasks.it]
cmd = "run {{ what }} {{how}}"
args = ["what", { arg = "how", default = "fast", choices = ["fast", "slow"] }]
"""


def test_typed_arguments_go_where_the_template_says(lines):
    assert lines(TYPED, "it", "x") == ["default: run x fast"]
    assert lines(TYPED, "it", "x", "slow") == ["default: run x slow"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "needs the argument what"),
        (("x", "mid"), "one of fast, slow"),
        (("x", "slow", "y"), r"at most 2 arguments \(what, how\) and was given 3"),
    ],
)
def test_typed_arguments_that_do_not_fit(lines, args, message):
    with pytest.raises(UsageProblem, match=message):
        lines(TYPED, "it", *args)


def test_a_template_beyond_names_is_refused(lines):
    with pytest.raises(UsageProblem, match="names only"):
        lines('[tasks.it]\ncmd = "run {{ what | upper }}"\nargs = ["what"]', "it", "x")
