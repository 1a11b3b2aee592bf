"""The documents show commands, options, settings and links that exist."""

import dataclasses
import json
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from pydantic import TypeAdapter
from tests.guides import whole

from trt_workbench.app import app
from trt_workbench.core.compare import Difference
from trt_workbench.core.verification import UNDECIDED, UNVERIFIED, WRONG
from trt_workbench.decide.chart import draw_decision
from trt_workbench.decide.document import Decision
from trt_workbench.engine.cache import CacheKey
from trt_workbench.engine.manifest import Manifest
from trt_workbench.engine.options import BuildSettings
from trt_workbench.report.style import WIDE
from trt_workbench.stream.check.document import Check, ContractCheck, ContractViolation, StateFact
from trt_workbench.stream.contract import parts
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.parts import Gate, Gates
from trt_workbench.stream.contract.static_check import contradictions
from trt_workbench.verify.document import (
    BisectFindings,
    CaseFindings,
    FixFindings,
    OutputFindings,
    PropertyFindings,
    VerifyFindings,
)
from trt_workbench.verify.reference import CallRecordIndex, Recorded
from trt_workbench.verify.verdict import CONSISTENT, RIGHT
from trt_workbench.verify.yardstick import Limit

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs" / "guides").glob("*.md"),
        *(ROOT / "docs" / "reference").rglob("*.md"),
    ]
)
PICTURE = ROOT / "docs" / "pictures" / "decision-h200.svg"
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")
_FRONT = {"trtw", "pixi", "run", "tasks/run"}


def shown_commands(text: str) -> list[list[str]]:
    """Every command line of this project in fences and in single backquotes, split into words."""
    fences = [body for kind, body in _FENCE.findall(text) if kind in ("sh", "console", "")]
    lines = [line for body in fences for line in body.replace("\\\n", " ").splitlines()]
    lines += _INLINE.findall(_FENCE.sub("", text))
    found = []
    for line in lines:
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            continue
        while words and (words[0] in _FRONT or words[0] == "-e"):
            words = words[2 if words[0] == "-e" else 1 :]
        if words and words[0] in COMMANDS:
            found.append(words)
    return found


def options_of(command: Any) -> set[str]:
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_options_that_are_shown_exist(document: Path) -> None:
    for name, *words in shown_commands(document.read_text(encoding="utf-8")):
        known = options_of(COMMANDS[name]) | {"--help"}
        for word in words:
            if word.startswith("-") and not word.lstrip("-").replace(".", "").isdigit():
                assert word.split("=")[0] in known, f"{name} {word}"


def test_a_wrong_option_would_be_found() -> None:
    words = shown_commands("```sh\npixi run -e rtx5090 build-engine m.onnx --precison fp16\n```\n")
    assert words == [["build-engine", "m.onnx", "--precison", "fp16"]]
    assert "--precison" not in options_of(COMMANDS["build-engine"])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    text = _FENCE.sub("", document.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if "://" not in target:
            assert (document.parent / target).exists(), target


def test_pages_that_messages_name_exist() -> None:
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "python").rglob("*.py"))
    named = {name for text in texts for name in re.findall(r"docs/(?:guides|reference)/[\w/-]+\.md", text)}
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def headings(page: Path) -> set[str]:
    """The names by which links lead to the headings of a page, as GitHub makes them."""
    found = re.findall(r"^#+ (.*)", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", one) for one in found]
    return {re.sub(r"[^\w\- ]", "", one.strip().lower()).replace(" ", "-") for one in plain}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_headings(document: Path) -> None:
    text = _FENCE.sub("", document.read_text(encoding="utf-8"))
    for target, name in re.findall(r"\]\(([^)#]*)#([^)]+)\)", text):
        if "://" not in target:
            assert name in headings(document.parent / target if target else document), f"{target}#{name}"


def test_the_readme_names_every_command_and_links_every_guide() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"`{name}`" not in text] == []
    pages = [*(ROOT / "docs" / "guides").glob("*.md"), *(ROOT / "docs" / "reference").glob("*.md")]
    assert [page.name for page in pages if f"({page.relative_to(ROOT)})" not in text] == []


def test_options_in_the_guides_of_the_engine_commands_exist() -> None:
    """Options that are named alone, outside a command line, too."""
    for name in ("build-engine", "infer-engine", "setup-tensorrt", "build-ort"):
        text = whole(name)
        everything = {option for command in COMMANDS.values() for option in options_of(command)}
        named = {
            word for inline in _INLINE.findall(_FENCE.sub("", text)) for word in re.findall(r"--[a-z][\w-]*", inline)
        }
        assert named - everything - {"--capture-range", "--help", "--force-reinstall"} == set()


def test_every_build_option_is_in_its_guide() -> None:
    text = whole("build-engine")
    long = {option for option in options_of(COMMANDS["build-engine"]) if option.startswith("--")}
    opposites = {"--weakly-typed", "--plugin-instance-norm", "--help", "--plan", "--debug", "--device"}
    assert {option for option in long - opposites if f"{option}" not in text} <= {
        "--calibration-batch",
        "--calibration-algorithm",
    }


def test_every_option_of_build_ort_is_in_its_guide() -> None:
    text = whole("build-ort")
    long = {option for option in options_of(COMMANDS["build-ort"]) if option.startswith("--")}
    assert {option for option in long if option not in text} == {"--install", "--json", "--debug"}


def test_defaults_in_the_guide_are_those_of_the_options() -> None:
    text = whole("infer-engine")
    rows = re.findall(r"^\| (`--.*?) \| (.*?) ?\| .*\|$", text.split("\n| option | default | |\n")[1], re.MULTILINE)
    by_name = {name: parameter for parameter in COMMANDS["infer-engine"].params for name in parameter.opts}
    found = {}
    for named, said in rows:
        for name, default in zip(re.findall(r"`(--[a-z-]+)", named), said.split(", "), strict=True):
            found[name] = {"on": True, "spin": True, "off": False, "": None}.get(default, default)
    assert len(found) >= 9
    shown = {name: by_name[name].default for name in found}
    assert found == {name: str(value) if type(value) is int else value for name, value in shown.items()}


def test_the_settings_in_the_guide_are_accepted() -> None:
    text = whole("build-engine")
    bodies = [body for kind, body in _FENCE.findall(text) if kind == "yaml"]
    assert bodies
    for body in bodies:
        assert BuildSettings.model_validate(yaml.safe_load(body)).precision_text == "fp16+int8"


def test_the_streaming_contract_names_every_key_and_shows_a_sound_one() -> None:
    text = (ROOT / "docs" / "reference" / "streaming-contract.md").read_text(encoding="utf-8")
    (shown,) = [body for kind, body in _FENCE.findall(text) if kind == "json"]
    assert contradictions(Contract.model_validate_json(shown)) == []
    kinds = [
        Contract,
        Gates,
        Gate,
        ContractCheck,
        Check,
        ContractViolation,
        StateFact,
        parts.State,
        parts.Shift,
        parts.Chunking,
    ]
    kinds += [parts.Signal, parts.Length, parts.Constant, parts.Output, parts.Valid, parts.ChunkSize, parts.Memory]
    kinds += [parts.FrameCounter, parts.Mask]
    keys = {name for kind in [*kinds, parts.Invariant, parts.SymbolProfile] for name in kind.model_fields}
    assert sorted(key for key in keys if not re.search(rf"[`\".]{key}[`\"]", text)) == []


def test_the_inputs_that_a_caller_counts_are_those_of_the_page() -> None:
    text = (ROOT / "docs" / "reference" / "streaming-contract.md").read_text(encoding="utf-8")
    (shown,) = [body for kind, body in _FENCE.findall(text) if not kind and body.startswith('"offset"')]
    inputs = TypeAdapter(dict[str, parts.Input]).validate_json(f"{{{shown}}}")
    assert [one.role for one in inputs.values()] == ["counter", "constant", "mask"]


def test_the_gates_have_the_defaults_of_the_page() -> None:
    text = (ROOT / "docs" / "reference" / "streaming-contract.md").read_text(encoding="utf-8")
    rows = dict(
        re.findall(r"^\| `(\w+)` \| ([^|]*) \|", text.split("## Gates")[1].split("## check.json")[0], re.MULTILINE)
    )
    gates = Gates()
    shown = {key: json.loads(said.strip("`").removeprefix("rel_l2_max` ")) for key, said in rows.items()}
    found = gates.model_dump(exclude_none=True)
    assert shown.keys() > Gates.model_fields.keys()
    assert shown == {key: found[key] if key in Gates.model_fields else gates.of(key).rel_l2_max for key in shown}


def test_the_reference_of_verify_names_every_key() -> None:
    text = (ROOT / "docs" / "reference" / "verify.md").read_text(encoding="utf-8")
    kinds = [VerifyFindings, CaseFindings, OutputFindings, PropertyFindings, BisectFindings, FixFindings]
    keys = {key for kind in kinds for key in kind.__annotations__}
    keys |= {field.name for kind in (Difference, Limit) for field in dataclasses.fields(kind)} - {"precision"}
    keys |= {*CallRecordIndex.model_fields, *Recorded.model_fields}
    keys |= {
        "cases_left",
        "quick",
        "way",
        "case",
        "findings",
        "latency_ms",
        "relative_latency",
        "model",
        "options",
        "plan",
    }
    assert sorted(key for key in keys if f"`{key}`" not in text) == []
    assert [
        verdict for verdict in (RIGHT, CONSISTENT, UNVERIFIED, UNDECIDED, WRONG) if f"`{verdict}`" not in text
    ] == []


def test_the_references_name_every_field() -> None:
    manifest = (ROOT / "docs" / "reference" / "manifest.md").read_text(encoding="utf-8")
    assert [name for name in Manifest.model_fields if f"`{name}`" not in manifest] == []
    cache = (ROOT / "docs" / "reference" / "engine-cache.md").read_text(encoding="utf-8")
    parts = {"model_sha256", "options", "tensorrt_version", "driver_version", "gpu_name", "compute_capability"}
    parts |= {"native_version", "calibration_sha256", "plugins_sha256"}
    assert set(CacheKey.__dataclass_fields__) == parts  # a new part belongs into the document as well
    assert "`timing_cache_strict`, `verbosity`, `max_threads`, `device`" in cache


def test_the_readmes_answer_is_the_record_and_its_picture_is_the_reports(tmp_path: Path) -> None:
    record = ROOT / "docs" / "benchmarks" / "precision" / "h200" / "decision.json"
    decision = Decision.model_validate_json(record.read_text(encoding="utf-8"))
    quoted = " ".join((ROOT / "README.md").read_text(encoding="utf-8").replace("\n> ", " ").split())
    assert decision.recommendation is not None
    assert decision.recommendation.sentence in quoted
    drawn = draw_decision(decision, tmp_path / "again.svg", WIDE)
    texts = [re.findall(r">([^<>]+)</text>", path.read_text(encoding="utf-8")) for path in (drawn, PICTURE)]
    assert texts[0] == texts[1]
    assert "fp16 trt" in texts[0]


def test_the_story_has_the_figures_of_its_record() -> None:
    record = ROOT / "docs" / "benchmarks" / "precision" / "h200" / "decision.json"
    rows = {(row.precision, row.backend): row for row in Decision.model_validate_json(record.read_text("utf-8")).rows}
    text = (ROOT / "docs" / "guides" / "story.md").read_text(encoding="utf-8").replace("**", "").replace("\u2212", "-")
    lines = re.findall(r"^\| ([\w-]+)[^|]* \|((?: [-\d].*? ms \|){3})$", text, re.MULTILINE)
    assert len(lines) == 4
    for precision, cells in lines:
        for backend, cell in zip(("trt", "ort-cuda", "torch"), cells.split("|"), strict=False):
            row = rows[precision, backend]
            assert row.score
            assert row.speed
            found = [row.score.value, *([row.score.loss] if precision != "fp32" else []), row.speed.latency_ms]
            shown = re.findall(r"-?[\d.]+", cell)
            assert [f"{one:.{len(text.partition('.')[2])}f}" for one, text in zip(found, shown, strict=True)] == shown


def test_the_pictures_of_reports_are_all_shown_and_small() -> None:
    folder = ROOT / "docs" / "pictures" / "reports"
    shown = re.findall(r'<img src="([^"]+)"', (folder / "README.md").read_text(encoding="utf-8"))
    pictures = list(folder.glob("*.png"))
    assert sorted(shown) == sorted(path.name for path in pictures)
    assert sum(path.stat().st_size for path in pictures) < 2_000_000
    assert set(Counter(name.rsplit("-", 2)[0] for name in shown).values()) == {4}  # two widths, light and dark
