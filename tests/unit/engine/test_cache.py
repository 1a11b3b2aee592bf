import dataclasses
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.engine.manifests import manifest_of
from tests.waiting import wait_until

from trt_workbench.engine import cache
from trt_workbench.engine.manifest import manifest_path
from trt_workbench.engine.options import BuildSettings

KEY = cache.CacheKey(
    model_sha256="aa",
    options=BuildSettings().key_fields(),
    tensorrt_version="10.16.1",
    driver_version="580.1",
    gpu_name="NVIDIA Test",
    compute_capability="9.0",
    native_version="0.1.0",
    calibration_sha256=None,
    plugins_sha256=(),
)


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(cache.CacheKey)])
def test_every_part_of_the_key_counts(field: str) -> None:
    other: dict[str, Any] = {"options": {"precision": ["fp16"]}, "plugins_sha256": ("bb",)}
    changed = dataclasses.replace(KEY, **{field: other.get(field, "different")})
    assert changed.digest() != KEY.digest()


def test_a_key_is_the_same_in_every_release() -> None:
    """Else all engines of all users would be built again; where that is meant, KEY_VERSION is raised."""
    key = dataclasses.replace(KEY, options={"b": [1, None], "a": {"d": "x", "c": 2.5}}, plugins_sha256=("p",))
    turned = dataclasses.replace(key, options={"a": {"c": 2.5, "d": "x"}, "b": [1, None]})
    assert key.digest() == turned.digest() == "c9a3d89db76726a7b1d49f24520fcf9f"
    with pytest.raises(ValueError, match="JSON compliant"):
        dataclasses.replace(KEY, options={"a": float("nan")}).digest()


@pytest.mark.parametrize("field", ["tensorrt_version", "gpu_name", "compute_capability", "native_version"])
def test_a_key_without_what_an_engine_is_built_for_is_not_complete(field: str) -> None:
    assert not dataclasses.replace(KEY, **{field: None}).is_complete  # type: ignore[arg-type]


def test_a_key_cannot_be_changed_after_its_digest_was_taken() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        KEY.driver_version = "590.2"  # type: ignore[misc]


def test_the_second_waits_for_the_lock_and_says_so_once() -> None:
    said, released, order = threading.Event(), threading.Event(), []

    def second() -> None:
        with cache.build_lock("k", lambda: (order.append("waits"), said.set())):  # type: ignore[func-returns-value]
            order.append(f"enters, released: {released.is_set()}")

    with cache.build_lock("k", lambda: order.append("the first waits")):
        thread = threading.Thread(target=second)
        thread.start()
        assert said.wait(0.9)  # at once, not after a try of a second
        thread.join(0.1)
        released.set()
    thread.join(10)
    assert order == ["waits", "enters, released: True"]


SETTINGS: dict[str, st.SearchStrategy[Any]] = {
    "precision": st.sampled_from(["fp16", "bf16", "int8+fp16", "tf32"]),
    "profiles": st.sampled_from([("x:1/2/4",), ("x:1/2/8",), ("x:1/2/4", "x:8")]),
    "workspace_mib": st.integers(1, 1 << 16),
    "memory_pools": st.sampled_from([{"tactic_dram": 5}, {"tactic_shared_memory": 1}]),
    "optimization_level": st.integers(0, 5),
    "tactic_sources": st.sampled_from([("-CUDNN",), ("+CUBLAS",)]),
    "hardware_compatibility": st.sampled_from(["ampere_plus", "same_compute_capability"]),
    "version_compatible": st.just(True),
    "strip_weights": st.just(True),
    "refit": st.sampled_from(["full", "identical"]),
    "layer_precisions": st.just({"*": "fp32"}),
    "strict_nans": st.just(True),
    "sparse_weights": st.just(True),
    "max_aux_streams": st.integers(0, 8),
    "avg_timing_iterations": st.integers(1, 16),
    "profiling_verbosity": st.just("none"),
    "io_types": st.just({"x": "float16"}),
}


@given(st.sampled_from(sorted(SETTINGS)).flatmap(lambda name: st.tuples(st.just(name), SETTINGS[name])))
def test_every_build_setting_counts(choice: tuple[str, Any]) -> None:
    name, value = choice
    # without it, layer precisions are refused
    others = {"precision_constraints": "obey"} if name == "layer_precisions" else {}
    without, changed = (
        dataclasses.replace(KEY, options=BuildSettings.model_validate(settings).key_fields()).digest()
        for settings in (others, {**others, name: value})
    )
    assert changed != without


def test_what_does_not_change_the_engine_is_named() -> None:
    fields = BuildSettings().key_fields().keys()
    left_out = {"timing_cache", "timing_cache_strict", "verbosity", "max_threads", "device"}
    by_hash = {"calibration", "plugins"}
    of_one = {"build_number"}  # of several, and then it counts
    assert BuildSettings.model_fields.keys() - fields == left_out | by_hash | of_one
    assert BuildSettings(verbosity="info", timing_cache="t").key_fields() == BuildSettings().key_fields()


def test_the_order_of_settings_does_not_count() -> None:
    first = BuildSettings(tactic_sources=["-CUDNN", "+CUBLAS"], precision="fp16+int8")
    second = BuildSettings(tactic_sources=["+cublas", "-cudnn"], precision="int8+fp16")
    assert first.key_fields() == second.key_fields()
    assert BuildSettings(tactic_sources=["-CUDNN", "-cudnn", "+CUBLAS"]).tactic_sources == ("+cublas", "-cudnn")
    with pytest.raises(ValueError, match="CUDNN has both signs"):
        BuildSettings(tactic_sources=["-CUDNN", "+cudnn"])


def test_a_machine_with_a_gpu_has_a_complete_key() -> None:
    assert KEY.is_complete
    assert dataclasses.replace(KEY, driver_version=None).is_complete


def test_the_folder_is_private() -> None:
    assert cache.engines_dir().stat().st_mode & 0o777 == 0o700


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(st.binary(min_size=1, max_size=100))
def test_what_is_stored_is_found(data: bytes) -> None:
    path = cache.store("k", data, manifest_of(data))
    assert cache.cached_plan("k") == path
    assert path.read_bytes() == data
    assert sorted(entry.name for entry in cache.engines_dir().iterdir()) == ["k"]


def test_a_plan_without_manifest_is_no_engine() -> None:
    path = cache.store("k", b"1", manifest_of(b"1"))
    manifest_path(path).unlink()
    assert cache.cached_plan("k") is None


def test_a_failure_leaves_the_older_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store("k", b"old", manifest_of(b"old"))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache, "write_manifest", full)
    with pytest.raises(OSError, match="No space"):
        cache.store("k", b"new", manifest_of(b"new"))
    found = cache.cached_plan("k")
    assert found.read_bytes() == b"old"
    assert sorted(entry.name for entry in cache.engines_dir().iterdir()) == ["k"]


def _build_once(out: str, log: str, barrier: Any) -> None:
    os.environ["TRTW_TMP"] = out
    barrier.wait()
    with cache.build_lock("k", lambda: Path(log, f"waited-{os.getpid()}").touch()):
        if cache.cached_plan("k") is None:
            Path(log, f"built-{os.getpid()}").touch()
            wait_until(lambda: list(Path(log).glob("waited-*")))
            cache.store("k", b"plan", manifest_of(b"plan"))


@pytest.mark.long
def test_two_processes_give_one_build(tmp_path: Path, processes: Any) -> None:
    barrier = processes.Barrier(2)
    log = tmp_path / "log"
    log.mkdir()
    workers = [
        processes.Process(target=_build_once, args=(os.environ["TRTW_TMP"], str(log), barrier)) for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert len(list(log.glob("built-*"))) == 1
    assert len(list(log.glob("waited-*"))) == 1


def _build_forever(out: str) -> None:
    os.environ["TRTW_TMP"] = out
    with cache.build_lock("k", lambda: None):
        (cache.engines_dir() / ".k.staging.dead").mkdir()
        time.sleep(600)


def test_a_killed_build_leaves_no_engine_and_no_lock(processes: Any) -> None:
    worker = processes.Process(target=_build_forever, args=(os.environ["TRTW_TMP"],))
    worker.start()
    staging = cache.engines_dir() / ".k.staging.dead"
    wait_until(staging.exists)
    assert worker.pid
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    assert cache.cached_plan("k") is None
    with cache.build_lock("k", lambda: pytest.fail("the lock of a dead process still holds")):
        cache.store("k", b"plan", manifest_of(b"plan"))
    assert not staging.exists()
