"""`trtw profile` as a command: ONNX Runtime for real, TensorRT on the double of the native core."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from tests.in_app import json_of, stderr_of, stdout_of, trtw
from tests.onnx_text import write_onnx
from tests.texts import held

pytestmark = pytest.mark.usefixtures("blank_pictures")

DOUBLES = Path(__file__).parents[1] / "doubles"
SHARED = Path(os.environ.get("TRTW_SHARED", Path(__file__).parents[3] / "shared"))


def write_model(path: Path, batch: int | str = 2, *, casts: bool = False) -> Path:
    """total = (x + y) * 2, the sum in double if `casts`."""
    nodes = "[add] sum = Add(x, y)"
    if casts:
        nodes = "[widen_x] x_wide = Cast<to=11>(x) [widen_y] y_wide = Cast<to=11>(y) [add] wide = Add(x_wide, y_wide)"
        nodes += " [narrow] sum = Cast<to=1>(wide)"
    kind, nodes = f"float[{batch},3]", f"{nodes} [double] total = Mul(sum, two)"
    text = f"g ({kind} x, {kind} y) => ({kind} total) {{ {nodes} }}"
    return write_onnx(path, text, {"two": np.array(2, np.float32)})


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model.onnx")


@pytest.fixture(autouse=True)
def _own_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))


def profiled(*words: object) -> Any:
    """Profile on ONNX Runtime's CPU provider and return what --json prints."""
    return json_of("profile", *words, "--backend", "ort-cpu", "--iterations", 3)


def test_a_dimension_without_a_size_is_named_as_the_model_names_it(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", "g (float[batch,steps,4] x) => (float[batch,steps,4] y) { y = Abs(x) }")
    held(stderr_of("profile", path, "--backend", "ort-cpu"))
    held(stderr_of("infer-engine", path, "--backend", "ort-cpu"))


def test_an_input_that_cannot_be_drawn_is_not_asked_for(tmp_path: Path) -> None:
    """profile takes no arrays, and quantize takes samples."""
    text = "g (string[2] s, float[2,3] x) => (string[2] t, float[2,4] y) { t = Identity(s) y = MatMul(x, w) }"
    path = write_onnx(tmp_path / "m.onnx", text, {"w": np.ones((3, 4), np.float32)})
    held(stderr_of("profile", path, "--backend", "ort-cpu"))
    words = ("quantize", path, "--to", "int8", "--calibration", "random", "-o", tmp_path / "q.onnx")
    held(stderr_of(*words))


def test_weights_outside_the_file_are_part_of_the_models_hash(model: Path) -> None:
    document = onnx.load(model)
    document.graph.initializer[0].raw_data = np.array(2, np.float32).tobytes()
    onnx.save(document, model, save_as_external_data=True, location="weights.data", size_threshold=0)
    own, before = model.read_bytes(), profiled(model)["sides"]["target"]["sha256"]
    model.with_name("weights.data").write_bytes(np.array(3, np.float32).tobytes())
    assert model.read_bytes() == own
    assert profiled(model)["sides"]["target"]["sha256"] != before


def test_a_model_on_the_cpu_leaves_a_whole_run_directory(model: Path, tmp_path: Path) -> None:
    document = profiled(model)
    directory = Path(document["directory"])
    assert directory.parent == tmp_path / "out" / "profile"
    assert {path.name for path in directory.iterdir()} == {
        "captures", "env.json", "records.jsonl", "report.html", "run.json",
    }  # fmt: skip
    operations = document["sides"]["target"]["operations"]
    assert [(one["name"], one["operator"], one["provider"]) for one in operations] == [
        ("add", "Add", "CPUExecutionProvider"),
        ("double", "Mul", "CPUExecutionProvider"),
    ]
    lines = (directory / "records.jsonl").read_text().splitlines()
    assert [json.loads(line)["schema_version"] for line in lines] == [1, 1]
    run = json.loads((directory / "run.json").read_text())
    assert (run["command"], run["status"]) == ("profile", "complete")
    assert run["sides"]["target"]["own_ms"] > 0


def test_two_models_are_compared_node_by_node_and_casts_are_named(model: Path, tmp_path: Path) -> None:
    other = write_model(tmp_path / "casts.onnx", casts=True)
    document = profiled(model, "--against", other)
    groups = {tuple(group["onnx_nodes"]): group for group in document["difference"]}
    assert groups[("add",)]["only_in"] is None
    assert {nodes[0] for nodes, group in groups.items() if group["roles"] == ["cast"]} == {
        "widen_x", "widen_y", "narrow",
    }  # fmt: skip
    assert groups[("narrow",)]["only_in"] == "against"
    report = (Path(document["directory"]) / "report.html").read_text()
    for text in ("Differences", "widen_x", "casts.onnx", "By role"):
        assert text in report
    answer, facts = document["answer"], document["sides"]["target"]
    assert answer["target"]["median"] == facts["own_ms"]
    assert facts["own_interval_ms"][0] <= facts["own_ms"] <= facts["own_interval_ms"][1]
    assert facts["profiled_interval_coverage"] in (0.75, 0.9375, 0.96875)  # of three runs, at least
    assert any("cast: 0" in sentence and "against 3" in sentence for sentence in document["summary"])


def test_an_earlier_run_can_be_compared_with(model: Path, tmp_path: Path) -> None:
    before = profiled(model)
    document = profiled(model, "--against", before["directory"], "--output", tmp_path / "second")
    assert document["sides"]["against"]["run"] == before["directory"]
    assert [one["name"] for one in document["sides"]["against"]["operations"]] == ["add", "double"]
    stdout_of("report", tmp_path / "second")
    assert document["answer"] is not None
    file = Path(before["directory"]) / "env.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "cpu": {"model": "another"}}))
    elsewhere = profiled(model, "--against", before["directory"])
    assert elsewhere["answer"] is None
    assert "from another machine (CPU: another against" in elsewhere["summary"][0]


def test_tables_are_printed_for_people(model: Path) -> None:
    printed = stdout_of("profile", model, "--backend", "ort-cpu", "--iterations", 2)
    for text in ("the longest nodes", "add", "Nodes by provider: CPUExecutionProvider 2", "report.html"):
        assert text in printed


def test_dynamic_dimensions_need_a_shape(tmp_path: Path) -> None:
    document = profiled(write_model(tmp_path / "batch.onnx", "N"), "--shape", "x:4x3", "--shape", "y:4x3")
    assert document["sides"]["target"]["inputs"] == {"x": [4, 3], "y": [4, 3]}
    path = write_onnx(tmp_path / "length.onnx", "g (float[1,length] x) => (float[1,length] y) { y = Neg(x) }")
    held(stderr_of("profile", path, "--backend", "ort-cpu"))


def test_an_output_that_numpy_does_not_have_is_refused(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "half.onnx", "g (float[1,3] x) => (bfloat16[1,3] y) { y = Cast<to=16>(x) }")

    held(stderr_of("profile", path, "--backend", "ort-cpu"))


@pytest.mark.long
@pytest.mark.skipif(not (SHARED / "models").is_dir(), reason="the shared models are not there (TRTW_SHARED)")
def test_every_node_of_a_real_detector_is_traced_to_the_model() -> None:
    document = profiled(SHARED / "models" / "yolox_nano.onnx")
    operations = document["sides"]["target"]["operations"]
    unknown = {one["operator"] for one in operations if not one["onnx_nodes"]}
    assert unknown <= {"ReorderInput", "ReorderOutput"}
    assert len(operations) > 200
    assert any(one["operator"] == "Conv" and len(one["onnx_nodes"]) > 1 for one in operations)
    # medians, which a machine that stalls for a moment leaves alone
    assert 0 < sum(one["median_ms"] for one in operations) <= document["sides"]["target"]["profiled_ms"] * 1.5


@pytest.mark.parametrize(
    "words",
    [
        ["absent.onnx"],
        ["{model}", "--against", "absent.plan"],
        ["{model}", "--against", "fp16"],
        ["{model}", "--backend", "nothing"],
        ["{model}", "--shape", "z:1x3"],
        ["{model}", "--shape", "x:9x9"],
        ["{model}", "--backend", "torch"],
        ["{model}", "--profile", "1"],
        ["{model}", "--trust"],
        ["{model}", "--device", "1"],
        ["{model}", "--launches", "5"],
        ["{model}", "--timeout", "5"],
        ["{plan}", "--backend", "ort-cpu"],
        ["{model}", "--against", "{folder}"],
        ["{broken}"],
    ],
)
def test_what_cannot_be_profiled_is_refused_in_one_paragraph(words: list[str], model: Path, tmp_path: Path) -> None:
    if "torch" in words:
        pytest.importorskip("torch")
    plan, folder, broken = tmp_path / "m.plan", tmp_path / "folder", tmp_path / "broken.onnx"
    plan.write_bytes(b"plan")
    broken.write_bytes(b"\x08\x07garbage")
    folder.mkdir()
    filled = [word.format(model=model, plan=plan, folder=folder, broken=broken) for word in words]
    more = [] if "--backend" in words or plan.name in filled[0] else ["--backend", "ort-cpu"]
    said = stderr_of("profile", *filled, *more)
    held(said)
    assert len([line for line in said.splitlines() if line.startswith("error: ")]) == 1
    assert not list((tmp_path / "out").glob("profile/*"))


@pytest.mark.long
def test_times_beside_other_programs_are_unreliable(tmp_path: Path) -> None:
    size = 700  # long enough that its threads wait for a processor
    path = write_onnx(
        tmp_path / "m.onnx", f"g (float[{size},{size}] x) => (float[{size},{size}] y) {{ y = MatMul(x, x) }}"
    )
    burning = [sys.executable, "-c", "while True: pass"]
    programs = [subprocess.Popen(burning) for _ in range(2 * len(os.sched_getaffinity(0)))]
    try:
        facts = profiled(path)["sides"]["target"]
    finally:
        for one in programs:
            one.kill()
            one.wait()
    assert any(why.startswith("its threads waited for a CPU") for why in facts["unstable"])
    (directory,) = (tmp_path / "out" / "profile").iterdir()
    assert "are unreliable: its threads waited" in (directory / "report.html").read_text(encoding="utf-8")


def test_a_plan_without_its_runtime_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.plan").write_bytes(b"plan")
    assert "No backend can load .plan files here (trt: " in stderr_of("profile", tmp_path / "m.plan", code=3)


def test_a_precision_that_the_backend_cannot_do_is_refused_before_anything_runs(model: Path) -> None:
    assert "note: Profiling" not in stderr_of("profile", model, "--against", "fp16", "--backend", "ort-cpu")


@pytest.mark.parametrize("flag", ["--nsys", "--ncu"])
def test_a_missing_profiler_is_named_before_anything_runs(
    flag: str, model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from trt_workbench.profile import nsight

    monkeypatch.setattr(nsight.shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(nsight.Path, "glob", lambda *_: iter(()))
    said = stderr_of("profile", model, "--backend", "ort-cpu", flag, code=3)
    held(said)
    assert "note: Profiling" not in said
    assert not (tmp_path / "out" / "profile").exists()


# ONNX Runtime 1.31.1 on x86-64 crashes while it loads the one, docs/reference/known-faults.md.
CRASHES = """g (float16[4,3,2,4] x) => (float16[3,4,5] y) {
  r = Reshape(x, shape) t = Transpose<perm=[1,0,2]>(r) y = MatMul(t, w)
}"""


@pytest.mark.skipif((ort.__version__, platform.machine()) != ("1.31.1", "x86_64"), reason="another ONNX Runtime")
def test_a_crash_of_the_runtime_is_one_paragraph_and_leaves_nothing(tmp_path: Path) -> None:
    arrays = {"shape": np.array([0, 0, -1]), "w": np.ones((8, 5), np.float16)}
    path = write_onnx(tmp_path / "m.onnx", CRASHES, arrays)
    held(stderr_of("profile", path, "--backend", "ort-cpu", code=4))
    assert [one.name for one in (tmp_path / "out").rglob("*")] == ["profile"]


# ------------------------------------------------------------------------------- TensorRT, on the double of the core

NCU = f"""#!{sys.executable}
import subprocess, sys
arguments = sys.argv[1:]
code = subprocess.run(arguments[arguments.index({sys.executable!r}):]).returncode
rest = ":none" * 6
ranges = '71  ""<default domain>:submit' + rest + '"" ""TensorRT:total [layer]' + rest + '""'
column = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
with open(arguments[arguments.index("--log-file") + 1], "w") as log:
    log.write('==PROF== Connected to process 71\\n"ID","' + column + '","Kernel Name","gpu__time_duration.sum"\\n')
    log.write('"","","","ns"\\n"0","' + ranges + '","add_kernel","2,000"\\n')
sys.exit(code)
"""


@pytest.fixture
def doubled(doubled_core: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - it has to be there
    """Put the double of the native core into the processes that profile, too."""
    monkeypatch.setenv("PYTHONPATH", str(DOUBLES), prepend=os.pathsep)


@pytest.fixture
def plan(doubled: None, model: Path, tmp_path: Path) -> Path:  # noqa: ARG001 - it has to be there
    path = tmp_path / "model.plan"
    assert trtw("build-engine", model, "-o", path).exit_code == 0
    return path


def test_an_engine_is_profiled_layer_by_layer(plan: Path) -> None:
    facts = json_of("profile", plan, "--iterations", 4)["sides"]["target"]
    assert facts["backend"] == "trt"
    assert facts["own_ms"] == 1.0
    # the double's inspector tells one layer that is not timed, its profiler two that it does not tell
    named = {one["name"]: (one["median_ms"], one["share"]) for one in facts["operations"]}
    assert named == {"total [layer]": (None, None), "first": (1.0, 0.5), "b": (1.0, 0.5)}
    assert any("--profiling-verbosity detailed" in note for note in facts["notes"])


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Put an executable in the place of ncu, and return the file that tells when the timed region began and ended."""
    (tmp_path / "bin").mkdir()
    ncu = tmp_path / "bin" / "ncu"
    ncu.write_text(NCU)
    ncu.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ncu.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TRTW_DOUBLE_PROFILER", str(tmp_path / "profiler"))
    return tmp_path / "profiler"


def test_a_runtime_without_a_profiler_gives_its_kernels_alone(
    stand_in: Path,
    doubled: None,  # noqa: ARG001 - it has to be there
    model: Path,
) -> None:
    pytest.importorskip("torch")
    result = trtw("profile", model, "--backend", "torch", "--ncu", "--json")
    assert result.exit_code == 0, result.stderr
    assert stand_in.read_text() == "start\nstop\n"
    side = json.loads(result.stdout)["sides"]["target"]
    assert side["operations"] == []
    assert [(kernel["name"], kernel["layer"]) for kernel in side["kernels"]] == [("add_kernel", None)]


@pytest.mark.long
def test_an_engines_kernels_are_recorded_in_a_timed_region_of_a_process_of_their_own(
    plan: Path, stand_in: Path
) -> None:
    result = trtw("profile", plan, "--ncu", "--launches", 5, "--json")
    assert result.exit_code == 0, result.stderr
    assert stand_in.read_text() == "start\nstop\n"
    document = json.loads(result.stdout)
    (kernel,) = document["sides"]["target"]["kernels"]
    assert (kernel["name"], kernel["layer"], kernel["total_ms"]) == ("add_kernel", "total [layer]", 0.002)
    assert "--launch-count 5" in result.stderr.replace("\n", " ")
    captures = Path(document["directory"]) / "captures" / "target"
    assert {"request.json", "ncu.csv", "ncu.log"} <= {path.name for path in captures.iterdir()}
    printed = trtw("profile", plan, "--ncu", "--iterations", 2)
    assert "total [layer]" in printed.stdout  # brackets are part of the name, not markup
    assert "add_kernel" in (captures.parents[1] / "report.html").read_text()


def test_a_recording_without_kernels_is_an_error_that_names_the_kept_files(
    plan: Path, stand_in: Path, tmp_path: Path
) -> None:
    ncu = tmp_path / "bin" / "ncu"
    ncu.write_text(NCU.replace('log.write(\'"",', 'sys.exit(code)\n    log.write(\'"",'))
    said = stderr_of("profile", plan, "--ncu", "--output", tmp_path / "out" / "mine")
    assert stand_in.read_text() == "start\nstop\n"
    kept = tmp_path / "out" / "mine.captures" / "target"
    held(said)
    assert str(kept) in said.replace("\n", "")
    assert {"request.json", "ncu.csv", "ncu.log"} <= {path.name for path in kept.iterdir()}
    assert not (tmp_path / "out" / "mine").exists()


def test_a_model_is_built_in_two_precisions_and_compared(doubled: None, model: Path) -> None:  # noqa: ARG001
    sides = json_of("profile", model, "--backend", "trt", "--against", "fp16")["sides"]
    assert (sides["target"]["precision"], sides["against"]["precision"]) == ("fp32", "fp16")
    assert sides["target"]["plan"] != sides["against"]["plan"]
