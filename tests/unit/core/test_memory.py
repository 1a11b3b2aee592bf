"""What is free counts, within the limits of a container and of the process."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from tests.texts import refused

from trt_workbench.core import memory
from trt_workbench.core.errors import UsageProblem


def test_what_is_left_of_a_containers_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    none, limit, used = (tmp_path / name for name in ("none", "limit", "used"))
    none.write_text("max\n")
    limit.write_text(f"{2**26 + 2**25}\n")
    used.write_text(f"{2**26}\n")
    monkeypatch.setattr(memory, "_CGROUPS", ((tmp_path / "absent", used), (none, used)))
    assert memory.available_bytes() > 2**26
    monkeypatch.setattr(memory, "_CGROUPS", ((none, used), (limit, used)))
    assert memory.available_bytes() == 2**25
    # the cache of files is given back
    (tmp_path / "memory.stat").write_text(f"anon 7\ninactive_file {2**25}\n")
    assert memory.available_bytes() == 2**26

    memory.require_room("Input x", (2**12, 2**12), 4)
    with refused(UsageProblem) as caught:
        memory.require_room("Input x", (2**12, 2**12 + 1), 4)
    assert "64 MiB of memory are free" in str(caught.value)  # which the snapshot masks
    used.write_text(f"{2**30}\n")
    assert memory.available_bytes() == 0


def test_the_limit_of_the_process_counts() -> None:
    code = "from trt_workbench.core.memory import available_bytes; print(available_bytes())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30)),
    )
    assert 2**28 < int(done.stdout) < 2**30
