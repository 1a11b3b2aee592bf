import pytest

from taskrunner.errors import UsageProblem
from taskrunner.manifest import load

MANIFEST = """
[workspace]
name = "mini"
channels = ["conda-forge"]
platforms = [
  { name = "gpu-machine", platform = "linux-64", cuda = { driver = "13.0", arch = "12.0" } },
  { name = "any-machine", platform = "linux-64" },
]
[environments]
gpu = ["first", "second"]
alone = { features = ["second"], no-default-feature = true }
[environments.inline]
features = ["first"]
[environments.inline.tasks]
hello = "echo inline"
[activation.env]
LEVEL = "default"
[tasks]
hello = "echo default"
[feature.first]
platforms = ["gpu-machine"]
[feature.first.tasks]
hello = "echo first"
[feature.first.pypi-dependencies]
ruff = "==1"
[feature.first.activation]
scripts = ["first.sh"]
env = { LEVEL = "first" }
[feature.second.dependencies]
python = ">=3.11"
cuda-nvcc = "*"
[feature.second.tasks]
hello = "echo second"
[feature.second.pypi-dependencies]
ruff = "==2"
mypy = "*"
[feature.second.activation]
scripts = ["second.sh"]
"""


@pytest.fixture
def manifest(tmp_path):
    (tmp_path / "pixi.toml").write_text(MANIFEST)
    return load(tmp_path)


def test_the_default_environment_is_always_there(manifest):
    assert list(manifest.environments) == ["default", "gpu", "alone", "inline"]
    default = manifest.environments["default"]
    assert default.tasks["hello"].command == "echo default"
    assert [platform.name for platform in default.platforms] == ["gpu-machine", "any-machine"]


def test_the_first_listed_feature_wins_over_later_ones_and_the_default(manifest):
    gpu = manifest.environments["gpu"]
    assert gpu.tasks["hello"].command == "echo first"
    assert gpu.pypi == {"ruff": "==1", "mypy": "*"}
    assert gpu.variables == {"LEVEL": "first"}
    assert gpu.scripts == ("second.sh", "first.sh")
    assert [platform.name for platform in gpu.platforms] == ["gpu-machine"]


def test_an_environment_without_the_default_feature(manifest):
    alone = manifest.environments["alone"]
    assert alone.tasks["hello"].command == "echo second"
    assert alone.variables == {}


def test_tables_of_the_environment_itself_win(manifest):
    assert manifest.environments["inline"].tasks["hello"].command == "echo inline"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[workspace", "cannot be read"),
        ('[environments]\nx = ["absent"]', "feature 'absent'"),
        ('[target.linux-64.tasks]\na = "b"', "target"),
        ("[pypi-options]\nno-build-isolation = true", "no-build-isolation"),
        ('[tasks.a]\ncmd = "b"\nclean-env = true', "clean-env"),
    ],
)
def test_what_cannot_be_read_or_honoured_is_an_error(tmp_path, text, message):
    (tmp_path / "pixi.toml").write_text(text)
    with pytest.raises(UsageProblem, match=message):
        load(tmp_path)


def test_an_absent_manifest_is_an_error(tmp_path):
    with pytest.raises(UsageProblem, match=r"pixi\.toml"):
        load(tmp_path)
