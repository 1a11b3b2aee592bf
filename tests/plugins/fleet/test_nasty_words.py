"""Whatever is typed in RUN.yaml reaches trtw on a node as it was typed, through every scheduler's file."""

import ast
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from trt_workbench_fleet.array import JobArray
from trt_workbench_fleet.document import RunFile
from trt_workbench_fleet.kubernetes import JOB, Kubernetes
from trt_workbench_fleet.local import SCRIPT, Local, _command
from trt_workbench_fleet.ray import PROGRAM, Ray
from trt_workbench_fleet.slurm import SCRIPT as SBATCH
from trt_workbench_fleet.slurm import Slurm

hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")

# What means something to a shell, YAML, Kubernetes, Slurm, Jinja or Python.
NASTY = (
    "$$", "$(JOB_COMPLETIONS)", "$$(X)", "$(X", "$", "${X}", "`id`", "{{x}}", "{% if x %}", "{#", '"""',
    "'''", "\\", "\\n", "a\nb", "\n", "\r\n", "\t", " ", "\u2028", "\x85", "\x07", "# x", ": ", "- ", "yes",
    "1e3", "0o17", "~", "%a", "%%", "\n#SBATCH --wrap=x", "\nEOF\n", "'; exit 9; '", "é", "|", "&", "-", "=",
    "!", "*",
)  # fmt: skip
CHARACTERS = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
WORDS = st.lists(st.sampled_from(NASTY) | st.text(CHARACTERS, max_size=3), min_size=1, max_size=4).map("".join)
# A line of shell has no line break of any kind, and no control character but a tab.
LINES = WORDS.map(lambda word: re.sub("[\0-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]", "", word))
# It adds its number of words, a variable and the words to a file.
STUB = """#!/bin/bash
printf '%s\\0' "$#" "$MARK" "$@" >> "$(dirname "$0")/said"
"""


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """Return what Kubernetes makes of `$$` and `$(NAME)` in command and args."""
    return re.sub(
        r"\$(\$|\(([^)]*)\))?",
        lambda found: "$" if found[1] in ("$", None) else variables.get(found[2], found[0]),
        text,
    )


def by_slurm(array: JobArray) -> None:
    (array.folder / SBATCH).write_text(Slurm().files(array)[SBATCH], encoding="utf-8")
    run(["bash", str(array.folder / SBATCH)], SLURM_ARRAY_TASK_ID="0", SLURMD_NODENAME="n1")


def by_kubernetes(array: JobArray) -> None:
    (container,) = yaml.safe_load(Kubernetes().files(array)[JOB])["spec"]["template"]["spec"]["containers"]
    variables = {one["name"]: one["value"] for one in container["env"]}
    words = [expanded(word, variables) for word in (*container["command"], *container["args"])]
    run(words, **variables, JOB_COMPLETION_INDEX="0")


def by_ray(array: JobArray) -> None:
    tree = ast.parse(Ray().files(array)[PROGRAM])
    found = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id != "CPUS"
    }
    for command in (found["CHECK"], [*found["WORK"], "--shard", "0/1", "--output", f"{found['FOLDER']}/shard-0"]):
        run(["bash", "-euc", found["SETUP"] + '\nexec "$@"', "bash", *command])


def by_local_script(array: JobArray) -> None:
    (array.folder / SCRIPT).write_text(Local().files(array)[SCRIPT], encoding="utf-8")
    run(["bash", str(array.folder / SCRIPT)])


def by_local(array: JobArray) -> None:
    run(_command(array, 0))


WRITERS: tuple[Callable[[JobArray], None], ...] = (by_slurm, by_kubernetes, by_ray, by_local_script, by_local)


def run(words: list[str], **variables: str) -> None:
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **variables}
    done = subprocess.run(words, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def said(folder: Path) -> list[tuple[str, list[str]]]:
    """Return the variable and the words of each start of the stub, and forget them."""
    file = folder / "said"
    words = file.read_bytes().decode().split("\0")[:-1] if file.exists() else []
    file.unlink(missing_ok=True)
    found = []
    while words:
        count, mark, *words = words
        found.append((mark, words[: int(count)]))
        words = words[int(count) :]
    return found


def with_stub(path: Path) -> Path:
    """Put the stub into a folder of a run, and return the folder."""
    (path / "stub").write_text(STUB)
    (path / "stub").chmod(0o755)
    (path / "logs").mkdir()
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_stub(tmp_path_factory.mktemp("nasty"))


def array_of(folder: Path, words: list[str], line: str, **changes: Any) -> JobArray:
    document = {
        "name": "nasty", "command": "verify", "model": words[0], "arguments": words[1:], "shards": 1, "folder": folder,
        "program": [str(folder / "stub")], "setup": [f"  export MARK={shlex.quote(line)} # yes: it is", "cat <<X", "X"],
        "kubernetes": {"image": "reg.example/x:1", "claim": "shared"},
    }  # fmt: skip
    return JobArray(RunFile.model_validate({**document, **changes}), None)


@pytest.mark.parametrize("write", WRITERS, ids=lambda one: one.__name__)
def test_words_arrive_as_they_were_typed(write: Callable[[JobArray], None], folder: Path) -> None:
    @hypothesis.settings(max_examples=15)
    @hypothesis.example(["$$ $(JOB_COMPLETIONS) {{x}}", "a\n  b\n", "\u2028\x85"], "$$ $(JOB_COMPLETIONS) {{x}}")
    @hypothesis.given(
        st.lists(WORDS.filter(lambda word: word and not word.startswith("-")), min_size=1, max_size=3), LINES
    )
    def arrives(words: list[str], line: str) -> None:
        array = array_of(folder, words, line)
        said(folder)
        write(array)
        check, work = said(folder)
        assert check == (line, ["submit", str(folder / "run.yaml"), "--check-node"])
        shard = "auto" if write is by_kubernetes else "0/1"
        assert work == (line, ["verify", *words, "--shard", shard, "--output", str(folder / "shard-0")])

    arrives()


@pytest.mark.readers
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("name", ["yes", "y", "on", "null", "12", "1e3", "0o17", "0x1", "1-2"])
def test_kubectl_reads_what_was_meant(name: str, folder: Path, tmp_path: Path) -> None:
    """Its reader of YAML is another one: names may be numbers or truth values to it."""
    whole = {"cpu": "1e3", "nvidia.com/gpu": "8"}
    own = {"image": f"{name}/{name}:1e3", "claim": name, "queue": name, "namespace": name, "whole_node": whole}
    words = ["$$ $(X)", "a\n  b\n", "\u2028\x07", "\ttab ", name]  # it writes U+0085 as it is, which PyYAML folds
    array = array_of(folder, words, name, kubernetes=own, alone=True, name=name)
    (tmp_path / JOB).write_text(Kubernetes().files(array)[JOB], encoding="utf-8")
    (tmp_path / "kustomization.yaml").write_text(f"resources: [{JOB}]\n")
    read = subprocess.run(["kubectl", "kustomize", tmp_path], capture_output=True, text=True, check=True).stdout
    assert yaml.safe_load(read) == yaml.safe_load((tmp_path / JOB).read_text(encoding="utf-8"))
