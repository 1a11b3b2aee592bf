"""Commands in the words of how the user started us, and environments that hold what the messages say."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from taskrunner import Machine, load, parse, pip_calls, resolve
from trt_workbench.core import environment, launcher

ROOT = Path(__file__).parents[3]
ENVIRONMENTS = load(ROOT)
PLUG_INS = {
    path.parent.name: tomllib.loads(path.read_text())["project"]
    for path in ROOT.glob("python/plugins/*/pyproject.toml")
}
EXTRAS = tomllib.loads((ROOT / "python/pyproject.toml").read_text())["project"]["optional-dependencies"]
OF_ALL = EXTRAS | {
    name: one for project in PLUG_INS.values() for name, one in project.get("optional-dependencies", {}).items()
}
# What pip is told to install by an extra of the package.
BY_EXTRA = {
    package: found[1]
    for package, one in launcher._PACKAGES.items()
    if (found := re.fullmatch(r"pip install 'trt-workbench(?:-\w+)?\[([\w-]+)\]'", one.pip))
}


@pytest.mark.parametrize("package", launcher._PACKAGES)
def test_a_package_is_in_the_environments_that_messages_name(package: str) -> None:
    listed = {*launcher._PACKAGES[package].environments}
    assert listed == {name for name, environment in ENVIRONMENTS.items() if package in environment.pypi}


def test_every_environment_reads_flac() -> None:
    """So that `repair` is the right advice where one does not."""
    assert [name for name, environment in ENVIRONMENTS.items() if "soundfile" not in environment.pypi] == []


@pytest.mark.parametrize("start", ["pixi", "tasks/run"])
@pytest.mark.parametrize("package", launcher._PACKAGES)
def test_the_command_that_is_advised_runs_where_the_package_is(
    gpus: Callable[..., None], started_by: Callable[..., None], start: str, package: str
) -> None:
    gpus("12.0")
    words = ["trtw", "eval-stream", "a b.onnx"]
    started_by(start, "gpu-trt11", *words)
    (advised,) = re.findall(r"`(.*)`", launcher.package(package))
    _, asked, task = parse(shlex.split(advised.removeprefix("pixi run").removeprefix("tasks/run")))
    chosen = resolve(ENVIRONMENTS, task[0], asked, Machine("linux-64", "2.39", "13.0", "12.0"))
    assert package in chosen.pypi
    assert task == words


@pytest.mark.long
@pytest.mark.parametrize("package", BY_EXTRA)
def test_pip_adds_what_an_extra_names_to_the_package_that_is_installed(package: str, tmp_path: Path) -> None:
    """With the installed pip and the installed metadata; the package index is a folder of empty wheels."""
    (requirement,) = map(Requirement, OF_ALL[BY_EXTRA[package]])
    version = next(iter(requirement.specifier)).version
    stem = f"{package.replace('-', '_')}-{version}"
    provides = "".join(f"Provides-Extra: {extra}\n" for extra in requirement.extras)
    with zipfile.ZipFile(tmp_path / f"{stem}-py3-none-any.whl", "w") as wheel:
        about = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n{provides}"
        wheel.writestr(f"{stem}.dist-info/METADATA", about)
        wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{stem}.dist-info/RECORD", "")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    command = [sys.executable, "-m", *shlex.split(launcher._PACKAGES[package].pip), "--dry-run", "--quiet"]
    done = subprocess.run(
        [*command, "--no-index", "--find-links", tmp_path, "--report", "-"],
        env=clean | {"PIP_CONFIG_FILE": os.devnull},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    added = [one["metadata"]["name"] for one in json.loads(done.stdout)["install"]]
    assert added == [package] * (package not in environment.installed_packages())


@pytest.mark.parametrize("extra", sorted(OF_ALL.keys() - {"llm", *PLUG_INS}))
def test_an_extra_and_the_environments_ask_for_the_same(extra: str) -> None:
    """PyTorch's extra leaves the version open."""
    (wanted,) = map(Requirement, OF_ALL[extra])
    asked = {
        requirement
        for one in ENVIRONMENTS.values()
        for text in pip_calls(one, ROOT)[-1]
        if not text.startswith(("-", "/")) and (requirement := Requirement(text)).name == wanted.name
    }
    assert {found.specifier for found in asked} == {wanted.specifier}
    assert extra == "gpu" or {*map(str, asked)} == {str(wanted)}


@pytest.mark.parametrize("name", PLUG_INS)
def test_a_plug_in_has_an_extra_and_is_in_every_environment(name: str) -> None:
    (wanted,) = map(Requirement, EXTRAS[name])
    project = PLUG_INS[name]
    assert (wanted.name, str(wanted.specifier)) == (project["name"], f"=={project['version']}")
    assert wanted.extras <= project.get("optional-dependencies", {}).keys()
    asked = {f"{ROOT}/python/plugins/{name}" in pip_calls(one, ROOT)[-1] for one in ENVIRONMENTS.values()}
    assert asked == {True}


def test_environments_for_gpus_are_made_for_what_the_table_says() -> None:
    table = {name: card for card, names in launcher._CARD_ENVIRONMENTS.items() for name in names}
    table |= dict.fromkeys(launcher._ANY_CARD, "7.5")
    floors = {name: environment.platforms[0].cuda_arch for name, environment in ENVIRONMENTS.items()}
    assert table == {name: floor for name, floor in floors.items() if floor}
    for task in ("setup-tensorrt", "build-native", "build-ort"):
        assert all(task in ENVIRONMENTS[name].tasks for name in table)


@pytest.mark.parametrize(
    ("gpu", "environment", "wanted"),
    [
        ("12.0", "default", "rtx5090"),
        ("12.0", "rtx5090-trt11", "rtx5090-trt11"),  # the one that is active is for GPUs
        ("10.0", "default", "gpu"),
        ("9.0", "llm", "h200"),
        ("9.0", "gpu", "gpu"),
        ("8.6", "default", "gpu"),
        (None, "dev", "gpu"),
        (None, "h200", "h200"),
    ],
)
@pytest.mark.parametrize(("start", "program"), [("pixi", "pixi run"), ("tasks/run", "tasks/run")])
def test_tensorrt_is_set_up_in_an_environment_for_the_gpu(
    gpus: Callable[..., None],
    started_by: Callable[..., None],
    start: str,
    program: str,
    gpu: str | None,
    environment: str,
    wanted: str,
) -> None:
    gpus(*([gpu] if gpu else []))
    started_by(start, environment)
    assert launcher.task("setup-tensorrt", "--from", "DIR") == f"`{program} -e {wanted} setup-tensorrt --from DIR`"
    assert launcher.task("build-native") == f"`{program} -e {wanted} build-native`"
    assert launcher.task("doctor") == f"`{program} -e {environment} doctor`"


@pytest.mark.parametrize(
    ("gpu", "environment", "wanted"),
    [
        ("12.0", "default", "rtx5090-trt11"),
        ("12.0", "gpu-trt11", "gpu-trt11"),
        ("9.0", "h200", "gpu-trt11"),
        (None, "default", "gpu-trt11"),
    ],
)
def test_onnxruntime_is_built_in_an_environment_with_tensorrt_11(
    gpus: Callable[..., None], started_by: Callable[..., None], gpu: str | None, environment: str, wanted: str
) -> None:
    gpus(*([gpu] if gpu else []))
    started_by("pixi", environment)
    assert launcher.task("build-ort") == f"`pixi run -e {wanted} build-ort`"


def test_without_an_environment_it_is_pip() -> None:
    assert launcher.task("setup-tensorrt") == "`trtw setup-tensorrt`"
    assert launcher.task("build-native") == "`pip install ./cpp`"
    assert launcher.package("onnxruntime") == "Run `pip install onnxruntime==1.31.1`."
    assert launcher.repair("Do it by hand.") == "Do it by hand."


@pytest.mark.parametrize(
    ("package", "gpu", "environment", "wanted"),
    [
        ("onnxruntime-gpu", "12.0", "default", "rtx5090"),
        ("onnxruntime-gpu", "9.0", "default", "h200"),
        ("onnxruntime-gpu", "8.9", "default", "gpu"),
        ("torch", "8.9", "gpu", "gpu-llm"),
        ("onnxruntime", None, "rtx5090-trt11", "default"),
        ("torch", None, "default", "llm"),
        ("torch", "9.0", "default", "h200"),
        ("torch", "12.0", "rtx5090", "rtx5090-llm"),
    ],
)
def test_a_package_comes_with_an_environment(
    gpus: Callable[..., None],
    started_by: Callable[..., None],
    package: str,
    gpu: str | None,
    environment: str,
    wanted: str,
) -> None:
    gpus(*([gpu] if gpu else []))
    started_by("pixi", environment, "eval-coco", "--model", "a b.onnx")
    again = f"pixi run -e {wanted} eval-coco --model 'a b.onnx'"
    assert launcher.package(package) == f"Use an environment that has it: `{again}`."


def test_an_environment_that_should_hold_a_package_is_made_again(started_by: Callable[..., None]) -> None:
    started_by("pixi", "default")
    assert "`pixi clean -e default`" in launcher.package("onnxruntime")
    started_by("tasks/run", "default")
    assert "tmp/venvs/default" in launcher.package("onnxruntime")
    assert "tmp/venvs/default" in launcher.repair("Use pip.")


@pytest.mark.parametrize(
    ("start", "words", "said"),
    [
        ("pixi", ["/bin/trtw", "verify", "m.onnx"], "pixi run -e gpu trtw verify m.onnx --output 'r d'"),
        ("tasks/run", ["/bin/eval-coco", "-o", "r"], "tasks/run -e gpu eval-coco -o r"),
        ("pip", ["/bin/trtw", "verify", "m n.onnx"], "trtw verify 'm n.onnx' --output 'r d'"),
        ("pip", ["/x/trt_workbench/__main__.py", "verify", "m", "--output=r"], "trtw verify m --output=r"),
        ("pip", ["/x/other/__main__.py", "verify", "m", "--output=r"], "… --output 'r d'"),
    ],
)
def test_the_command_that_goes_on_is_one_of_the_user(
    started_by: Callable[..., None], monkeypatch: pytest.MonkeyPatch, start: str, words: list[str], said: str
) -> None:
    if start == "pip":
        monkeypatch.delenv("PIXI_ENVIRONMENT_NAME", raising=False)
        monkeypatch.setattr("sys.argv", words)
    else:
        started_by(start, "gpu", *words)
    assert launcher.continuing(Path("r d")) == f"`{said}`"
