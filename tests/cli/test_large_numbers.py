"""Numbers that no setting and no contract is meant for: one sentence, no traceback, no long wait."""

import copy
import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.in_app import trtw
from tests.streaming_models import attention, contract_of

SPELLED = ("0x" + "F" * 40, "0x" + "F" * 5000, "-0x" + "F" * 5000, "0b" + "1" * 20_000, "9" * 6000, "1:" + "5" * 5000)
SPELLED += ("1_0" * 3000, "'" + "9" * 6000 + "'", "[0x" + "F" * 5000 + "]", "1e400", ".inf", "2026-13-45")
NUMBERS = (0, -1, 2**31, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30, 1e308, 5e-324, -0.5)


@pytest.mark.parametrize("number", SPELLED, ids=lambda text: text[:12])
def test_settings(number: str, tmp_path: Path) -> None:
    shipped = (files("trt_workbench.bench") / "configs" / "smoke.yaml").read_text(encoding="utf-8")
    for key in ("seed", "repetitions", number):
        text = re.sub(rf"^{re.escape(key)}:.*\n", "", shipped, flags=re.MULTILINE)
        (tmp_path / "c.yaml").write_text(f"{text}\n{key}: {number}\n")
        done = trtw("bench", tmp_path / "c.yaml", "--dry-run")
        assert done.exit_code == 2, key
        assert sum(line.startswith("error: ") for line in done.stderr.splitlines()) == 1
        assert len(done.stderr) < 7000


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(part, (*place, key))
    elif place[0] not in ("name", "description", "schema_version"):
        yield place


@pytest.mark.parametrize("seed", range(30))
def test_contracts(seed: int, tmp_path: Path) -> None:
    random, document = Random(seed), copy.deepcopy(contract_of("attention"))
    *way, last = random.choice(list(places(document)))
    part: Any = document
    for key in way:
        part = part[key]
    number = random.choice(NUMBERS)
    part[last] = random.choice([number, str(number)])
    (tmp_path / "c.json").write_text(json.dumps(document))
    model, more = attention(tmp_path), ("--backend", "ort-cpu", "--chunks", 3, "--output", tmp_path / "run")
    for words in (
        ("check-contract", tmp_path / "c.json", model, *more),
        ("eval-stream", model, "--contract", tmp_path / "c.json", "--no-report", *more),
    ):
        assert trtw(*words).exit_code in (0, 1, 2)  # a traceback fails the test


@pytest.mark.parametrize(
    ("place", "number"),
    [
        (("outputs", "encoded", "valid", "by"), 5e-324),
        (("state", 0, "shift", "by"), 5e-324),
        (("chunking", "memory", "chunks"), -(2**63)),
    ],
    ids=str,
)
def test_what_fits_no_stream_is_said(place: tuple[Any, ...], number: float, tmp_path: Path) -> None:
    document = copy.deepcopy(contract_of("attention"))
    part: Any = document
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = str(number)
    (tmp_path / "c.json").write_text(json.dumps(document))
    words = ("eval-stream", attention(tmp_path), "--contract", tmp_path / "c.json", "--backend", "ort-cpu")
    done = trtw(*words, "--chunks", 3, "--no-report", "--output", tmp_path / "run")
    assert done.exit_code == 2
    assert sum(line.startswith("error: ") for line in done.stderr.splitlines()) == 1
