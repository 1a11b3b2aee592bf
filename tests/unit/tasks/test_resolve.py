"""The rules by which pixi chooses an environment, one test a rule."""

import pytest

from taskrunner.errors import ComponentMissing, UsageProblem
from taskrunner.machine import Machine
from taskrunner.manifest import load
from taskrunner.resolve import all_tasks, resolve

CPU = Machine("linux-64", glibc="2.36")
BLACKWELL = Machine("linux-64", glibc="2.39", cuda_driver="13.1", cuda_arch="12.0")
HOPPER = Machine("linux-64", glibc="2.39", cuda_driver="13.0", cuda_arch="9.0")

MANIFEST = """
[workspace]
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
[tasks]
everywhere = "a"
shadowed = "a"
_hidden = "a"
preferring = { cmd = "a", default-environment = "blackwell" }
[feature.cpu]
platforms = ["cpu"]
[feature.sm120]
platforms = ["sm120"]
[feature.sm90]
platforms = ["sm90"]
[feature.dev.tasks]
once = "a"
shadowed = "b"
[feature.cuda.tasks]
on-gpu = "a"
on-gpu-preferring = { cmd = "a", default-environment = "blackwell" }
on-gpu-preferring-hopper = { cmd = "a", default-environment = "hopper" }
"""


@pytest.fixture
def choose(tmp_path):
    (tmp_path / "pixi.toml").write_text(MANIFEST)
    manifest = load(tmp_path)

    def chosen(task, asked=None, machine=CPU):
        return resolve(manifest, task, asked, machine).name

    return chosen


def test_asked_for(choose):
    assert choose("everywhere", "dev") == "dev"
    assert choose("everywhere", "blackwell", BLACKWELL) == "blackwell"


def test_asked_for_but_unknown(choose):
    with pytest.raises(UsageProblem, match=r"no environment 'blackwel'; did you mean blackwell\?"):
        choose("everywhere", "blackwel")


def test_asked_for_but_without_the_task(choose):
    with pytest.raises(UsageProblem, match=r"'hopper' has no task 'once'; it is in: dev"):
        choose("once", "hopper", HOPPER)


def test_asked_for_without_its_gpu(choose):
    """As pixi does it: the environment can be installed, and what in it needs the GPU says so itself."""
    assert choose("everywhere", "blackwell", CPU) == choose("everywhere", "blackwell", HOPPER) == "blackwell"


def test_asked_for_on_another_kind_of_machine(choose):
    with pytest.raises(ComponentMissing, match="'blackwell' is for linux-64, and this is osx-arm64"):
        choose("everywhere", "blackwell", Machine("osx-arm64"))


def test_an_older_platform_fits_a_newer_machine(choose):
    assert choose("everywhere", "hopper", BLACKWELL) == "hopper"


@pytest.mark.parametrize("machine", [CPU, BLACKWELL, HOPPER])
def test_a_task_of_the_default_environment_runs_there(choose, machine):
    assert choose("everywhere", machine=machine) == "default"


def test_the_tasks_own_environment_is_taken_where_it_can_run(choose):
    assert choose("preferring", machine=BLACKWELL) == "blackwell"
    assert choose("preferring", machine=HOPPER) == "default"
    assert choose("preferring", machine=CPU) == "default"


def test_a_task_that_another_environment_defines_differently_is_ambiguous(choose):
    with pytest.raises(UsageProblem, match=r"'shadowed' exists in several environments.*-e default.*-e dev"):
        choose("shadowed")


def test_the_only_environment_with_the_task(choose):
    assert choose("once") == "dev"
    assert choose("on-gpu", machine=HOPPER) == "hopper"


def test_several_environments_with_the_task(choose):
    with pytest.raises(UsageProblem, match=r"-e blackwell or -e hopper"):
        choose("on-gpu", machine=BLACKWELL)
    assert choose("on-gpu-preferring", machine=BLACKWELL) == "blackwell"


def test_no_environment_with_the_task_is_made_for_the_machine(choose):
    assert choose("on-gpu") == "blackwell"
    assert choose("on-gpu-preferring-hopper") == "hopper"
    with pytest.raises(ComponentMissing, match="is for linux-64"):
        choose("on-gpu", machine=Machine("linux-aarch64"))


def test_unknown_task(choose):
    with pytest.raises(UsageProblem, match=r"no task 'everywher'; did you mean everywhere\?"):
        choose("everywher")
    with pytest.raises(
        UsageProblem, match=r"there are: everywhere, on-gpu, on-gpu-preferring, on-gpu-preferring-hopper, once,"
    ):
        choose("zzz")


def test_tasks_with_an_underscore_are_hidden_but_run(choose, tmp_path):
    assert "_hidden" not in all_tasks(load(tmp_path))
    assert choose("_hidden") == "default"
