"""Words of trtexec, Polygraphy, ultralytics and lm-eval are refused with what to say here."""

import functools
import inspect
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.in_app import stderr_of, stdout_of

from trt_workbench.app import PURPOSES, app
from trt_workbench.console import foreign_words
from trt_workbench.console.common import PanelCommand
from trt_workbench.console.options import expanded

GROUP: Any = typer.main.get_command(app)
# Of options that are named without one.
VALUES = {
    **dict.fromkeys(("--batch", "--max-batch", "--streams", "--device", "--dla-core", "--optimization-level"), "1"),
    **dict.fromkeys(("--imgsz", "--max-dets", "--workspace", "--warmup"), "320"),
    **dict.fromkeys(("--conf", "--iou"), "0.5"),
    **dict.fromkeys(("--precision", "--precisions"), "fp16"),
    **dict.fromkeys(("--data", "--inputs", "--text", "--calibration", "--plugin", "--annotations"), "made"),
    **dict.fromkeys(("--timing-cache", "--export-times", "--plan"), "made.file"),
    **{"--to": "int8", "--dim": "n=1", "--input": "x=x.npy", "--percentiles": "99", "--verbosity": "verbose"},
}
# Of options that a command requires.
REQUIRED = {"submit --to": "local", "quantize --to": "int8", "upgrade --to": "made"}
# What chooses among a tool's own formats, or the library below it.
OF_THE_TOOL = {"format", "int8", "--model", "images", "pretrained"}
FLAGS = {name: {flag for one in of.params for flag in one.opts} for name, of in GROUP.commands.items()}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("verify m.onnx --fp16", "--fp16 is an option of trtexec; use --precision fp16 here."),
        ("decide m.onnx --int8", "--int8 is an option of trtexec; use --precisions int8 here."),
        ("quantize m.onnx --fp8", "--fp8 is an option of trtexec; use --to fp8 here."),
        ("inspect m.onnx --fp16", "inspect has none like it (other commands: --precision fp16)."),
        ("build-engine --onnx=m.onnx", "--onnx is an option of trtexec. Give the model as the first"),
        ("build-engine m.onnx --saveEngine=m.plan", "; use --plan m.plan here."),
        ("build-engine m.onnx --minShapes=x:1x3", "is an option of trtexec; use --profile NAME:MIN/OPT/MAX here."),
        ("infer-engine m.plan --shapes=x:1x3", "; use --shape NAME:1x3x640x640 here."),
        (
            "infer-engine m.plan --loadInputs=x:x.bin --warmUp=200",
            "; use --input here. --warmUp is an option of trtexec; use --warmup here.",
        ),
        ("build-engine m.onnx --output m.plan", "--output is an option of other commands; use --plan here."),
        ("inspect m.onnx --output folder", "This command has no run directory."),
        ("eval-stream m.onnx --transcribe test.jsonl", ". `trtw eval-speech` transcribes, and takes the manifest with"),
        ("decide m.onnx --variants v.yaml", "of earlier releases; use --option trt:optimization_level=5 here."),
        ("decide m.onnx --targets rtx5090", ". `trtw check-target m.onnx --gpu rtx5090` compiles"),
        ("quantize m.onnx --percentile 99", "; use --method mse here."),
        ("infer-engine m.plan --state a=b", ". `trtw eval-stream --mode device` keeps states on the device"),
        ("infer-engine m.plan --profiler", ". `trtw profile --nsys` records"),
        ("export-triton m.onnx --ensemble", ". The backend v2 prepares images"),
        ("export-triton m.onnx --cuda-graphs", ". Triton's config.pbtxt takes it"),
        ("export-triton m.onnx --preferred 4,8", ". Triton's config.pbtxt takes it"),
        ("export-triton m.onnx --instances 2", "takes it as count of instance_group."),
        ("export-triton m.onnx --delay-us 500", "takes it as max_queue_delay_microseconds."),
        ("export-triton m.onnx --no-batching", "Leave dynamic_batching out"),
        ("export-triton m.onnx --version 2", "in folder 1, which may be renamed."),
        ("eval-llm folder --opset 18", ". `trtw export-llm --opset 18` writes graphs"),
        ("eval-speech m.onnx --manifest test.jsonl", "--manifest is an option of NeMo; use --data here."),
        ("predict m.onnx --data images", "Give images and folders after the model."),
        ("verify m.onnx --trt", "--trt is an option of Polygraphy; use --backend trt here."),
        ("verify m.onnx --rtol 1e-3", "verify derives its limits from the precision"),
        (
            "predict model=yolo.onnx source=street.jpg",
            "model= is an option of ultralytics. Give the model as the first",
        ),
        ("predict yolo.onnx --source street.jpg", "Give images and folders after the model."),
        ("eval-coco m.onnx data=coco.yaml", "data= is an option of ultralytics; use --data here."),
        ("eval-coco m.onnx --data coco imgsz=640", "; use --imgsz here."),
        ("eval-coco m.onnx workers=8 plots=True", "workers= is an option of ultralytics; use --workers here."),
        ("eval-coco m.onnx --batch-size=8", "; use --batch here."),
        (
            "predict m.onnx a.jpg classes=0 max_dets=3",
            "use --classes here. max_dets= is an option of ultralytics; use --max-",
        ),
        ("predict m.onnx task=detect", "task= is an option of ultralytics. The task is read from the model."),
        ("build-engine m.onnx --buildOnly", "`trtw build-engine` only builds an engine"),
        ("polygraphy run m.onnx", "There is no command 'polygraphy' here; `trtw verify` does that."),
        ("quantize m.onnx --precision int8", "--precision is an option of other commands; use --to here."),
        ("build-engine m.onnx --to fp16", "--to is an option of other commands; use --precision here."),
        ("decide m.onnx --precision fp16", "--precision is an option of other commands; use --precisions here."),
        ("eval-llm folder --precision bf16", "; use --backends ort-cpu:bf16 here."),
        ("quantize m.onnx --calibration-annotations a.json", "; use --annotations here."),
        ("verify hf://org/name/m.onnx", " hf://org/name/m.onnx is an address; only local files are read."),
        ("decide m.onnx --data https://host.example/coco.zip", "https://host.example/coco.zip is an address; only"),
        ("bench https://host.example/m.onnx", "https://host.example/m.onnx is an address; only local files are read."),
        ("eval-llm folder --batch_size 8", "--batch_size is an option of lm-eval; use --batch here."),
        ("bench m.onnx --iterations=10", "`trtw infer-engine` takes --iterations and --duration."),
        (
            "build-engine m.onnx --explicitBatch --verbose",
            "explicit. --verbose is an option of trtexec; use --verbosity here.",
        ),
        ("infer-engine m.plan --exportOutput=o.json", "--exportOutput is an option of trtexec; use --save here."),
        ("--onnx=m.onnx --fp16", "A command comes first, such as `trtw inspect MODEL`; `trtw -h` lists them."),
        ("m.onnx", "A command comes first"),
        ("val", "There is no command 'val' here; `trtw eval-coco` does that."),
    ],
)
def test_a_word_of_another_tool_is_refused_with_ours(call: str, said: str) -> None:
    text = " ".join(stderr_of(*call.split()).split())
    assert said in text


@pytest.mark.parametrize(
    "call",
    [
        "inspect yolo26n.pt",
        "verify yolo26n.pt",
        "predict yolo26n.pt image.jpg",
        "bench yolo26n.pt",
        "infer-engine yolo26n.pt",
    ],
)
def test_a_checkpoint_is_refused_with_how_it_is_exported(call: str) -> None:
    text = " ".join(stderr_of(*call.split()).split())
    assert (
        "This is a checkpoint, not an ONNX model. Export it first: `yolo export model=yolo26n.pt format=onnx`" in text
    )


def test_weights_of_a_language_model_are_given_by_their_folder() -> None:
    assert "`trtw eval-llm` and `trtw export-llm` take their folder" in stderr_of("inspect", "model.safetensors")


def reading(name: str) -> Any:
    """A command that reads what was typed as it always does, and then does nothing."""
    original = inspect.unwrap(GROUP.commands[name].callback)

    @functools.wraps(original)
    def nothing(*_: Any, **__: Any) -> None: ...

    made = typer.Typer(rich_markup_mode=None)
    made.command(name, cls=PanelCommand)(expanded(nothing))
    return typer.main.get_command(made)


def typed(command: Any, words: list[str]) -> str | None:
    """Type words and what else the command requires; return what it says against them."""
    for one in command.params:
        if one.required and one.param_type_name == "argument":
            words = ["m.onnx", *words]
        elif one.required and one.opts[0] not in words:
            words = [*words, one.opts[0], REQUIRED.get(f"{command.name} {one.opts[0]}", "made")]
    try:
        command.main(args=words, standalone_mode=False, prog_name=command.name)
    except Exception as refusal:
        return f"{command.name} {' '.join(words)}: {getattr(refusal, 'message', refusal)}"
    return None


@pytest.mark.parametrize("name", FLAGS)
def test_what_is_said_is_taken_when_it_is_typed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eleven answers once were refused in their turn, such as `quantize --to fp32`."""
    monkeypatch.chdir(tmp_path)
    command, refused = reading(name), []
    flags = [flag for one in command.params for flag in (*one.opts, *one.secondary_opts)]
    for word in foreign_words.OPTIONS.keys() - {*flags}:
        said = foreign_words.advice(name, [word if word[0] == "-" else f"{word}1"], flags)
        assert said, word
        for answer in re.findall(r"; use (--.+) here\.$", said):
            words = shlex.split(answer)
            refused.append(typed(command, [*words, VALUES[words[-1]]] if words[-1] in VALUES else words))
        for other, rest in re.findall(r"`trtw ([a-z][\w-]*)((?: [^`]+)?)`", said):
            words = [one for one in shlex.split(rest) if one not in ("m.onnx", "m.plan")]
            refused.append(typed(reading(other), [*words, "m.plan"] if words[-1:] == ["--plan"] else words))
    assert [one for one in refused if one] == []


PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "coming-from.md").read_text(encoding="utf-8")
ROWS = [row for row in re.findall(r"^\| (.*) \| (.*) \|$", PAGE, re.MULTILINE) if "`" in row[0]]


@pytest.mark.parametrize(("theirs", "ours"), ROWS, ids=[theirs.strip("`") for theirs, _ in ROWS])
def test_commands_of_the_page_are_ours_and_theirs(
    theirs: str, ours: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours are taken as they are shown; each option of theirs is one that our command has, or answers with ours."""
    monkeypatch.chdir(tmp_path)
    made = [shlex.split(one) for one in re.findall(r"`trtw ([^`]+)`", ours)]
    assert made
    for name, *words in made:
        reading(name).main(args=words, standalone_mode=False, prog_name=name)
    name = made[-1][0]
    options = [word for word in shlex.split(theirs.strip("`")) if word.startswith("--") or "=" in word]
    foreign = [word for word in options if word.partition("=")[0] not in FLAGS[name] | OF_THE_TOOL]
    assert [word for word in foreign if not foreign_words.advice(name, [word], [*FLAGS[name]])] == []


def test_commands_of_other_tools_are_ours() -> None:
    assert {name for name in foreign_words.COMMANDS.values() if name not in GROUP.commands} == set()
    assert foreign_words.COMMANDS.keys() & GROUP.commands.keys() == set()
    assert len(foreign_words.OPTIONS) >= 40


def test_the_list_of_commands_is_by_purpose() -> None:
    listed = stdout_of("-h").split("\n\n")
    shown = {part.split(":")[0]: part for part in listed}
    assert [part for part in shown if part in PURPOSES] == [*PURPOSES]
    assert all(f"  {name} " in shown[purpose] for purpose, names in PURPOSES.items() for name in names)


@pytest.mark.parametrize("words", [["--option", "device=1"], ["--opset", "half=1"], ["--imgsz=640"]])
def test_a_value_of_an_option_is_no_such_word(words: list[str]) -> None:
    assert foreign_words.advice("predict", words, ["--option", "--opset", "--imgsz"]) is None


def test_a_file_of_that_name_is_no_such_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert foreign_words.advice("predict", ["data=x"], [])
    Path("data=x").touch()
    assert foreign_words.advice("predict", ["data=x"], []) is None
