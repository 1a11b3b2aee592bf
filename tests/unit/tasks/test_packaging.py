"""What only other machines run (workflows, Dockerfile, recipe, cibuildwheel) speaks of what the repository has."""

import re
import shlex
import subprocess
import sys
import tomllib
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import trt_workbench
from taskrunner import load

ROOT = Path(__file__).parents[3]
PLACES = sorted((ROOT / ".github/workflows").glob("*.yaml"))
WORKFLOWS = {path.name: yaml.safe_load(path.read_text()) for path in PLACES}
STEPS = [step for flow in WORKFLOWS.values() for job in flow["jobs"].values() for step in job.get("steps", ())]
PYTHON, CPP = (tomllib.loads((ROOT / part / "pyproject.toml").read_text()) for part in ("python", "cpp"))
# conda-forge's name, where it is another one.
CONDA = {"lazy-loader": "lazy_loader", "matplotlib": "matplotlib-base", "opencv-python-headless": "py-opencv"}


def script(name):
    loader = SourceFileLoader(name, str(ROOT / "tasks" / name))
    module = module_from_spec(spec_from_loader(loader.name, loader))
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


@pytest.fixture(scope="module")
def wheels():
    return script("wheels")


def asks(words):
    """The environment, None where none is named, and the task of words after tasks/run."""
    return (words[1], words[2]) if words[0] == "-e" else (None, words[0])


def runs(text):
    """The words after each `tasks/run` of a shell's text."""
    commands = re.split(r"&&|\n", text.replace("\\\n", " "))
    split = [shlex.split(one.strip().removeprefix("RUN "), comments=True) for one in commands]
    return [words[1:] for words in split if words[:1] == ["tasks/run"]]


def exists(words):
    environment, task = asks(words)
    environments = load(ROOT)
    return any(task in one.tasks for name, one in environments.items() if environment in (None, name))


def test_workflows_run_what_there_is():
    commands = [step["run"] for step in STEPS if "run" in step]
    assert [words for command in commands for words in runs(command) if not exists(words)] == []
    own = {command for command in commands if command.startswith((".ci/", "tasks/"))}
    version = "tasks/run test -n 0 tests/unit/test_version.py"
    assert own == {".ci/run", "tasks/run wheels", "tasks/run report-pages", "tasks/run docs-site", version}
    called = [job["uses"] for flow in WORKFLOWS.values() for job in flow["jobs"].values() if "uses" in job]
    assert {Path(one).name for one in called} == {"test.yaml", "wheels.yaml"}
    assert not [one for one in called if not (ROOT / one).is_file()]


def test_a_release_publishes_what_was_tested_and_nothing_else():
    publish = WORKFLOWS["release.yaml"]["jobs"]["publish"]
    assert {*publish["needs"]} == WORKFLOWS["release.yaml"]["jobs"].keys() - {"publish"}
    made = {step["with"]["name"] for step in STEPS if step.get("uses", "").startswith("actions/upload-artifact")}
    assert made == {"dist-core", "dist-package", "sbom"}
    for name, flow in WORKFLOWS.items():
        assert flow["permissions"] == {"contents": "read"}, name
        others = [job for key, job in flow["jobs"].items() if key != "publish"]
        assert not [job for job in others if "permissions" in job], name


def test_wheels_are_made_for_every_python_that_is_claimed(wheels):
    claimed = [one.rpartition(" ")[2] for one in PYTHON["project"]["classifiers"] if re.search(r":: 3\.\d+$", one)]
    settings = CPP["tool"]["cibuildwheel"]
    assert wheels.versions(settings) == claimed
    assert [one.rpartition(" ")[2] for one in CPP["project"]["classifiers"] if re.search(r":: 3\.\d+$", one)] == claimed
    assert settings["repair-wheel-command"].format(wheel="W", dest_dir="D").endswith("--wheel-dir D W")
    (version,) = re.findall(r"cibuildwheel@[0-9a-f]{40} # v(\S+)", "".join(map(Path.read_text, PLACES)))
    assert f"cibuildwheel=={version}" in (ROOT / "tasks/check-packaging").read_text()


def test_actions_of_others_are_pinned_by_their_hash():
    """A tag can be moved to another commit."""
    used = [line for place in (*PLACES, ROOT / "action.yml") for line in re.findall(r"uses: (.*)", place.read_text())]
    others = [line for line in used if not line.startswith("./")]
    assert len(others) > 15
    assert [line for line in others if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == []


def test_a_python_is_found_or_named(wheels, capsys):
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    asked = [str(wheels.find_python(own)), "-c", "import sys; print(*sys.version_info[:2], sep='.')"]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip() == own
    assert wheels.main(["3.99"]) == 3
    assert "Python 3.99" in capsys.readouterr().err


def test_the_core_is_compiled_for_the_glibc_of_the_image(wheels, monkeypatch, tmp_path):
    calls = []

    def do(*words, variables):
        calls.append((words[words.index("--") + 1 :], variables))
        made = {"build": tmp_path / "built/core.whl", "repair": tmp_path / "trt_workbench_native.whl"}
        if one := made.get(words[words.index("--") + 2]):
            one.touch()

    (tmp_path / "built").mkdir()
    for name, folder in (("WORK", tmp_path), ("DIST", tmp_path), ("BUILT", tmp_path / "built"), ("do", do)):
        monkeypatch.setattr(wheels, name, folder)
    settings = CPP["tool"]["cibuildwheel"]
    wheels.build_core(tmp_path, Path(sys.executable), settings)
    (_, building), (repair, repairing), (show, _) = calls
    assert settings["manylinux-x86_64-image"] == "manylinux_2_28"
    assert (tmp_path / "c++").read_text().splitlines()[-1] == 'exec python-zig c++ -target x86_64-linux-gnu.2.28 "$@"'
    assert building["CXX"] == str(tmp_path / "c++")
    assert repairing["AUDITWHEEL_PLAT"] == "manylinux_2_28_x86_64"
    assert (repair[0], show[2]) == ("auditwheel", tmp_path / "trt_workbench_native.whl")


def test_wheels_are_tried_outside_of_the_repository_without_a_compiler(wheels, monkeypatch, tmp_path):
    names = ["trt_workbench-1-py3-none-any.whl", "trt_workbench_p-1-py3-none-any.whl", "trt_workbench-1.tar.gz"]
    names += [f"trt_workbench_native-1-cp3{minor}-cp3{minor}-manylinux_2_28_x86_64.whl" for minor in (12, 13)]
    for name in (*names, ".gitignore"):
        (tmp_path / name).touch()
    calls, steps = [], []
    monkeypatch.setattr(wheels, "DIST", tmp_path)
    monkeypatch.setattr(wheels, "do", lambda *words, **_: calls.append([*map(str, words)]))
    monkeypatch.setattr(wheels.subprocess, "run", lambda words, **given: steps.append((words, given)))
    assert [path.name for path in wheels.released()] == sorted(names)  # without what uv adds
    wheels.try_out("3.13", Path(sys.executable), CPP["tool"]["cibuildwheel"])
    made, installed, listed = calls
    assert installed[-3:] == [f"{tmp_path / names[0]}[cpu]", str(tmp_path / names[1]), str(tmp_path / names[4])]
    assert listed[-1] == f"{made[-1]}/bin/python"
    assert [words[0] for words, _ in steps] == ["python", "trtw", "python", "trtw", "trtw"]
    for _, given in steps:
        assert not given["cwd"].is_relative_to(ROOT)
        assert given["env"] == {"PATH": f"{made[-1]}/bin", "HOME": str(given["cwd"])}


def test_the_container_and_ci_run_the_readmes_tasks():
    text = (ROOT / "docker/Dockerfile").read_text()
    named = re.findall(r"tasks/run ([\w-]+)", (ROOT / "README.md").read_text())
    assert named == ["eval-coco", "test"]
    assert re.search(rf"tasks/run {named[1]}\)$", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    assert re.search(r'^ENTRYPOINT \["tasks/run"\]\nCMD \["eval-coco"\]$', text, re.MULTILINE)
    assert re.search(r"^#   docker run --rm trt-workbench test ", text, re.MULTILINE)
    made = runs(text)
    assert [words for words in made if not exists(words)] == []
    environments = load(ROOT)
    defaults = {environments["dev"].tasks[task].get("default-environment") for task in named}
    assert defaults == {asks(words)[0] for words in made}


def test_pip_reads_the_readmes_address_of_the_package():
    (line,) = re.findall(r'`pip install "(.+?URL.*?)"`', (ROOT / "README.md").read_text())
    asked = Requirement(line.replace("URL", "https://host.example/owner/name"))
    address, _, folder = asked.url.partition("#subdirectory=")
    assert (asked.name, address) == (PYTHON["project"]["name"], "git+https://host.example/owner/name")
    assert asked.extras <= PYTHON["project"]["optional-dependencies"].keys()
    assert tomllib.loads((ROOT / folder / "pyproject.toml").read_text()) == PYTHON


def test_the_recipe_says_what_the_package_says():
    recipe = yaml.safe_load((ROOT / "conda/recipe.yaml").read_text())
    project = PYTHON["project"]
    assert recipe["context"]["version"] == trt_workbench.__version__
    assert (recipe["about"]["summary"], recipe["about"]["license"]) == (project["description"], project["license"])
    points = [f"{name} = {target}" for name, target in project["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == points
    parts = [re.fullmatch(r"([\w-]+)(.*)", one).groups() for one in project["dependencies"]]
    expected = {f"{CONDA.get(name, name)} {spec}" for name, spec in parts} | {"onnxruntime"}
    assert {*recipe["requirements"]["run"]} == expected | {f"python {project['requires-python']}"}
    assert {*PYTHON["build-system"]["requires"]} <= {one.replace(" ", "") for one in recipe["requirements"]["host"]}
