"""`trtw upgrade` as a program: stacks are Python environments, in one of which a fault of ONNX Runtime is planted."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from tests.conftest import DOUBLES
from tests.docker import docker
from tests.fork_server import ForkServer
from tests.in_app import stderr_of, stdout_of, trtw
from tests.onnx_text import write_onnx
from tests.texts import held

from benchmarks.upgrade.plant import PLANTED, plant
from trt_workbench.core.records import read_records

pytestmark = pytest.mark.usefixtures("blank_pictures")

_QUICK = ("--backend", "ort-cpu", "--quick", "--repetitions", "0")


@pytest.fixture(scope="module")
def stacks(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> Path:
    """Environments whose processes are forks."""
    folder = tmp_path_factory.mktemp("stacks")
    fork_server.python(folder / "old")
    fork_server.python(folder / "new", f"{PLANTED}\nimport onnxruntime; plant(onnxruntime)")
    return folder


@pytest.fixture(autouse=True)
def _quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns are short, and where a test does not ask for processes, this environment's are forks, too."""
    monkeypatch.setattr(
        "trt_workbench.upgrade.side._MEASURE",
        {"warmup_ms": 10.0, "duration_s": 0.05, "min_iterations": 10, "slices": 5},
    )
    if "own_processes" not in request.fixturenames:
        request.getfixturevalue("forked_python")


@pytest.fixture
def models(tmp_path: Path) -> Path:
    weights = {
        f"w{number}": np.random.default_rng(number).standard_normal((16, 16), np.float32) / 4 for number in range(3)
    }
    graphs = {
        "gate": "a = MatMul(x, w0) [act] b = Relu(a) c = MatMul(b, w1) [gate] d = Sigmoid(c) y = MatMul(d, w2)",
        "plain": "b = Relu(x) y = MatMul(b, w0)",
        "erf": "[lost] b = Erf(x) y = MatMul(b, w0)",
    }
    for name, nodes in graphs.items():
        write_onnx(tmp_path / f"{name}.onnx", f"g (float[N,16] x) => (float[N,16] y) {{ {nodes} }}", weights)
    return tmp_path


def document(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "upgrade.json").read_text())
    return found


@pytest.mark.long
def test_what_a_new_stack_breaks_is_found_and_reduced(stacks: Path, models: Path) -> None:
    run = models / "run"
    files = [models / f"{name}.onnx" for name in ("plain", "gate", "erf")]
    result = trtw("upgrade", *files, "--from", stacks / "old", "--to", stacks / "new", *_QUICK, "--output", run)
    assert result.exit_code == 1
    held(result.stdout)
    held(result.stderr[result.stderr.index("error:") :])
    plain, gate, erf = document(run)["models"]
    assert (plain["outcome"], gate["outcome"], erf["outcome"]) == ("safe", "wrong", "refused")
    assert (plain["before"]["verdict"], plain["after"]["verdict"]) == ("consistent", "consistent")
    assert gate["reduced"]["nodes"] == ["gate"]
    assert (run / gate["reduced"]["folder"] / "minimal.onnx").is_file()
    assert "lacks the operator" in erf["after"]["reason"]
    page = (run / "report.html").read_text()
    assert "Not safe: 2 of 3 models" in page
    assert page.count("Smallest wrong part: Sigmoid gate") == 1  # in the answer alone
    assert "gate: wrong</h2>" not in page
    assert ">None<" not in page
    assert "ms before" not in page  # nothing was timed


@pytest.mark.long(but=1)
@pytest.mark.parametrize("worse", [False, True])
def test_a_score_of_the_users_is_compared(stacks: Path, models: Path, *, worse: bool) -> None:
    """What it prints goes to the side's own folder, by which the function knows where it runs."""
    x = np.random.default_rng(5).standard_normal((400, 16), np.float32)
    session = ort.InferenceSession(models / "gate.onnx")
    truth = session.run(None, {"x": x})[0] + np.random.default_rng(6).standard_normal((400, 16)) / 50
    np.savez(models / "data.npz", x=x, truth=truth)
    (models / "s.py").write_text(
        "import os\ndef mine(outputs, target):\n"
        f"    worse = {worse} and '/after/' in os.readlink('/proc/self/fd/1')\n"
        "    return abs(outputs['y'] - target).mean() + 0.05 * worse\n"
    )
    run = models / "run"
    words = ("--data", models / "data.npz", "--score", models / "s.py:mine", "--better", "lower", "--max-loss", 0.02)
    sides = ("--from", stacks / "old", "--to", stacks / "old")
    result = trtw("upgrade", models / "gate.onnx", *sides, *_QUICK, *words, "--output", run)
    (found,) = document(run)["models"]
    assert not found["scored"]["reason"]
    before, after = found["scored"]["before"], found["scored"]["after"]
    assert (found["scored"]["name"], found["scored"]["images"]) == ("mine", 64)
    assert before["value"] == pytest.approx(0.016, rel=0.1)
    assert after["loss"] == pytest.approx(0.05 * worse)
    assert (result.exit_code, found["outcome"]) == ((1, "lower score") if worse else (0, "safe"))
    assert found["reasons"][0].startswith(f"mine {before['value']:.4f} before, {after['value']:.4f} after: loss ")
    if worse:
        return
    (models / "s.py").write_text((models / "s.py").read_text().replace("return ", "return 2 * "))
    trtw("upgrade", models / "gate.onnx", *sides, *_QUICK, *words, "--output", run)
    (again,) = document(run)["models"]  # another function is another score
    assert again["scored"]["before"]["value"] > 1.9 * before["value"]


@pytest.mark.long
def test_average_precision_is_compared_as_eval_coco_has_it(coco: Any, tmp_path: Path) -> None:
    data = ("--data", coco.images, "--annotations", coco.annotations)
    words = (coco.model, "--to", ".", *_QUICK, *data, "--score", "ap", "--max-loss", 0.02)
    result = trtw("upgrade", *words, "--output", tmp_path / "run")
    assert result.exit_code == 0, result.output
    (found,) = document(tmp_path / "run")["models"]
    assert coco.invoke().exit_code == 0
    alone = json.loads((coco.output / "metrics.json").read_text())
    assert (found["scored"]["name"], found["scored"]["images"]) == ("AP", alone["images"])
    assert found["scored"]["before"]["value"] == found["scored"]["after"]["value"] == alone["AP"]
    for title in ("score before", "score after"):
        assert title in result.stdout


@pytest.mark.long
def test_a_recorded_side_is_compared_later(stacks: Path, models: Path) -> None:
    gate, kept = models / "gate.onnx", models / "kept"
    said = stdout_of("upgrade", gate, "--from", stacks / "old", "--record", *_QUICK, "--output", kept)
    assert "Recorded 1 model" in said
    for stack, outcome in (("old", "safe"), ("new", "wrong")):
        run = models / f"run-{stack}"
        result = trtw("upgrade", gate, "--from", kept, "--to", stacks / stack, *_QUICK, "--output", run)
        assert (result.exit_code, document(run)["models"][0]["outcome"]) == (int(outcome == "wrong"), outcome)
        assert document(run)["same"]  # the versions are equal: what differs is planted
    (models / "other").mkdir()
    other = ("upgrade", models / "plain.onnx", "--from", kept, "--to", stacks / "old", *_QUICK)
    held(stderr_of(*other, code=2))
    shutil.copyfile(models / "plain.onnx", models / "other" / "gate.onnx")  # of the same name
    held(stderr_of("upgrade", models / "other" / "gate.onnx", "--from", kept, "--to", stacks / "old", *_QUICK, code=2))
    held(stderr_of("upgrade", gate, "--from", kept, "--to", stacks / "old", "--backend", "torch", code=2))


def test_a_record_that_is_damaged_is_bad_input_and_named(stacks: Path, models: Path) -> None:
    gate, kept = models / "gate.onnx", models / "kept"
    stdout_of("upgrade", gate, "--from", stacks / "old", "--record", *_QUICK, "--output", kept)
    arrays = min((kept / "before" / "gate" / "verify" / "reference").glob("*.npz"))
    arrays.write_bytes(arrays.read_bytes()[:100])
    held(stderr_of("upgrade", gate, "--from", kept, "--to", stacks / "new", *_QUICK, code=2))


@pytest.mark.long
def test_what_only_the_new_stack_takes_is_a_result_of_a_record_too(stacks: Path, models: Path) -> None:
    kept, run = models / "kept", models / "run"
    words = ("--from", stacks / "new", "--record", *_QUICK, "--output", kept)
    assert trtw("upgrade", models / "erf.onnx", *words).exit_code == 1
    words = ("--from", kept, "--to", stacks / "old", *_QUICK, "--output", run)
    assert "1 of them only the new stack takes." in stdout_of("upgrade", models / "erf.onnx", *words)
    (erf,) = document(run)["models"]
    assert (erf["outcome"], erf["before"]["verdict"], erf["after"]["verdict"]) == ("safe", None, "consistent")
    assert erf["reasons"][0].startswith("Only the new stack takes it; the old one: ")


def container(folder: Path, *options: object, does: str = "") -> str:
    """Return the command of a container that sees the folder, and does something before it runs Python."""
    return docker(folder, "-v", f"{folder}:{folder}", *options, image=does)


def test_a_stack_that_starts_no_more_refuses_nothing(models: Path) -> None:
    gone = models / "gone"
    does = f"[ -e {gone} ] && {{ echo 'docker: no daemon.' >&2; echo 'See docker run --help' >&2; exit 125; }}"
    run = models / "run"
    words = ("--to", container(models, does=f"{does}\ntouch {gone}"), *_QUICK, "--output", run)
    result = trtw("upgrade", models / "plain.onnx", *words)
    assert result.exit_code == 3
    assert "docker: no daemon. See docker run --help" in result.stderr
    (plain,) = document(run)["models"]
    assert (plain["outcome"], plain["before"]["verdict"], plain["after"]["started"]) == ("not run", "consistent", False)
    assert "refused" not in result.stdout + (run / "report.html").read_text()


@pytest.mark.long
def test_another_version_of_this_program_in_a_container_refuses_nothing(models: Path) -> None:
    """It lacks an option, as an older one may."""
    run, other = models / "run", 'case "$*" in *verify*) set -- "$@" --later-option ;; esac'
    result = trtw("upgrade", models / "plain.onnx", "--to", container(models, does=other), *_QUICK, "--output", run)
    assert result.exit_code == 3
    held(result.stderr[result.stderr.index("error:") :])
    assert document(run)["models"][0]["outcome"] == "not run"


def test_a_container_without_the_folder_of_the_models_is_bad_input(models: Path) -> None:
    (models / "run").mkdir()
    words = ("--to", docker(models, "-v", f"{models}/run:{models}/run"), *_QUICK, "--output", models / "run" / "it")
    held(stderr_of("upgrade", models / "plain.onnx", *words, code=2))


@pytest.mark.long
def test_what_crashed_in_the_old_stack_alone_is_corrected_by_the_new_one(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorRT is a double, whose device fails in one stack; nothing of its run is there to compare with."""
    monkeypatch.setenv("PYTHONPATH", str(DOUBLES), prepend=os.pathsep)
    monkeypatch.setenv("TRTW_TMP", str(models / "out"))
    run = models / "run"
    old = container(models, "-e", f"PYTHONPATH={DOUBLES}", "-e", "TRTW_DOUBLE_FAULT=crash")
    words = ("--from", old, "--to", ".", "--quick", "--repetitions", "0", "--output", run)
    stdout_of("upgrade", models / "plain.onnx", *words)
    (plain,) = document(run)["models"]
    assert (plain["before"]["verdict"], plain["after"]["verdict"]) == ("wrong", "right")
    assert plain["reasons"][0].startswith("The new stack corrects it; the old one: N=1, output all")
    empty = run / "before" / "plain" / "verify"
    held(stderr_of("verify", models / "plain.onnx", "--backend", "ort-cpu", "--reference", empty, code=2))


@pytest.mark.long
def test_paths_are_the_same_in_any_current_folder(stacks: Path, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(models)
    np.save("x.npy", np.ones((4, 16), np.float32))
    new = container(models)
    words = ("--inputs", "x=x.npy", "--to", new, *_QUICK, "--bisect-seconds", "0")
    run = models / "run"
    stdout_of("upgrade", "plain.onnx", "--from", stacks / "old", *words, "--output", run)
    assert document(run)["models"][0]["outcome"] == "safe"
    by_hand = ("--reference", "run/before/plain/verify", "--stack", new, "--backend", "ort-cpu", "--quick")
    stdout_of("verify", "plain.onnx", *by_hand, "--output", "out")


@pytest.mark.long
@pytest.mark.usefixtures("own_processes")
def test_this_environment_is_the_new_stack_where_the_old_one_is_another(models: Path) -> None:
    """In a process of the old stack "." would be the old one, which is then compared with itself."""
    run, planted = models / "run", models / "planted"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", planted], check=True)
    plant(planted)
    words = ("--from", planted, "--to", ".", *_QUICK, "--bisect-seconds", "0", "--output", run)
    trtw("upgrade", models / "gate.onnx", *words)
    assert document(run)["models"][0]["outcome"] == "wrong"  # the fault is in what the old stack computed


@pytest.mark.long
def test_a_scheduled_job_has_a_history(stacks: Path, models: Path) -> None:
    """The commands of the guide: a release is recorded once, a night is compared with it, and report draws both."""
    nightly, words = models / "nightly", ("--backend", "ort-cpu", "--quick", "--repetitions", "1")
    release = nightly / "release"
    stdout_of("upgrade", models / "plain.onnx", "--from", stacks / "old", "--record", *words, "--output", release)
    tonight = ("--from", release, "--to", stacks / "old", "--tolerance", "9")
    stdout_of("upgrade", models / "plain.onnx", *tonight, *words, "--output", nightly / "2026-11-26")
    stdout_of("report", nightly)
    history = json.loads((nightly / "history.json").read_text())
    points = {one["figure"]: [point["run_id"] for point in one["points"]] for one in history["series"]}
    assert set(points) == {"latency", "throughput"}
    assert len(points["latency"]) == 2
    assert history["series"][0]["subject"].startswith("plain / upgrade / ")


def test_what_neither_stack_takes_is_not_safe(stacks: Path, models: Path) -> None:
    run = models / "run"
    result = trtw(
        "upgrade", models / "erf.onnx", "--from", stacks / "new", "--to", stacks / "new", *_QUICK, "--output", run
    )
    assert result.exit_code == 1
    assert document(run)["models"][0]["outcome"] == "refused by both"
    assert "Not safe: 1 of 1 model" in result.stdout


@pytest.mark.long
def test_several_builds_of_two_sides_that_differ_in_options(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorRT is a double; of one option with a list the whole list is the value, and nothing is swept."""
    monkeypatch.setenv("PYTHONPATH", str(DOUBLES), prepend=os.pathsep)
    monkeypatch.setenv("TRTW_TMP", str(models / "out"))
    monkeypatch.setenv("TRTW_DOUBLE_BUILDS", "1.2,1.0")
    monkeypatch.setenv("TRTW_DOUBLE_LOG", str(models / "log"))
    run = models / "run"
    options = ("--to-option", "optimization_level=5", "--option", 'tactic_sources=["-CUBLAS","-CUDNN"]')
    words = ("--to", ".", "--quick", "--builds", "2", "--repetitions", "1", *options, "--output", run)
    result = trtw("upgrade", models / "plain.onnx", *words)
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "Their versions are the same; their options differ:" in said
    found = document(run)
    assert not found["same"]
    timed = found["models"][0]["timed"]
    assert timed["before_ms"] > 0
    assert timed["ratio"] == pytest.approx(timed["after_ms"] / timed["before_ms"], rel=0.5)
    for side in ("before", "after"):
        assert len(list((run / side / "plain").glob("turn-*/records.jsonl"))) == 2
    asked = {"tactic_sources": ["-CUBLAS", "-CUDNN"]}
    assert (found["before"]["options"], found["after"]["options"]) == (asked, {**asked, "optimization_level": 5})
    groups = json.loads((run / "builds.json").read_text())["groups"]
    assert [one["label"] for one in groups] == ["plain, before", "plain, after"]
    for group in groups:
        assert len({one["engine_sha256"] for one in group["builds"]["builds"]}) == 2
        assert [one["verdict"] for one in group["builds"]["builds"]] == ["right"] * 2
        assert [layer["differs"] for layer in group["layers"]] == ["tactic"]
    turns = [read_records(run / "after" / "plain" / f"turn-{turn}" / "records.jsonl") for turn in range(2)]
    for side in ("before", "after"):  # each build is verified as it is timed
        for number, part in ((1, "verify"), (2, "verify-2")):
            verified = json.loads((run / side / "plain" / part / "verify.json").read_text())
            assert verified["provenance"]["manifest"]["options"]["build_number"] == number
    built = [one.provenance["manifest"]["options"] for each in turns for one in each]
    assert [(one["build_number"], one["optimization_level"]) for one in built] == [(1, 5), (2, 5)]
    assert built[0]["tactic_sources"] == ["-cublas", "-cudnn"]
    assert "Several builds: plain, after" in (run / "report.html").read_text()


@pytest.mark.parametrize(
    "words",
    [
        ("plain.onnx", "--to", "nowhere"),
        ("plain.onnx", "--to", "empty"),
        ("plain.onnx", "--to", "broken"),
        ("plain.onnx", "--to", "no-such-program image"),
        ("plain.onnx", "--to", ".", "--record"),
        ("plain.onnx",),
        ("plain.onnx", "plain.onnx", "--to", "."),
        ("absent.onnx", "--to", "."),
        ("plain.onnx", "--to", ".", "--backend", "nonsense"),
        ("plain.onnx", "--to", ".", "--builds", "3"),
        ("plain.onnx", "--to", ".", "--data", "nowhere"),
        ("plain.onnx", "--to", ".", "--score", "s.py:mine"),
        ("plain.onnx", "--to", ".", "--data", ".", "--score", "cosine"),
        ("plain.onnx", "--to", ".", "--data", ".", "--score", "s.py:mine"),
    ],
)
def test_what_cannot_be_compared_is_said(models: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(models)
    monkeypatch.setenv("PATH", os.defpath)  # a folder there that may not be read would be another reason
    (models / "empty").mkdir()
    (models / "broken" / "bin").mkdir(parents=True)
    python = models / "broken" / "bin" / "python"
    python.write_text("#!/bin/sh\necho no such library >&2\nexit 3\n")
    python.chmod(0o755)
    result = trtw("upgrade", *words, *(() if "--backend" in words else ("--backend", "ort-cpu")), "--output", "run")
    assert result.exit_code in (2, 3)
    held(result.stderr[result.stderr.index("error:") :])
    assert not (models / "run").exists()
