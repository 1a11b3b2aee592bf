"""The guide and the reference of `bench` name what exists."""

import re
from pathlib import Path

import yaml
from tests.guides import whole

from trt_workbench.bench.config import BenchConfig, RuntimeEntry, ScenarioEntry, shipped_configs
from trt_workbench.core.records import Record

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = whole("bench")


def test_the_reference_names_every_field_of_a_record() -> None:
    text = (DOCS / "reference" / "run-directory.md").read_text(encoding="utf-8")
    section = text.split("## bench\n")[1].split("\n## ")[0]
    assert [name for name in Record.model_fields if f"`{name}`" not in section] == []


def test_the_guide_lists_every_configuration_and_its_models() -> None:
    for name, path in shipped_configs().items():
        row = re.search(rf"^\| `{name}` \|.*$", GUIDE, re.MULTILINE)
        assert row, name
        config = BenchConfig.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
        for model, entry in config.models.items():
            assert entry.needs is None or f"`--model {model}=…`" in row[0]


def test_every_shipped_configuration_says_how_to_get_its_models() -> None:
    for path in shipped_configs().values():
        head = path.read_text(encoding="utf-8").split("title:")[0]
        assert "--model" in head or "embedded" in head
        assert all(line.startswith("#") for line in head.strip().splitlines())


def test_the_configuration_in_the_guide_is_accepted() -> None:
    (body,) = re.findall(r"^```yaml\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    config = BenchConfig.model_validate(yaml.safe_load(body))
    assert config.runtimes[2].options == {"optimization_level": [1, 3, 5]}


def test_the_guide_names_what_a_scenario_and_a_runtime_take() -> None:
    names = {*ScenarioEntry.model_fields, *RuntimeEntry.model_fields} - {"tf32", "name", "backend", "kind", "models"}
    assert [name for name in names if not re.search(rf"`{name}\b", GUIDE)] == []
