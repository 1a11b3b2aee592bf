"""A shard: its block, its text, and what schedulers say of it."""

import pytest
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.shard import Shard, read_shard, shard_from

hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")
_ARRAY = "SLURM_ARRAY_TASK_"


@hypothesis.given(st.integers(0, 3000), st.integers(1, 64), st.integers(1, 20))
def test_blocks_are_all_items_once_and_as_long_as_each_other(items: int, count: int, step: int) -> None:
    blocks = [Shard(index, count).block(items, step) for index in range(count)]
    assert [item for block in blocks for item in block] == [*range(items)]
    assert all(block.start % step == 0 or not block for block in blocks)
    steps = [-(-len(block) // step) for block in blocks]
    assert max(steps) - min(steps) <= 1


def test_what_is_typed() -> None:
    assert read_shard("--shard", "0/1") == Shard(0, 1)
    assert read_shard("--shard", "7/8") == Shard(7, 8)
    assert str(Shard(7, 8)) == "7/8"


@pytest.mark.parametrize("text", ["8/8", "1", "a/8", "-1/8", "1/0", "0/0", "1/2/3", "", "1 / 8", "0/99999999999"])
def test_what_names_no_shard(text: str) -> None:
    with refused(UsageProblem):
        read_shard("--shard", text)


def array(task: int, least: int, most: int, count: int) -> dict[str, str]:
    """Return what Slurm sets in a task of an array."""
    ends = {f"{_ARRAY}ID": task, f"{_ARRAY}MIN": least, f"{_ARRAY}MAX": most, f"{_ARRAY}COUNT": count}
    return {name: str(value) for name, value in ends.items()}


@pytest.mark.parametrize(
    ("variables", "shard"),
    [
        (array(0, 0, 7, 8), Shard(0, 8)),
        (array(8, 1, 8, 8), Shard(7, 8)),
        # a step of an array's task, as srun starts it
        ({**array(3, 0, 7, 8), "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, Shard(3, 8)),
        # without --ntasks the batch script has no SLURM_NTASKS
        ({**array(3, 0, 7, 8), "SLURM_PROCID": "0"}, Shard(3, 8)),
        ({"JOB_COMPLETION_INDEX": "2", "JOB_COMPLETIONS": "3"}, Shard(2, 3)),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "4", "RANK": "1", "WORLD_SIZE": "4"}, Shard(1, 4)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, Shard(0, 1)),
        ({"SKYPILOT_NODE_RANK": "1", "SKYPILOT_NUM_NODES": "2"}, Shard(1, 2)),
    ],
)
def test_what_schedulers_say(variables: dict[str, str], shard: Shard) -> None:
    assert shard_from(variables) == shard


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"JOB_COMPLETION_INDEX": "2"},
        {"RANK": "1", "WORLD_SIZE": "2", "SKYPILOT_NODE_RANK": "0", "SKYPILOT_NUM_NODES": "2"},
        {**array(3, 0, 7, 8), "SLURM_PROCID": "1", "SLURM_NTASKS": "2"},
        array(5, 2, 5, 2),  # --array=2,5 after others were done
        array(4, 0, 6, 4),  # --array=0-6:2
        array(3, 3, 3, 1),  # --array=3
        {"RANK": "two", "WORLD_SIZE": "2"},
        {"RANK": "2", "WORLD_SIZE": "2"},
    ],
    ids=["none", "no count", "two ranks", "array and step", "hole", "stride", "one task", "no number", "beyond"],
)
def test_what_is_no_shard(variables: dict[str, str]) -> None:
    with refused(UsageProblem):
        shard_from(variables)


def test_auto_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert read_shard("--shard", "auto") == Shard(1, 3)
