"""The page of the first engine, followed word for word: in a shell over stand-ins, and by the commands themselves."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.engines.common import write_model
from tests.guides import FENCE, ROOT
from tests.in_app import stderr_of, stdout_of

from taskrunner import load
from trt_workbench.core import launcher

PAGE = (ROOT / "docs" / "guides" / "start.md").read_text(encoding="utf-8")
QUICK = {"build-engine": ("--verify", "off"), "infer-engine": ("--duration", "0.05")}
# In place of what changes the machine or asks the network. The installer puts pixi into ~/.pixi/bin, as its own script
# does, where only a later shell finds it. This pixi chooses environment and task by the repository's manifest.
STAND_INS = {
    "nvidia-smi": "true",
    "sudo": 'echo "sudo $*" >>"$LOG"',
    "curl": f"""cat <<'INSTALLER'
mkdir -p "$HOME/.pixi/bin"
cat >"$HOME/.pixi/bin/pixi" <<'PIXI'
#!/bin/sh
[ "$(basename "$PWD")" = trt-workbench ] || exit 9
echo "pixi $*" >>"$LOG"
shift && exec {sys.executable} {ROOT}/tasks/run --no-pixi --dry-run "$@"
PIXI
chmod +x "$HOME/.pixi/bin/pixi"
INSTALLER""",
}


def commands() -> list[str]:
    """The lines that run something in an environment of pixi."""
    lines = [line for kind, _, body in FENCE.findall(PAGE) if kind == "sh" for line in body.splitlines()]
    return [line.partition("#")[0].strip() for line in lines if line.startswith("pixi run")]


def test_the_page_is_followed_in_one_shell(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (tmp_path / "trt-workbench").mkdir()  # the clone
    for name, body in STAND_INS.items():
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)
    script = "".join(body for kind, _, body in FENCE.findall(PAGE) if kind == "sh")
    variables = {"HOME": str(tmp_path), "PATH": f"{programs}:/usr/bin:/bin", "LOG": str(tmp_path / "log")}
    hidden = {"CONDA_OVERRIDE_CUDA": "13.0", "CONDA_OVERRIDE_CUDA_ARCH": "12.0"}
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=tmp_path,
        env=variables | hidden,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    log = (tmp_path / "log").read_text().splitlines()
    assert [shlex.split(line) for line in log if line.startswith("pixi")] == [shlex.split(line) for line in commands()]
    assert "sudo ubuntu-drivers install nvidia:580-open" in log
    assert all(line.startswith("[rtx5090] ") for line in done.stdout.splitlines())
    without = script.replace('export PATH="$HOME/.pixi/bin:$PATH"', "")
    again = subprocess.run(["bash", "-e", "-c", without], cwd=tmp_path, env=variables, check=False)
    assert again.returncode == 127  # no pixi in this shell


@pytest.mark.parametrize("batch", [2, "N"])
def test_the_first_engine_is_built_of_a_model_of_fixed_batch_and_another_is_told_what_to_add(
    batch: int | str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "model.onnx", batch)
    own = [shlex.split(line)[4:] for line in commands() if "model.plan" in line]
    assert [one[0] for one in own] == [*QUICK]
    if batch == "N":
        assert "--max-batch N" in stderr_of(*own[0], *QUICK["build-engine"])
        own[0] += ["--max-batch", "8"]
    for words in own:
        stdout_of(*words, *QUICK[words[0]])


def test_the_table_of_cards_names_environments_that_hold_what_the_page_runs() -> None:
    rows = [line.split("|")[2].strip() for line in PAGE.splitlines() if line.startswith("| ")]
    assert {cell.strip("`").removeprefix("-e ") for cell in rows if "-e " in cell} == {"gpu", "h200", "rtx5090"}
    environments = load(ROOT)
    for name in ("gpu", "h200", "rtx5090"):
        assert {shlex.split(line)[4] for line in commands()} <= environments[name].tasks.keys()
        assert launcher.holds(name, "onnxruntime-gpu")


@pytest.mark.parametrize("page", ["README.md", "docs/guides/setup-tensorrt.md", "docs/guides/start.md"])
def test_pages_set_tensorrt_up_alike(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    steps = [line for line in text.splitlines() if line.startswith("pixi run -e ")]
    first = [shlex.split(line)[3:5] for line in steps[:2]]
    assert first == [["rtx5090", "setup-tensorrt"], ["rtx5090", "build-native"]]
