"""What `--help` shows, and what a shell completes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from tests.in_app import stderr_of, trtw
from tests.texts import held
from typer.testing import CliRunner

from trt_workbench.app import PURPOSES, app
from trt_workbench.backends.abilities import DividesModels
from trt_workbench.backends.registry import backend_names, get_backend
from trt_workbench.build_engine import cli as build_engine
from trt_workbench.console.common import COMMON, single_command_app
from trt_workbench.core.settings import MORE
from trt_workbench.evaluate import cli as eval_coco
from trt_workbench.vision.families import family_names

COMMANDS = sorted(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
# What these work on is no model: configurations, run directories, the machine.
WITHOUT_MODEL = {
    "gate",
    "backends",
    "bench",
    "build-ort",
    "compare",
    "doctor",
    "merge",
    "report",
    "setup-tensorrt",
    "submit",
}


def sections(text: str) -> list[str]:
    """The headings of a help text."""
    return [line.removesuffix(":") for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]


def options(text: str, section: str) -> list[str]:
    """The options of a section of a help text."""
    part = text.split(f"\n{section}:\n")[1].split("\n\n")[0]
    return [line.split()[0].rstrip(",") for line in part.splitlines() if line.startswith("  -")]


def divides(name: str) -> bool:
    return isinstance(get_backend(name), DividesModels)


def completed(program: str, words: str) -> list[str]:
    """What bash gets to complete the last of `words` with, from a real process."""
    name = f"_{program.replace('-', '_').upper()}_COMPLETE"
    line = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - (not words.endswith(" ")))}
    environment = {**os.environ, **line, name: "complete_bash"}
    function = "main" if program == "trtw" else program.replace("-", "_")
    code = f"import sys; sys.argv = [{program!r}]; from trt_workbench.main import {function}; {function}()"
    call = [sys.executable, "-c", code]
    return subprocess.run(call, env=environment, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("command", COMMANDS)
def test_five_options_lead_and_what_all_commands_share_stands_last(command: str) -> None:
    text = trtw(command, "-h").stdout
    assert text == trtw(command, "--help").stdout
    assert sections(text)[-1] == COMMON
    assert options(text, COMMON)[-1] == "-h"
    assert set(options(text, COMMON)) <= {"--output", "-o", "--json", "--debug", "-h"}
    if "Options" in sections(text):
        assert len(options(text, "Options")) <= 5
        assert sections(text)[0] in {"Arguments", "Options"}
    if MORE in sections(text):
        assert sections(text)[-2] == MORE


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in WITHOUT_MODEL])
def test_the_model_is_the_first_argument(command: str) -> None:
    parameters = typer.main.get_command(app).commands[command].params  # type: ignore[attr-defined]
    assert parameters[0].param_type_name == "argument"
    assert parameters[0].name in {"model", "plan", "target", "file", "contract"}


@pytest.mark.parametrize("command", COMMANDS)
def test_arguments_are_in_capitals(command: str) -> None:
    text = trtw(command, "-h").stdout
    places = text.splitlines()[0].removeprefix(f"Usage: trtw {command} [OPTIONS]").split()
    assert [place for place in places if not re.fullmatch(r"[A-Z_|]+(\.\.\.)?|\[[A-Z_|]+(\.\.\.)?\]", place)] == []
    if places:
        rows = [line for line in text.split("\nArguments:\n")[1].split("\n\n")[0].splitlines() if line[2] != " "]
        assert [line.split()[0] for line in rows] == [place.strip("[].") for place in places]


def test_the_bound_of_a_decision_leads() -> None:
    leading = {"--data", "--annotations", "--backends", "--precisions", "--max-loss"}
    assert set(options(trtw("decide", "-h").stdout, "Options")) == leading


@pytest.mark.parametrize("command", COMMANDS)
def test_types_are_words_and_not_pythons(command: str) -> None:
    text = trtw(command, "-h").stdout
    assert set(re.findall(r" <(\w[^<>|]*)>", text)) <= {"path", "str", "int", "float", "command", "run-id"}


def test_every_family_is_named() -> None:
    text = " ".join(trtw("eval-coco", "-h").stdout.split())
    ours = {name for name in family_names() if name not in ("yolox-raw", "yolox-decoded")}
    named = text.split("Family (")[1].split(")")[0].replace("- ", "-")  # lines may end in a hyphen
    assert set(named.split(", ")) == ours


def test_the_list_of_commands_has_whole_sentences_at_80_columns() -> None:
    text = CliRunner(env={"COLUMNS": "80"}).invoke(app, ["--help"]).stdout
    listed = text.split("\nSee:\n")[1]
    assert all(f"  {name} " in listed for name in COMMANDS)
    assert "..." not in listed
    assert listed.count(".\n") >= len(COMMANDS)
    assert max(map(len, text.splitlines())) <= 80


def test_a_long_sentence_in_the_list_of_commands_goes_on_in_a_further_line(monkeypatch: pytest.MonkeyPatch) -> None:
    group = typer.main.get_command(app)
    sentence = " ".join(["word"] * 40) + "."
    monkeypatch.setitem(PURPOSES["Set up"], "doctor", ("", sentence))
    shown = group.get_help(group.make_context("trtw", ["--version"], resilient_parsing=True))
    assert f"doctor {sentence}" in " ".join(shown.split())


def test_options_stand_under_their_panels() -> None:
    text = trtw("build-engine", "--help").stdout
    assert sections(text)[:3] == ["Arguments", "Options", "Precision"]
    assert options(text, "Options") == ["-o", "--precision", "--max-batch", "--verify", "--dry-run"]
    timings = ["--timing-cache", "--timing-cache-strict", "--editable-timing-cache", "--build-number"]
    assert options(text, "Timing cache") == timings
    assert text.count("--precision ") == 1


def test_a_console_script_shows_the_same_panels() -> None:
    own = CliRunner().invoke(single_command_app(build_engine.build_engine), ["-h"]).stdout
    assert sections(own) == sections(trtw("build-engine", "--help").stdout)
    added = set(options(own, COMMON)) - set(options(trtw("build-engine", "-h").stdout, COMMON))
    assert added == {"--install-completion", "--show-completion"}


@pytest.mark.parametrize("command", ["infer-engine", "profile", "inspect"])
def test_loading_an_engine_has_one_panel_of_the_same_options(command: str) -> None:
    text = trtw(command, "--help").stdout
    assert {"--trust", "--allow-host-code", "--device"} <= set(options(text, "Loading an engine"))


def test_a_shell_completes_commands_options_and_choices() -> None:
    assert completed("trtw", "trtw eval-") == ["eval-coco", "eval-vision", "eval-llm", "eval-stream", "eval-speech"]
    assert completed("trtw", "trtw build-engine --timing-cache") == ["--timing-cache", "--timing-cache-strict"]
    assert completed("build-engine", "build-engine --verify f") == ["full", "fix"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("verify m.onnx --backend ort-", ["ort-trt", "ort-rtx", "ort-cuda", "ort-cpu"]),
        ("decide m.onnx --backends trt,torch", ["trt,torch", "trt,torch-compile"]),
        ("build-engine m.onnx --precision fp", ["fp32", "fp16", "fp8", "fp4"]),
        ("decide m.onnx --precisions fp32,int8", ["fp32,int8", "fp32,int8-mixed"]),
        ("quantize m.onnx --to int", ["int8", "int4-weights"]),
        ("partitions m.onnx --backend ort-", [name for name in backend_names() if divides(name)]),
        ("upgrade m.onnx --to fp", []),  # a stack, not a format
    ],
)
def test_a_shell_completes_backends_and_precisions(words: str, expected: list[str]) -> None:
    assert sorted(completed("trtw", f"trtw {words}")) == sorted(expected)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_short_form_of_what_is_written_is_the_same_everywhere(name: str) -> None:
    known = typer.main.get_command(app).commands[name].params  # type: ignore[attr-defined]
    written = [one.opts for one in known if {"--output", "--plan"} & {*one.opts}]
    assert all("-o" in opts for opts in written)
    assert [one.opts for one in known if "-o" in one.opts] == written


def test_a_shell_is_given_its_script(monkeypatch: pytest.MonkeyPatch) -> None:
    # else typer looks for the shell that this process runs in, which a machine of CI may not have
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    for program in (app, single_command_app(eval_coco.eval_coco)):
        for shell, text in (("bash", "COMP_WORDS"), ("zsh", "compdef"), ("fish", "complete --command")):
            shown = CliRunner().invoke(program, ["--show-completion", shell])
            assert (shown.exit_code, text in shown.stdout) == (0, True), shown.output


def test_the_model_is_named_once(tmp_path: Path) -> None:
    held(stderr_of("eval-coco", "a.onnx", "--model", tmp_path / "b.onnx"))
