import pytest

from taskrunner.machine import Machine, this_machine
from taskrunner.platforms import read_platforms

NAMES = ("CONDA_OVERRIDE_CUDA", "CONDA_OVERRIDE_CUDA_ARCH", "CONDA_OVERRIDE_GLIBC")


@pytest.fixture(autouse=True)
def _no_overrides(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def test_overrides_replace_what_is_found(monkeypatch):
    for name, value in zip(NAMES, ("13.2", "12.0", "2.31"), strict=True):
        monkeypatch.setenv(name, value)
    machine = this_machine()
    assert (machine.cuda_driver, machine.cuda_arch, machine.glibc) == ("13.2", "12.0", "2.31")


def test_an_empty_override_hides_what_is_there(monkeypatch):
    monkeypatch.setenv("CONDA_OVERRIDE_CUDA", "")
    assert this_machine().cuda_driver is None


def test_versions_are_compared_as_numbers():
    (platform,) = read_platforms([{"platform": "linux-64", "glibc": "2.9", "cuda": "9.0"}])
    assert platform.lacking(Machine("linux-64", glibc="2.28", cuda_driver="13.0")) == []
    assert platform.lacking(Machine("linux-64", glibc="2.8", cuda_driver="13.0")) == ["glibc 2.9 or newer (found: 2.8)"]


def test_forms_of_a_platform():
    bare, driver, both = read_platforms(
        ["linux-64", {"platform": "linux-64", "cuda": "13.0"}, {"name": "n", "platform": "osx-arm64", "cuda": {}}]
    )
    assert (bare.name, bare.subdir, bare.cuda_driver) == ("linux-64", "linux-64", None)
    assert (driver.name, driver.cuda_driver, driver.cuda_arch) == ("linux-64", "13.0", None)
    assert both.lacking(Machine("linux-64")) == ["osx-arm64 (this is linux-64)"]
