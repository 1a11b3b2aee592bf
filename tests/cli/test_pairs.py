"""The same pair of arrays gets the same verdict from every command."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.in_app import json_of, stderr_of, trtw
from tests.onnx_text import write_onnx
from tests.pairs import PAIRS, contract, write_models
from tests.texts import held

from trt_workbench.core.errors import CheckFailed
from trt_workbench.core.records import read_records
from trt_workbench.model.opened import Model
from trt_workbench.sanitize.parity import ParityRequest, check_parity

pytestmark = pytest.mark.usefixtures("blank_pictures")

RIGHT = {name for name, pair in PAIRS.items() if pair.right}
WRONG = PAIRS.keys() - RIGHT


@pytest.fixture(autouse=True)
def pairs_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outside_backend: Callable[..., None]) -> None:
    outside_backend("pairs", "tests.pairs:PairsBackend", Path(__file__).parents[2])
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))


def write_contract(model: Path) -> Path:
    path = model.with_suffix(".contract.json")
    path.write_text(json.dumps(contract(model)))
    return path


def judged(of_output: dict[str, bool]) -> tuple[set[str], set[str]]:
    """Names of what was accepted and of what was not, of the pairs alone."""
    assert of_output.keys() >= PAIRS.keys()
    right = {name for name in PAIRS if of_output[name]}
    return right, PAIRS.keys() - right


@pytest.mark.long
def test_verify(tmp_path: Path) -> None:
    words = ("--backend", "pairs", "--reference", "ort-cpu", "--quick")
    found = json_of("verify", write_models(tmp_path), *words, code=1)
    verdicts: dict[str, set[str]] = {}
    for case in found["cases"]:
        for row in case["outputs"]:
            verdicts.setdefault(row["output"], set()).add(row["verdict"])
    assert {frozenset(one) for one in verdicts.values()} == {frozenset({"right"}), frozenset({"wrong"})}
    assert judged({name: one == {"right"} for name, one in verdicts.items()}) == (RIGHT, WRONG)
    assert trtw("verify", write_models(tmp_path, "right", right=True), *words).exit_code == 0


def test_eval_stream(tmp_path: Path) -> None:
    words = ("--backend", "pairs", "--reference", "ort-cpu", "--chunks", 6, "--mode", "functional")
    model = write_models(tmp_path)
    found = json_of("eval-stream", model, "--contract", write_contract(model), *words, code=1)
    (lane,) = found["lanes"]
    limits = {gate["gate"]: gate["limit"] for gate in lane["gates"]}
    assert {gate["gate"] for gate in lane["gates"] if gate["verdict"] == "failed"} >= {"rel_l2_max", "integers"}
    worst = {name: np.inf if one["rel_l2_max"] is None else one["rel_l2_max"] for name, one in lane["tensors"].items()}
    assert judged(
        {
            name: not one["unequal_chunks"] if one["kind"] == "integer" else worst[name] <= limits["rel_l2_max"]
            for name, one in lane["tensors"].items()
        }
    ) == (RIGHT, WRONG)
    model = write_models(tmp_path, "right", right=True, without=["empty"])  # of which nothing is compared
    assert trtw("eval-stream", model, "--contract", write_contract(model), *words).exit_code == 0


def test_check_contract(tmp_path: Path) -> None:
    """Calls of it are compared with one another: half of them give the first of each pair, half the second."""
    words = ("--backend", "pairs", "--option", "half=true", "--chunks", 5)
    turned = ["nearly_zeros"]  # 0 beside a reference of 1e-12 is wrong
    model = write_models(tmp_path, without=turned)
    found = json_of("check-contract", write_contract(model), model, *words, code=1)
    (reset,) = (check for check in found["checks"] if check["name"] == "reset")
    assert {one["tensor"] for one in reset["findings"]} <= WRONG
    assert reset["findings_left_out"] == 5 * len(WRONG) - len(reset["findings"])
    model = write_models(tmp_path, "right", right=True, without=turned)
    assert trtw("check-contract", write_contract(model), model, *words).exit_code == 0


def test_bench(tmp_path: Path) -> None:
    config, every, right = tmp_path / "bench.yaml", write_models(tmp_path), write_models(tmp_path, "right", right=True)
    config.write_text(
        "repetitions: 2\nmeasure: {warmup_ms: 1, duration_s: 0.02, min_iterations: 2, slices: 2}\n"
        f"models: {{m: {{path: {every}}}, r: {{path: {right}}}}}\n"
        "runtimes: [{backend: pairs}]\nscenarios: {arrays: {kind: arrays}}\n"
    )
    assert trtw("bench", config, "--output", tmp_path / "run").exit_code == 1
    states = {}
    for record in read_records(tmp_path / "run" / "records.jsonl"):
        states[record.model] = record.outputs
    assert states["r"]["state"] == "matched", states["r"]["reason"]
    assert states["m"]["state"] == "wrong"
    reasons = {text.split()[0] for text in states["m"]["reason"].split("; ")}
    assert judged({name: name not in reasons for name in states["m"]["tensors"]}) == (RIGHT, WRONG)


def test_infer_engine(tmp_path: Path) -> None:
    expected = tmp_path / "expected"
    expected.mkdir()
    for name, pair in PAIRS.items():
        np.save(expected / f"{name}.npy", pair.expected)
    given = {name: np.zeros((1, 4), np.float32) for name in ("x", "s", "z", "s_next")}
    for name in ("z", "s_next"):
        np.save(expected / f"{name}.npy", given[name])
    np.savez(tmp_path / "given.npz", x=given["x"], s=given["s"])
    words = ("--backend", "pairs", "--input", tmp_path / "given.npz", "--no-bench", "--expect", expected)
    found = json_of("infer-engine", write_models(tmp_path), *words, code=1)
    assert judged({name: one["passed"] for name, one in found["outputs"].items()}) == (RIGHT, WRONG)
    model = write_models(tmp_path, "right", right=True)
    assert trtw("infer-engine", model, *words).exit_code == 0


@pytest.mark.long
def test_sanitize_onnx(tmp_path: Path) -> None:
    after = {}
    for name in PAIRS:
        before = tmp_path / f"{name}.onnx"
        for kind in ("", ".found"):
            made = onnx.load(write_models(tmp_path).with_name(f"pairs{kind}.onnx"))
            outputs = [value for value in made.graph.output if value.name == name]
            del made.graph.output[:]
            made.graph.output.extend(outputs)
            onnx.save(made, before.with_suffix(f"{kind}.onnx"))
        with suppress(CheckFailed):
            after[name] = False
            check_parity(Model.open(before), onnx.load(before.with_suffix(".found.onnx")), ParityRequest())
            after[name] = True
    assert judged(after) == (RIGHT, WRONG)


@pytest.fixture
def dropout(tmp_path: Path) -> Path:
    """Dropout in training mode, with a state beside it."""
    return write_onnx(
        tmp_path / "dropout.onnx",
        "g (float[1,4] x, float[1,4] s) => (float[1,4] z, float[1,4] s_next) "
        "{ z = Dropout(x, ratio, mode) s_next = Add(s, x) }",
        {"ratio": np.float32(0.5), "mode": np.array(True)},
    )


@pytest.mark.parametrize(
    "command", ["verify", "eval-stream", "check-contract", "bench", "infer-engine", "sanitize-onnx", "decide"]
)
def test_a_model_that_is_random_by_design_is_refused(dropout: Path, tmp_path: Path, command: str) -> None:
    (tmp_path / "expected").mkdir()
    bench = tmp_path / "bench.yaml"
    text = (
        "repetitions: 2\nmeasure: {warmup_ms: 1, duration_s: 0.02, min_iterations: 2, slices: 2}\n"
        f"models: {{m: {{path: {dropout}}}}}\nruntimes: [{{backend: ort-cpu}}]\n"
        "scenarios: {arrays: {kind: arrays}}\n"
    )
    bench.write_text(text)
    data = tmp_path / "data.npz"
    np.savez(data, x=np.ones((8, 4), np.float32), s=np.ones((8, 4), np.float32))
    words = {
        "verify": (dropout, "--quick", "--backend", "ort-cpu"),
        "eval-stream": (dropout, "--contract", write_contract(dropout), "--backend", "ort-cpu"),
        "check-contract": (write_contract(dropout), dropout, "--backend", "ort-cpu"),
        "bench": (bench,),
        "infer-engine": (dropout, "--backend", "ort-cpu", "--expect", tmp_path / "expected"),
        "sanitize-onnx": (dropout, "-o", tmp_path / "out.onnx"),
        "decide": (dropout, "--data", data, "--calibration", data, "--precisions", "fp32", "--max-loss", 0.1),
    }  # fmt: skip
    said = stderr_of(command, *words[command])
    held(said)
    if command == "bench":
        bench.write_text(f"compare_outputs: false\n{text}")
        assert trtw("bench", bench).exit_code == 0
    if command == "sanitize-onnx":
        held(said)
        assert trtw(command, *words[command], "--no-check").exit_code == 0
