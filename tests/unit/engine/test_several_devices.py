"""Threads beside their GPUs."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trt_workbench.core.errors import DeviceFailure
from trt_workbench.engine import several_devices
from trt_workbench.engine.several_devices import EnginesOnDevices, processors_beside

ALL = sorted(os.sched_getaffinity(0))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of PCI devices."""
    monkeypatch.setattr(several_devices, "_PCI_DEVICES", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{ALL[-1]}\n", ALL[-1:]),
        (f"{ALL[0]}-{ALL[-1]},100000-100003\n", ALL),
        ("100000-100003", ALL),  # none that this process may use
        ("", ALL),
        ("first", ALL),
        (None, ALL),
    ],
)
def test_processors_are_those_of_the_gpus_node_that_may_be_used(
    machine: Path, text: str | None, expected: list[int]
) -> None:
    (machine / "0000:ab:00.0").mkdir()
    if text is not None:
        (machine / "0000:ab:00.0" / "local_cpulist").write_text(text)
    assert processors_beside("0000:AB:00.0") == expected


@pytest.fixture
def two_alike(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def of(device: int) -> list[dict[str, Any]]:
        return [{"name": "G", "compute_capability": "9.0", "pci_id": f"0000:0{device}:00.0"}]

    monkeypatch.setattr(several_devices.native, "require", lambda _: of)
    for device in range(2):
        folder = machine / f"0000:0{device}:00.0"
        folder.mkdir()
        (folder / "local_cpulist").write_text(str(ALL[-device]))


@pytest.mark.usefixtures("two_alike")
def test_an_engine_is_loaded_and_used_by_a_thread_beside_its_gpu() -> None:
    def load(device: int) -> Any:
        return SimpleNamespace(engine=device, processors=os.sched_getaffinity(0))

    with EnginesOnDevices((1, 0), load) as engines:
        assert engines.processors == [[ALL[-1]], [ALL[0]]]
        for _ in range(3):
            used = engines.each(lambda one: (one.engine, sorted(one.processors), sorted(os.sched_getaffinity(0))))
            assert used == [(1, [ALL[-1]], [ALL[-1]]), (0, [ALL[0]], [ALL[0]])]
        assert engines.first(lambda one: one.engine) == 1
    assert sorted(os.sched_getaffinity(0)) == ALL  # of this thread


@pytest.mark.usefixtures("two_alike")
def test_one_that_fails_ends_all() -> None:
    def load(device: int) -> Any:
        if device:
            raise DeviceFailure("out of memory")
        return SimpleNamespace()

    with pytest.raises(DeviceFailure, match="out of memory"):
        EnginesOnDevices((0, 1), load)
