"""A fault in a graph is found to the nodes that make it, and the part that is written out shows it by itself."""

import itertools
import json
import runpy
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from tests.attention_model import attention_model
from tests.graph_fault_backend import GraphFaultBackend
from tests.texts import held, refused

from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.core import work
from trt_workbench.core.errors import DeviceFailure, UsageProblem
from trt_workbench.verify import trials
from trt_workbench.verify.bisect import Bisected, bisect, check_bisectable
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.outcome import Verified
from trt_workbench.verify.reproduction import write_bisected
from trt_workbench.verify.run import verify
from trt_workbench.verify.settings import Range

pytestmark = pytest.mark.usefixtures("known_limits")

Search = Callable[..., Bisected]
PATTERN = ["Add", "Softmax", "MatMul"]


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch, outside_backend: Callable[..., None]) -> None:
    outside_backend("graph-fault", "tests.graph_fault_backend:GraphFaultBackend")
    monkeypatch.setattr(GraphFaultBackend, "loaded", 0)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return attention_model(tmp_path_factory.mktemp("model") / "model.onnx")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Callable[[VerifyRequest], tuple[Verified, Path]]:
    """Return a function that verifies, the same request once alone: what was found, and the folder of the failures."""
    known: dict[str, tuple[Verified, Path]] = {}

    def verified(request: VerifyRequest) -> tuple[Verified, Path]:
        if repr(request) not in known:
            folder = tmp_path_factory.mktemp("verified")
            known[repr(request)] = verify(request, folder), folder
        return known[repr(request)]

    return verified


@pytest.fixture
def search(tmp_path: Path, model: Path, kept: Callable[[VerifyRequest], tuple[Verified, Path]]) -> Search:
    """Return a function that verifies and bisects with a fault, in one folder, and writes what it finds."""

    def run(fault: str, backend: str = "graph-fault", needs: str = "", **more: Any) -> Bisected:
        options = {"fault": fault, **({"needs": needs} if needs else {})}
        ranges = {"N": Range(1, 2, 3)}
        request = VerifyRequest(target=model, backend=backend, options=options, ranges=ranges, quick=True)
        verified, failures = kept(request)
        folder = tmp_path / "run"
        shutil.copytree(failures, folder, dirs_exist_ok=True)
        (folder / "run.json").touch()  # only a run's folder is written to again
        found = bisect(request, verified, folder, **more)
        write_bisected(request, found, folder)
        return found

    return run


@pytest.fixture(scope="module")
def searches() -> list[tuple[Bisected, Path]]:
    """The search that `masked` makes, once it is made."""
    return []


@pytest.fixture
def masked(
    search: Search, searches: list[tuple[Bisected, Path]], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Bisected:
    """What a search for one fault found, and wrote in the folder of the test."""
    if not searches:
        found = search("masked attention")
        searches.append((found, shutil.copytree(tmp_path / "run", tmp_path_factory.mktemp("searched") / "run")))
    else:
        shutil.copytree(searches[0][1], tmp_path / "run")
    return searches[0][0]


def arrays(folder: Path) -> dict[str, NDArray[Any]]:
    return {unquote(file.stem): np.load(file) for file in folder.glob("*.npy")}


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "operators", "form", "hides"),
    [
        ("single", ["Softmax"], "folded", False),
        ("masked attention", PATTERN, "folded", True),
        ("transposed reshape", ["Reshape", "Transpose"], "folded", True),
        ("computed shape", ["Reshape"], "fixed", False),
        ("only dynamic", ["Softmax"], "dynamic", False),
    ],
)
def test_the_fault_is_found_to_its_pattern(
    fault: str, operators: list[str], form: str, hides: bool, search: Search, model: Path, tmp_path: Path
) -> None:
    found = search(fault)
    assert list(found.operators) == operators
    assert (found.form, found.marking_hides, found.complete) == (form, hides, True)
    assert found.case == "N=2"
    assert found.trials <= 40
    of_model = {node.name: node.op_type for node in onnx.load(model).graph.node}
    assert [of_model[name] for name in found.nodes] == operators
    document = json.loads((tmp_path / "run" / "bisect" / "bisect.json").read_text())
    assert [node["name"] for node in document["nodes"]] == list(found.nodes)
    assert document["first_wrong"] == onnx.load(tmp_path / "run" / "bisect" / "minimal.onnx").graph.output[0].name


@pytest.mark.long
@pytest.mark.usefixtures("masked")
def test_what_is_written_shows_the_fault_by_itself(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "bisect"
    inputs, expected, actual = (arrays(folder / name) for name in ("inputs", "expected", "actual"))
    options = SessionOptions(extra={"fault": "masked attention"})
    with GraphFaultBackend().load(folder / "minimal.onnx", options) as session:
        wrong = session.run(inputs)
    with OrtCpuBackend().load(folder / "minimal.onnx") as session:
        right = session.run(inputs)
    for name, want in expected.items():
        np.testing.assert_allclose(right[name], want, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(wrong[name], actual[name])
        np.testing.assert_allclose(wrong[name][0], want[0], rtol=1e-5, atol=1e-6)
        assert np.abs(wrong[name][1] - want[1]).max() > 0.1
    text = (folder / "report.md").read_text()
    assert "# graph-fault: wrong result of Add, Softmax, MatMul in fp32" in text
    assert "[2, 4, 5, 5]" in text


@pytest.mark.long
@pytest.mark.usefixtures("masked")
def test_the_script_says_by_how_much_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "run" / "bisect" / "reproduce.py"
    assert len(script.read_text().splitlines()) <= 40
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(script))
    assert left.value.code == 1
    assert "[2, 4, 5, 4]: largest difference" in capsys.readouterr().out


def test_a_later_call_repeats_no_trial(masked: Bisected, search: Search) -> None:
    before = GraphFaultBackend.loaded
    second = search("masked attention")
    assert second.nodes == masked.nodes
    assert (masked.repeated, second.repeated, second.trials) == (0, masked.trials, masked.trials)
    assert GraphFaultBackend.loaded - before == 1  # the smallest part alone, for its arrays


def test_damaged_verdicts_are_tried_again(masked: Bisected, search: Search, tmp_path: Path) -> None:
    state = tmp_path / "run" / "bisect" / "state.jsonl"
    lines = state.read_text().splitlines()
    changed = ["[]", "{}", lines[2].replace('"state"', '"stat"'), lines[3].replace('"wrong": [', '"wrong": [1, ')]
    state.write_text("\n".join([*lines[:2], *changed, *lines[4:], lines[0][:40]]))
    second = search("masked attention")
    assert (second.operators, second.repeated) == (masked.operators, masked.trials - 2)
    assert search("masked attention").repeated == masked.trials


@pytest.mark.long
@pytest.mark.usefixtures("masked")
def test_verdicts_hold_for_what_was_asked_and_where_it_ran_alone(
    search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert search("transposed reshape").repeated == 0
    monkeypatch.setattr(work, "cpu_report", lambda: {"model": "another"})
    assert search("masked attention").repeated == 0


@pytest.mark.long
def test_the_best_so_far_is_written_when_the_time_is_over_and_a_later_call_goes_on(
    search: Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count()
    with monkeypatch.context() as patched:
        # a second for each look at it
        patched.setattr(trials, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
        short = search("masked attention", seconds=40)
    assert not short.complete
    assert 3 < len(short.nodes) < 90
    assert len(onnx.load(tmp_path / "run" / "bisect" / "minimal.onnx").graph.node) == len(short.nodes)
    long = search("masked attention")
    assert (list(long.operators), long.complete, long.repeated) == (PATTERN, True, short.trials)


def test_without_time_nothing_is_claimed(search: Search) -> None:
    found = search("masked attention", seconds=0)
    assert (found.nodes, found.complete) == ((), False)
    held(found.reason)


@pytest.mark.long
def test_parts_that_do_not_load_are_not_wrong(search: Search) -> None:
    found = search("masked attention", needs="Erf")
    assert sorted(found.operators) == sorted([*PATTERN, "Erf"])


@pytest.mark.long
@pytest.mark.parametrize("error", [DeviceFailure("out of memory"), RuntimeError("of some library")])
def test_a_failure_of_the_device_is_of_the_moment_and_others_stay(
    error: Exception, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = GraphFaultBackend._load

    def failing(self: GraphFaultBackend, model: Path, options: SessionOptions) -> Session:
        if all(node.op_type != "Erf" for node in onnx.load(model).graph.node):
            raise error
        return load(self, model, options)

    with monkeypatch.context() as patched:
        patched.setattr(GraphFaultBackend, "_load", failing)
        assert "Erf" in search("masked attention").operators
    lasting = isinstance(error, RuntimeError)
    assert ("Erf" in search("masked attention").operators) == lasting


@pytest.mark.long
def test_progress_is_reported(search: Search) -> None:
    said: list[str] = []
    search("single", step=said.append)
    assert any(text.startswith("bisecting: ") and " nodes left, " in text for text in said)


@pytest.mark.long
def test_a_fault_that_is_not_in_the_graph_is_called_so(search: Search) -> None:
    found = search("every second call", backend="faulty")
    assert found.nodes == ()
    assert "not in its graph" in found.reason


@pytest.mark.parametrize(
    "request_",
    [
        VerifyRequest(target=Path("engine.plan")),
        VerifyRequest(target=Path("nothing.plan")),
        VerifyRequest(target=Path("model.onnx"), reference="none"),
    ],
)
def test_what_cannot_be_taken_apart_is_refused(
    request_: VerifyRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("engine.plan").touch()
    with refused(UsageProblem):
        check_bisectable(request_)


@pytest.mark.long
def test_few_parts_are_tried_of_a_deep_model(tmp_path: Path) -> None:
    model = attention_model(tmp_path / "model.onnx", layers=6)
    options = {"fault": "masked attention"}
    request = VerifyRequest(
        target=model, backend="graph-fault", options=options, ranges={"N": Range(1, 2, 3)}, quick=True
    )
    found = bisect(request, verify(request, tmp_path), tmp_path)
    assert list(found.operators) == PATTERN
    assert found.trials <= 18, found.trials
