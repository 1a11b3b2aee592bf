"""What is free counts, within the limit of a container."""

from pathlib import Path

import pytest

from trt_workbench.errors import UsageProblem
from trt_workbench.system import memory


def test_the_limit_of_a_container_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "max").write_text("max\n")
    (tmp_path / "limit").write_text(f"{2**26}\n")
    monkeypatch.setattr(memory, "_CGROUP_LIMITS", (tmp_path / "absent", tmp_path / "max"))
    assert memory.available_bytes() > 2**26
    monkeypatch.setattr(memory, "_CGROUP_LIMITS", (tmp_path / "max", tmp_path / "limit"))
    assert memory.available_bytes() == 2**26

    memory.require_room("Input x", (2**12, 2**12), 4)
    with pytest.raises(UsageProblem, match=r"4096x4097 takes 0\.1 GiB, and 0\.1 GiB of memory are free"):
        memory.require_room("Input x", (2**12, 2**12 + 1), 4)
