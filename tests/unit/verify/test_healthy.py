"""Healthy models are never called wrong: the record of 200 others is docs/benchmarks/verify/healthy.jsonl."""

import json
from pathlib import Path

import pytest
from tests.healthy_models import WAYS, check

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", [1000, 1001, 1002, 1003])
def test_no_false_alarm(seed: int, way: str, tmp_path: Path) -> None:
    if way.startswith("torch"):
        pytest.importorskip("torch")
    found = check(seed, way, tmp_path)
    assert found.failures == ()
    assert found.document["cases_unverified"] == 0


@pytest.mark.parametrize(("name", "seeds"), [("healthy", range(200, 400)), ("fresh", range(5000, 5100))])
def test_the_records_hold_every_model_in_every_way_without_a_false_alarm(name: str, seeds: range) -> None:
    lines = (ROOT / "docs" / "benchmarks" / "verify" / f"{name}.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert {(one["seed"], one["way"]) for one in records} == {(seed, way) for seed in seeds for way in WAYS}
    assert [one for one in records if one["verdict"] in ("wrong", "not run")] == []
