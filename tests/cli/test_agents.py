"""AGENTS.md and the skill name commands and options that exist, and the action's steps run."""

import os
import re
import subprocess
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
_INPUT = re.compile(r"\$\{\{ inputs\.(\w+) \}\}")


@pytest.mark.parametrize("call", [call for call in CALLS if call.split()[0] != "COMMAND"])
def test_a_command_of_the_pages_exists_with_its_options(call: str) -> None:
    name, *words = call.split()
    shown = stdout_of(name, "--help")
    assert [word for word in words if word.startswith("--") and word not in shown] == []


def test_the_pages_name_many_commands() -> None:
    assert len(CALLS) > 15


def steps(**given: str) -> list[tuple[dict[str, Any], str]]:
    """The steps of the action that run a script, with the inputs in place."""
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    inputs = {name: str(one.get("default", "")) for name, one in action["inputs"].items()} | given
    assert {name for name, one in action["inputs"].items() if one.get("required")} <= given.keys()
    found = []
    for step in action["runs"]["steps"]:
        env = {name: _INPUT.sub(lambda hit: inputs[hit[1]], text) for name, text in step.get("env", {}).items()}
        if "run" in step and not (step.get("if") == "inputs.package != ''" and not inputs["package"]):
            found.append((env, step["run"]))
    return found


@pytest.mark.parametrize(("least", "code", "word"), [(0.2, 0, "Passed: score."), (1.0, 1, "Failed: score (1 of 1).")])
def test_the_steps_of_the_action_run(
    tmp_path: Path, fork_server: ForkServer, least: float, code: int, word: str
) -> None:
    config = tmp_path / "gate.yaml"
    config.write_text(f"model: shapes-yolov10\nscore: {{backend: ort-cpu, limit: 4, at_least: {{AP: {least}}}}}\n")
    summary, environment = tmp_path / "summary", os.environ | {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    trtw = tmp_path / "bin" / "trtw"
    trtw.parent.mkdir()
    trtw.write_text(f"""#!/bin/sh\nexec {quote(fork_server.executable)} -c '{MAIN}' "$@"\n""")
    trtw.chmod(0o755)
    environment["PATH"] = f"{trtw.parent}{os.pathsep}{environment['PATH']}"
    played = steps(config="gate.yaml", package="")
    assert len(played) == 1
    for env, script in played:
        done = subprocess.run(["bash", "-e", "-c", script], env=environment | env, cwd=tmp_path)
        assert done.returncode == code
    assert word in summary.read_text()
    assert (tmp_path / "gate" / "report.html").is_file()


def test_the_action_installs_its_own_package_unless_told_otherwise() -> None:
    (env, script), _ = steps(config="gate.yaml")
    assert (env["PACKAGE"], script) == ("${{ github.action_path }}/python[cpu]", 'python -m pip install "$PACKAGE"')
