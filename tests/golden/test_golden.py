"""Every command on the embedded models, beside its golden record: what it prints as JSON, and verdict tables."""

import json
import os
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.golden.cases import CASES, run
from tests.golden.golden import RECORDS, differences, masked, same_but_for_numbers, same_elsewhere, same_here, written

pytestmark = pytest.mark.usefixtures("blank_pictures")

ROOT = Path(__file__).parents[2]
MACHINE = RECORDS / "machine.json"
WITHOUT_TORCH = [name for name, case in CASES.items() if not case.torch]


def machine() -> dict[str, Any]:
    """Return what decides how sums are rounded: the processor's vector instructions, and the runtimes that are here."""
    flags = Path("/proc/cpuinfo")
    words = set(flags.read_text().split()) if flags.exists() else set()
    instructions = sorted(word for word in words if word.startswith(("avx", "amx", "fma")))
    runtimes = {name: version(name) for name in ("onnxruntime", "torch") if find_spec(name)}
    # in a process of pytest-xdist, OpenBLAS has one thread: it is loaded when the tests have limited it
    alone = "PYTEST_XDIST_WORKER" not in os.environ
    return {**runtimes, "numpy": version("numpy").rpartition(".")[0], "alone": alone, "instructions": instructions}


def check(name: str, folder: Path, request: pytest.FixtureRequest) -> None:
    places = {str(folder / "tmp"): "<tmp>", str(folder): "<run>", str(ROOT): "<repository>"}
    now = json.loads(json.dumps(masked(run(name), places, CASES[name].machine)))
    file = RECORDS / f"{name}.json"
    if request.config.getoption("--record", default=False):
        file.write_text(written(now) + "\n", encoding="utf-8")
        MACHINE.write_text(written(machine()) + "\n")
        return
    elsewhere = same_but_for_numbers if CASES[name].jumps else same_elsewhere
    same = same_here if machine().items() <= json.loads(MACHINE.read_text()).items() else elsewhere
    found = list(differences(json.loads(file.read_text(encoding="utf-8")), now, same))
    shown = [*found[:40], f"and {len(found) - 40} more"] if len(found) > 40 else found
    first = f"`trtw {CASES[name].words}` differs from tests/golden/records/{name}.json:"
    last = f"If that is on purpose: `pixi run golden -k {name}`, and say why in the message of the commit."
    assert not found, "\n".join([first, *shown, last])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if CASES[name].long else name for name in WITHOUT_TORCH]
)
def test_a_command_gives_what_it_gave(name: str, workplace: Path, request: pytest.FixtureRequest) -> None:
    check(name, workplace, request)


@pytest.mark.parametrize("name", sorted(CASES.keys() - {*WITHOUT_TORCH}))
def test_a_command_with_pytorch_gives_what_it_gave(name: str, workplace: Path, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("torch")
    check(name, workplace, request)


def test_every_record_belongs_to_a_case() -> None:
    assert {file.stem for file in RECORDS.glob("*.json")} == {*CASES, "machine"}


def test_a_changed_score_verdict_text_or_length_is_a_difference_by_its_field() -> None:
    kept = {"AP": 0.5, "cases": [{"verdict": "right", "max_abs": 1.5e-7}], "why": "changes by 0.5", "n": 1}
    assert not list(differences(kept, kept, same_here))
    other = {"AP": 0.5000001, "cases": [{"verdict": "wrong", "max_abs": 2.5e-7}], "why": "changes by 0.7", "new": 1}
    everywhere = ["AP: was 0.5, is 0.5000001", 'cases[0].verdict: was "right", is "wrong"']
    ends = ["n: was 1, is gone", "new: is new, 1"]
    assert list(differences(kept, other, same_elsewhere)) == [*everywhere, *ends]
    assert list(differences(kept, other, same_here)) == [
        *everywhere,
        "cases[0].max_abs: was 1.5e-07, is 2.5e-07",
        'why: was "changes by 0.5", is "changes by 0.7"',
        *ends,
    ]
    assert list(differences(kept, other, same_but_for_numbers)) == [everywhere[1], *ends]
    assert list(differences([1, 2], [1], same_elsewhere)) == [": had 2 entries, has 1"]


def test_folders_times_versions_and_hashes_are_masked_and_scores_are_whole() -> None:
    document = {
        "AP": 0.123456789012345,
        "max_abs": 1.23456e-7,
        "loss": 0.123456789,
        "latency_ms": {"p50": 1.0},
        "load_s": None,
        "text": "/here/out took 12.5 ms with 1.31.1 and 0123456789abcdef, off by 1.5",
        "n": list(range(50)),
        "doubt": "busy",
    }
    assert masked(document, {"/here": "<run>"}, ("doubt",)) == {
        "AP": 0.123456789012345,
        "max_abs": 1.235e-7,
        "loss": 0.123457,
        "latency_ms": "<machine>",
        "load_s": None,
        "text": "<run>/out took # ms with # and #, off by 1.5",
        "n": [*range(24), "<26 more>"],
        "doubt": "<machine>",
    }
