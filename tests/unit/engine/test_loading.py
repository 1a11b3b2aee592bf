import dataclasses
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.texts import refused
from tests.unit.engine.manifests import manifest_of

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.hashing import hash_file
from trt_workbench.engine.loading import check_target, load_engine, plugin_libraries, read_plan
from trt_workbench.engine.manifest import manifest_path, write_manifest
from trt_workbench.engine.plugins import opened_plugins
from trt_workbench.engine.target import Target

DATA = b"\xffa plan of some length"
TARGET = Target("10.16.1", "10.16.0", "13.0", "0.1.0", "NVIDIA Test", "GPU-1", "9.0")


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "m.plan"
    path.write_bytes(DATA)
    write_manifest(path, manifest_of(DATA))
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, len(DATA) * 8 - 1))
def test_every_flipped_bit_is_found(plan: Path, bit: int) -> None:
    changed = bytearray(DATA)
    changed[bit // 8] ^= 1 << bit % 8
    plan.write_bytes(changed)
    with pytest.raises(UsageProblem, match="tampered"):
        read_plan(plan)
    assert read_plan(plan, trust=True).manifest is None


def test_an_empty_or_absent_plan(plan: Path) -> None:
    plan.write_bytes(b"")
    with refused(UsageProblem):
        read_plan(plan, trust=True)
    plan.unlink()
    with refused(UsageProblem):
        read_plan(plan)


def test_a_plan_without_manifest_needs_trust(plan: Path) -> None:
    manifest_path(plan).unlink()
    with refused(UsageProblem):
        read_plan(plan)
    assert read_plan(plan, trust=True).notes


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-20],
        lambda text: text.replace('"schema_version": 2', '"schema_version": 3'),
        lambda text: json.dumps({**json.loads(text), "surprise": 1}),
        lambda _: "[]",
        lambda text: json.dumps({**json.loads(text), "options": {"precision": [1, 2]}}),
        lambda text: json.dumps({**json.loads(text), "options": {"precision": 5}}),
    ],
)
def test_a_damaged_manifest(plan: Path, change: object) -> None:
    assert callable(change)
    path = manifest_path(plan)
    path.write_text(change(path.read_text()))
    with refused(UsageProblem):
        read_plan(plan)
    assert read_plan(plan, trust=True).manifest is None


def test_another_version_names_both(plan: Path) -> None:
    with refused(UsageProblem):
        check_target(read_plan(plan), dataclasses.replace(TARGET, tensorrt_version="8.6.0"))


def test_another_architecture_names_both(plan: Path) -> None:
    other = dataclasses.replace(TARGET, compute_capability="12.0", gpu_name="RTX")
    with refused(UsageProblem):
        check_target(read_plan(plan), other)


def test_another_model_of_gpu_is_a_note(plan: Path) -> None:
    (text,) = check_target(read_plan(plan), dataclasses.replace(TARGET, gpu_name="NVIDIA Other"))
    assert "tuned on NVIDIA Test" in text


def test_compatible_plans_are_let_through(plan: Path) -> None:
    write_manifest(
        plan, manifest_of(DATA, options={"version_compatible": True, "hardware_compatibility": "ampere_plus"})
    )
    other = dataclasses.replace(TARGET, tensorrt_version="11.1.0", compute_capability="12.0")
    assert check_target(read_plan(plan), other) == ()


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "libplugin.so"
    path.write_bytes(b"a library")
    return path


def with_plugin(plan: Path, library: Path, **options: object) -> None:
    plugins = [{"path": str(library), "sha256": hash_file(library)}]
    write_manifest(plan, manifest_of(DATA, plugins=plugins, options=options))


def named(plan: Path, *paths: Path) -> list[Path]:
    with opened_plugins(paths) as libraries:
        return [found.path for found in plugin_libraries(read_plan(plan), libraries)]


def test_only_libraries_that_the_user_names_are_loaded(plan: Path, library: Path, tmp_path: Path) -> None:
    with_plugin(plan, library)
    with refused(UsageProblem):
        named(plan)
    more = tmp_path / "libmore.so"
    more.write_bytes(b"another one")
    with refused(UsageProblem):
        named(plan, more)
    assert named(plan, more, library, library) == [more, library]
    with_plugin(plan, library, serialize_plugins=True)
    assert named(plan) == []
    assert named(plan, more) == [more]


def test_a_relative_path_in_the_manifest_opens_nothing(
    plan: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(library.parent)
    write_manifest(plan, manifest_of(DATA, plugins=[{"path": library.name, "sha256": hash_file(library)}]))
    with refused(UsageProblem):
        named(plan)


def test_a_library_that_was_moved_is_known_by_its_content(plan: Path, library: Path, tmp_path: Path) -> None:
    with_plugin(plan, library)
    moved = library.rename(tmp_path / "elsewhere.so")
    assert named(plan, moved) == [moved]
    with refused(UsageProblem):
        named(plan, library)
    os.mkfifo(library)
    with refused(UsageProblem):
        named(plan, library)


def test_a_library_that_was_replaced_is_refused(plan: Path, library: Path) -> None:
    with_plugin(plan, library)
    library.write_bytes(b"something else")
    with refused(UsageProblem):
        named(plan, library)


def test_what_was_hashed_is_what_the_core_opens(plan: Path, library: Path, native_double: Any) -> None:
    """The core opens the descriptor's path, whatever has become of the name meanwhile."""
    opened: list[bytes] = []

    def engine(_: bytes, *, plugins: list[str], **__: object) -> SimpleNamespace:
        library.unlink()
        library.write_bytes(b"another library")
        opened.extend(Path(path).read_bytes() for path in plugins)
        return SimpleNamespace()

    native_double.Engine = engine
    with_plugin(plan, library)
    load_engine(read_plan(plan), plugins=[library])
    assert opened == [b"a library"]


def test_libraries_and_budget_reach_the_core(plan: Path, library: Path, native_double: Any) -> None:
    given: list[dict[str, Any]] = []
    native_double.Engine = lambda _, **options: given.append(options) or SimpleNamespace()
    with_plugin(plan, library, weight_streaming=True)
    (note,) = load_engine(read_plan(plan), plugins=[library]).notes
    assert "no weight_streaming_budget" in note
    assert load_engine(read_plan(plan), plugins=[library], weight_streaming_budget="auto").notes == ()
    assert [len(options["plugins"]) for options in given] == [1, 1]
    assert [options["weight_streaming_budget"] for options in given] == [None, "auto"]
