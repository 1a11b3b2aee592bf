"""AGENTS.md and the skill name commands and options that exist, and the action's steps run."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Any

import pytest
import yaml
from tests.fork_server import ForkServer
from tests.in_app import stdout_of

ROOT = Path(__file__).parents[2]
MAIN = "from trt_workbench.main import main; main()"
PAGES = ("AGENTS.md", ".agents/skills/trtw/SKILL.md")
CALLS = sorted({call for page in PAGES for call in re.findall(r"`trtw ([^`]+)`", (ROOT / page).read_text("utf-8"))})
BASH = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]  # of `shell: bash`
_STEP = "github needs strategy matrix job runner env vars secrets steps inputs"
# Where an expression may stand, and what it may name there (GitHub's documentation, "Context availability"; of an
# action, the runner's action_yaml.json). CompositeActionHandler sets the path of an action for its steps alone.
CONTEXTS = [
    (r"\.inputs\.\w+\.default", "github strategy matrix job runner"),
    (r"\.runs\.steps\..*", "github inputs strategy matrix steps job runner env"),
    (r"\.(run-name|concurrency.*)", "github inputs vars"),
    (r"\.env\.\w+", "github secrets inputs vars"),
    (r"\.jobs\.[\w-]+\.strategy\..*", "github needs vars inputs"),
    (r"\.jobs\.[\w-]+\.if", "github needs vars inputs"),
    (r"\.jobs\.[\w-]+\.(name|runs-on|timeout-minutes|concurrency.*)", "github needs strategy matrix vars inputs"),
    (r"\.jobs\.[\w-]+\.environment\.url", "github needs strategy matrix job runner env vars steps inputs"),
    (r"\.jobs\.[\w-]+\.env\.\w+", "github needs strategy matrix vars secrets inputs"),
    (r"\.jobs\.[\w-]+\.outputs\.\w+", _STEP),
    (r"\.jobs\.[\w-]+\.steps\.if", "github needs strategy matrix job runner env vars steps inputs"),
    (r"\.jobs\.[\w-]+\.steps\..*", _STEP),
]
_INPUT = re.compile(r"\$\{\{ inputs\.(\w+) \}\}")


@pytest.mark.parametrize("call", [call for call in CALLS if call.split()[0] != "COMMAND"])
def test_a_command_of_the_pages_exists_with_its_options(call: str) -> None:
    name, *words = call.split()
    shown = stdout_of(name, "--help")
    assert [word for word in words if word.startswith("--") and word not in shown] == []


def test_the_pages_name_many_commands() -> None:
    assert len(CALLS) > 15


def steps(**given: str) -> list[tuple[dict[str, str], str]]:
    """The steps of the action that run a script, with the inputs in place, as the runner has them."""
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    inputs = {name: str(one.get("default", "")) for name, one in action["inputs"].items()} | given
    assert {name for name, one in action["inputs"].items() if one.get("required")} <= given.keys()
    found = []
    for step in action["runs"]["steps"]:
        env = {name: _INPUT.sub(lambda hit: inputs[hit[1]], text) for name, text in step.get("env", {}).items()}
        if "run" in step and not (step.get("if") == "inputs.package != 'none'" and inputs["package"] == "none"):
            assert "${{" not in step["run"]
            found.append((env, step["run"]))
    return found


def runner(folder: Path, **more: str) -> dict[str, str]:
    """What a step's script has in its environment: the machine's variables, and those of the runner."""
    own = {"CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_ACTION_PATH": str(ROOT), "GITHUB_WORKSPACE": str(folder)}
    own |= {"GITHUB_STEP_SUMMARY": str(folder / "summary"), "RUNNER_TEMP": str(folder)}
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "PYTHONPYCACHEPREFIX") if name in os.environ}
    return kept | own | more


@pytest.mark.long
@pytest.mark.parametrize(("least", "code", "word"), [(0.2, 0, "Passed: score."), (1.0, 1, "Failed: score (1 of 1).")])
def test_the_steps_of_the_action_run(
    tmp_path: Path, fork_server: ForkServer, least: float, code: int, word: str
) -> None:
    config = tmp_path / "gate.yaml"
    config.write_text(f"model: shapes-yolov10\nscore: {{backend: ort-cpu, limit: 4, at_least: {{AP: {least}}}}}\n")
    trtw = tmp_path / "bin" / "trtw"
    trtw.parent.mkdir()
    trtw.write_text(f"""#!/bin/sh\nexec {quote(fork_server.executable)} -c '{MAIN}' "$@"\n""")
    trtw.chmod(0o755)
    environment = runner(tmp_path, PATH=f"{trtw.parent}{os.pathsep}{os.environ['PATH']}")
    ((env, script),) = steps(config="gate.yaml", package="none")
    done = subprocess.run([*BASH, script], env=environment | env, cwd=tmp_path)
    assert done.returncode == code
    assert word in (tmp_path / "summary").read_text()
    assert (tmp_path / "gate" / "report.html").is_file()


def test_the_action_installs_its_own_package_unless_told_otherwise(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > asked\n')
    python.chmod(0o755)
    for given, package in (({}, f"{ROOT}/python[cpu]"), ({"package": "trt-workbench[gpu]"}, "trt-workbench[gpu]")):
        (env, script), _ = steps(config="gate.yaml", **given)
        environment = runner(tmp_path, PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        subprocess.run([*BASH, script], env=environment | env, cwd=tmp_path, check=True)
        assert (tmp_path / "asked").read_text().split() == ["-m", "pip", "install", package]
    assert (ROOT / "python" / "pyproject.toml").is_file()


def test_the_guides_workflow_uses_the_action_of_a_submodule(tmp_path: Path) -> None:
    """The command of the page adds the repository by the address of a clone; nobody types an account."""
    page = (ROOT / "docs/guides/gate.md").read_text("utf-8")
    git = {"HOME": str(tmp_path), "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "protocol.file.allow"}
    environment = {**os.environ, **git, "GIT_CONFIG_VALUE_0": "always", "A": "-c user.name=a -c user.email=a@b.c"}
    prepare = f"""
        git init -q origin && cp {quote(str(ROOT / "action.yml"))} origin && git -C origin add action.yml
        git -C origin $A commit -q -m 1 && git clone -q origin trt-workbench && git init -q own
    """
    subprocess.run([*BASH, prepare], env=environment, cwd=tmp_path, check=True)
    (command,) = re.findall(r"`(git submodule add [^`]+)`", page)
    subprocess.run([*BASH, command], env=environment, cwd=tmp_path / "own", check=True)

    (workflow,) = re.findall(r"^```yaml\n(on:.*?)^```", page, re.MULTILINE | re.DOTALL)
    (job,) = yaml.safe_load(workflow)["jobs"].values()
    checkout, _, action = job["steps"]
    inputs = yaml.safe_load((tmp_path / "own" / action["uses"] / "action.yml").read_text("utf-8"))["inputs"]
    assert checkout["with"] == {"submodules": True}
    assert {name for name, one in inputs.items() if one.get("required")} <= action["with"].keys() <= inputs.keys()
    assert not re.search(r"\b[A-Z]{4,}/", workflow)  # a stand-in


def expressions(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Every expression of a file with the keys that it stands below, without the numbers of lists."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from expressions(inner, f"{place}.{key}")
            if key == "if" and "${{" not in str(inner):
                yield f"{place}.if", str(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from expressions(inner, place)
    else:
        yield from ((place, text) for text in re.findall(r"\$\{\{(.*?)\}\}", str(value), re.DOTALL))


def misplaced(document: object) -> list[str]:
    """The expressions that name a context which does not exist where they stand, or has no such value there yet."""
    found = []
    for place, text in expressions(document):
        allowed = next((names for pattern, names in CONTEXTS if re.fullmatch(pattern, place)), "")
        used = set(re.findall(r"(?<![\w.'-])([a-z]+)\.", re.sub(r"'[^']*'", "", text)))
        if not used <= set(allowed.split()) or ("github.action_path" in text and ".steps." not in place):
            found.append(f"{place}: {text.strip()}")
    return found


@pytest.mark.parametrize(
    "file", [ROOT / "action.yml", *sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))], ids=lambda file: file.name
)
def test_every_expression_stands_where_its_context_exists(file: Path) -> None:
    assert misplaced(yaml.safe_load(file.read_text("utf-8"))) == []


def test_an_expression_in_the_wrong_place_is_named() -> None:
    assert misplaced({"inputs": {"package": {"default": "${{ github.action_path }}/python"}}})
    assert misplaced({"inputs": {"package": {"default": "${{ inputs.other }}"}}})
    assert misplaced({"jobs": {"a": {"if": "steps.b.outputs.c == 'github.d'"}}})
    assert misplaced({"jobs": {"a": {"services": "${{ github.actor }}"}}})  # a place that the table does not have
    assert not misplaced({"jobs": {"a": {"steps": [{"if": "steps.b.outcome == 'x'", "run": "${{ secrets.c }}"}]}}})
