import pytest

from taskrunner.errors import UsageProblem
from taskrunner.tasktable import Argument, Dependency, Task, read_tasks


def read(table):
    return read_tasks({"it": table})["it"]


def test_short_forms():
    assert read("echo hi") == Task("it", command="echo hi")
    assert read(["a", {"task": "b"}]) == Task("it", depends_on=(Dependency("a"), Dependency("b")))
    assert read({"depends-on": "a"}) == Task("it", depends_on=(Dependency("a"),))


def test_long_form():
    task = read(
        {
            "cmd": "run {{ what }} {{ how }}",
            "args": ["what", {"arg": "how", "default": "fast", "choices": ["fast", "slow"]}],
            "depends-on": [{"task": "setup", "environment": "gpu", "args": ["x"]}],
            "env": {"LEVEL": "3"},
            "cwd": "cpp",
            "default-environment": "dev",
            "description": "Does it",
        }
    )
    assert task == Task(
        name="it",
        command="run {{ what }} {{ how }}",
        arguments=(Argument("what"), Argument("how", "fast", ("fast", "slow"))),
        depends_on=(Dependency("setup", "gpu", ("x",)),),
        env={"LEVEL": "3"},
        cwd="cpp",
        default_environment="dev",
        description="Does it",
    )


def test_words_of_a_list_are_quoted_only_where_a_shell_would_split_them():
    task = read({"cmd": ["echo", "$HOME", "two words", 'a "quoted" one', ""]})
    assert task.command == r'echo $HOME "two words" "a \"quoted\" one" ""'


def test_a_key_that_cannot_be_honoured_is_refused():
    with pytest.raises(UsageProblem, match=r"clean-env of task 'it'"):
        read({"cmd": "x", "clean-env": True})


def test_what_only_lets_pixi_skip_a_task_is_accepted():
    assert read({"cmd": "x", "inputs": ["a"], "outputs": ["b"]}) == Task("it", command="x")
