import pytest

from taskrunner.cli import Request, parse
from taskrunner.errors import UsageProblem


def test_everything_after_the_task_belongs_to_it():
    assert parse(["-e", "gpu", "test", "-e", "x", "--", "--dry-run"]) == Request(
        task="test", args=["-e", "x", "--", "--dry-run"], environment="gpu"
    )


@pytest.mark.parametrize("words", [["-e", "gpu"], ["--environment", "gpu"], ["--environment=gpu"], ["-e=gpu"]])
def test_the_environment(words):
    assert parse([*words, "t"]).environment == "gpu"


def test_the_other_options():
    request = parse(["-n", "--skip-deps", "--no-pixi", "t"])
    assert (request.dry_run, request.skip_deps, request.use_pixi) == (True, True, False)


@pytest.mark.parametrize("words", [["--frozen", "t"], ["-e"], ["--environment"]])
def test_bad_options(words):
    with pytest.raises(UsageProblem):
        parse(words)
