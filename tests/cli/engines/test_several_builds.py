"""`build-engine --builds`: each from an empty timing cache, verified, timed in turns; the median one is kept."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.cli.engines.common import write_model
from tests.in_app import json_of, stderr_of, stdout_of
from tests.texts import held

from trt_workbench.build_engine import cli
from trt_workbench.core.interruptible import ENDING
from trt_workbench.engine.manifest import read_manifest


@pytest.fixture
def log(tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Builds take 1.2, 1.0, 1.4 and 1.3 ms, by chance."""
    monkeypatch.setenv("PYTHONPATH", environment["PYTHONPATH"])
    monkeypatch.setenv("TRTW_DOUBLE_BUILDS", "1.2,1.0,1.4,1.3")
    monkeypatch.setenv("TRTW_DOUBLE_LOG", str(tmp_path / "log"))
    return tmp_path / "log"


@pytest.fixture
def dynamic(tmp_path: Path) -> Path:
    return write_model(tmp_path / "dynamic.onnx", "N")


def build(model: Path, *words: object, code: int = 0) -> Any:
    return json_of("build-engine", model, "--max-batch", 4, *words, code=code)


def builds_in(log: Path) -> int:
    return len(log.read_text().splitlines())


@pytest.mark.long
def test_the_median_build_is_kept_and_the_manifest_says_of_how_many(dynamic: Path, log: Path, tmp_path: Path) -> None:
    found = build(dynamic, "--builds", 3, "-o", tmp_path / "kept.plan")
    several = found["manifest"]["several"]
    assert several == found["several"]["builds"]
    assert (several["rule"], several["kept"]) == ("median", 1)
    assert [one["latency_ms"] for one in several["builds"]] == pytest.approx([1.5, 1.3, 1.7])  # with 0.3 of copies
    assert [one["verdict"] for one in several["builds"]] == ["right"] * 3
    assert [one["relative_l2"] for one in several["builds"]] == [0.0] * 3
    assert found["manifest"]["options"]["build_number"] is None
    assert found["manifest"]["engine"]["sha256"] == several["builds"][0]["engine_sha256"]
    assert found["manifest"]["verification"]["verdict"] == "right"
    assert read_manifest(tmp_path / "kept.plan") is not None
    assert builds_in(log) == 3
    plain = build(dynamic)  # the request without a number gives the one that was kept
    assert (plain["built"], plain["manifest"]["engine"]) == (False, found["manifest"]["engine"])
    again = build(dynamic, "--builds", 4, "--verify", "off")  # the first three are there
    assert builds_in(log) == 4
    assert again["manifest"]["several"]["kept"] == 4  # the slower one of two in the middle


def test_the_fastest_is_kept_only_where_that_was_asked(dynamic: Path, log: Path) -> None:
    words = ("--builds", 3, "--keep", "fastest", "--verify", "off")
    several = build(dynamic, *words)["manifest"]["several"]
    assert (several["rule"], several["kept"]) == ("fastest", 2)
    assert [one["verdict"] for one in several["builds"]] == [None] * 3
    assert builds_in(log) == 3


@pytest.mark.usefixtures("log")
def test_why_builds_differ_is_a_table_of_layers(dynamic: Path) -> None:
    layers = build(dynamic, "--builds", 2, "--verify", "off")["several"]["layers"]
    assert [(one["layer"], one["differs"]) for one in layers] == [
        ("total [layer]", "tactic"),
        ("ratio [layer]", "tactic"),
    ]
    tactics = {one["builds"][0]: one["choice"]["tactic"] for one in layers[0]["variants"]}
    assert tactics == {1: "k1.2", 2: "k1.0"}
    printed = stdout_of("build-engine", dynamic, "--max-batch", 4, "--builds", 2, "--verify", "off")
    assert "2 builds without each other's timings: 1.300 to 1.500 ms (15.4 % apart)" in " ".join(printed.split())
    assert "Layers that are not the same" in printed


@pytest.mark.usefixtures("log")
def test_a_build_says_that_it_took_no_timings_of_others(dynamic: Path, tmp_path: Path) -> None:
    found = build(dynamic, "--build-number", 2, "--verify", "off")
    assert found["manifest"]["options"]["build_number"] == 2
    printed = stdout_of("inspect", found["plan"], "--manifest-only")
    assert "2, from an empty timing cache" in printed
    assert not list((tmp_path / "out").glob("timing-caches/*.timing"))  # nor gave it any
    build(dynamic, "--verify", "off")
    assert len(list((tmp_path / "out").glob("timing-caches/*.timing"))) == 1


@pytest.mark.long
def test_a_wrong_build_is_never_kept(dynamic: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_DOUBLE_FAULT", "slow builds")
    several = build(dynamic, "--builds", 3)["manifest"]["several"]
    assert several["kept"] == 2
    assert [one["verdict"] for one in several["builds"]] == ["wrong", "right", "wrong"]
    monkeypatch.setenv("TRTW_DOUBLE_BUILDS", "1.2,1.3")
    log.unlink()
    said = stderr_of("build-engine", dynamic, "--max-batch", 4, "--builds", 2, "--force", code=1)
    held(said[said.index("error:") :])


def interrupting(monkeypatch: pytest.MonkeyPatch, function: str, times: int, number: int) -> None:
    """Send a signal when a function of `build-engine` is called for the so-manieth time."""
    real, left = getattr(cli, function), [None] * times

    def call(*arguments: Any, **more: Any) -> Any:
        left.pop()
        if not left:
            monkeypatch.setattr(cli, function, real)
            signal.raise_signal(number)
        return real(*arguments, **more)

    monkeypatch.setattr(cli, function, call)


@pytest.mark.usefixtures("in_a_terminal")
@pytest.mark.parametrize("number", ENDING)
def test_an_interrupt_says_how_many_builds_are_kept_and_the_same_command_goes_on(
    dynamic: Path, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    words = ("build-engine", dynamic, "--max-batch", 4, "--builds", 3, "--verify", "off")
    interrupting(monkeypatch, "_build", 1, number)
    assert "error: Interrupted; nothing was kept." in stderr_of(*words, code=130)
    for place, kept in ((2, "1 of 3 builds is"), (3, "2 of 3 builds are")):  # the second time, one was there already
        interrupting(monkeypatch, "_build", place, number)
        said = stderr_of(*words, code=130)
        assert f"error: Interrupted. {kept} in the engine cache; the same command goes on from there.\n" in said
    assert builds_in(log) == 2
    next((tmp_path / "out" / "engines").glob("*/*.layers.json")).unlink()  # as where the interrupt came before it
    found = json_of(*words)
    assert builds_in(log) == 3
    assert found["several"]["layers"]
    interrupting(monkeypatch, "_build", 2, number)
    assert "the same command without --force goes on" in stderr_of(*words, "--force", code=130)


def test_an_interrupt_while_verifying_says_that_the_engine_is_kept(
    dynamic: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("build-engine", dynamic, "--max-batch", 4)
    interrupting(monkeypatch, "_verify", 1, signal.SIGINT)
    said = stderr_of(*words, code=130)
    assert "Interrupted. 1 engine built meanwhile is in the engine cache; the same command goes on from there." in said
    stdout_of(*words)
    assert builds_in(log) == 1
    interrupting(monkeypatch, "_verify", 1, signal.SIGINT)
    assert "Interrupted; nothing was kept." in stderr_of(*words, code=130)  # of this call


def test_an_engine_that_another_command_built_is_named_too(
    dynamic: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("sharding", "run"):  # the one takes it from the other, when it is imported
        monkeypatch.setattr(
            f"trt_workbench.verify.{place}.try_cases", lambda *_, **__: signal.raise_signal(signal.SIGTERM)
        )
    assert "1 engine built meanwhile is in the engine cache" in stderr_of("verify", dynamic, code=130)
    for plan in (log.parent / "out" / "engines").glob("*/engine.plan"):
        os.utime(plan, (0, 0))
    assert "Interrupted; nothing was kept." in stderr_of("verify", dynamic, code=130)


@pytest.mark.parametrize(
    "words",
    [
        ("--builds", 1),
        ("--keep", "fastest"),
        ("--builds", 2, "--timing-cache", "shared.timing"),
        ("--build-number", 2, "--timing-cache", "shared.timing"),
        ("--builds", 2, "--build-number", 2),
    ],
)
def test_what_does_not_go_together_is_refused(dynamic: Path, words: tuple[object, ...]) -> None:
    held(stderr_of("build-engine", dynamic, "--max-batch", 4, *words, code=2))
