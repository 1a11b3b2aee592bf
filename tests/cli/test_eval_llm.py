"""eval-llm through its command line."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from trt_workbench.cli.common import single_command_app
from trt_workbench.cli.eval_llm import eval_llm

Folders = Callable[[str], Path]
TEXT = Path(__file__)


@pytest.fixture(autouse=True)
def _output(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path_factory.getbasetemp() / "llm"))


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(single_command_app(eval_llm), [str(argument) for argument in arguments])


def test_a_whole_run(llm_folder: Folders, tmp_path: Path) -> None:
    out = tmp_path / "out"
    modes = "perplexity,prefill,generate,generate-cached"
    options = ("--limit", "400", "--modes", modes, "--prompt", "6,9", "--new-tokens", "4", "--repetitions", "2")
    result = invoke(llm_folder("llama"), "--text", TEXT, "--output", out, "--batch", "2", *options)
    assert result.exit_code == 0, result.output
    made = {path.name for path in out.iterdir()}
    assert made == {"metrics.json", "records.jsonl", "env.json", "run.json", "report.html", "plots"}
    plots = {"perplexity", "divergence", "speed-prefill", "speed-generate", "speed-generate-cached"}
    assert {path.stem for path in (out / "plots").iterdir()} == plots
    for text in ("torch:fp32", "ort-cpu:fp32", "generate-cached", "passed", str(out / "report.html")):
        assert text in result.stdout
    assert "Windows of 64 tokens start every 32 tokens" in result.stderr
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["status"] == "complete"
    assert all(row["same_tokens_as_torch"] for row in metrics["timing"])
    page = (out / "report.html").read_text()
    for text in ("Perplexity by backend", "generate-cached", metrics["recipe"]["text"], metrics["text"]["sha256"]):
        assert text in page
    # the folder names its parts by what they are, nothing by where the page was made
    assert "http" not in page.split("<main>")[1]


def test_json_is_one_document(llm_folder: Folders, tmp_path: Path) -> None:
    options = ("--json", "--no-report", "--limit", "100", "--backends", "torch")
    result = invoke(llm_folder("gpt2"), "--text", TEXT, "--output", tmp_path / "out", *options)
    document = json.loads(result.stdout)
    assert document["directory"] == str(tmp_path / "out")
    assert document["perplexity"] > 1
    assert document["tokens"] == 99
    assert not (tmp_path / "out" / "report.html").exists()


def test_timing_alone(llm_folder: Folders, tmp_path: Path) -> None:
    options = ("--modes", "prefill", "--prompt", "6", "--repetitions", "2", "--backends", "torch", "--limit", "100")
    result = invoke(llm_folder("gpt2"), "--text", TEXT, "--output", tmp_path / "out", *options)
    assert result.exit_code == 0, result.output
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert (metrics["perplexity"], metrics["backends"]) == (None, [])
    assert len(metrics["timing"]) == 1
    assert "Gate" not in result.stdout


def test_a_gate_that_fails(llm_folder: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trt_workbench.evaluate import llm

    real = llm.open_logits

    def opened(choice: Any, *rest: Any) -> Any:
        model = real(choice, *rest)
        if choice.name == "ort-cpu":
            run = model.logits
            model.logits = lambda tokens: run(tokens) * 1.2
        return model

    monkeypatch.setattr(llm, "open_logits", opened)
    out = tmp_path / "out"
    result = invoke(llm_folder("llama"), "--text", TEXT, "--limit", "200", "--output", out)
    assert result.exit_code == 1
    assert "error: The gate on the perplexity failed. ort-cpu:fp32" in result.stderr
    assert "failed" in result.stdout
    # the evidence is kept
    assert not json.loads((out / "metrics.json").read_text())["passed"]
    assert "The gate failed." in (out / "report.html").read_text()
    assert invoke(llm_folder("llama"), "--text", TEXT, "--limit", "200", "--max-ppl-increase", "100").exit_code == 0


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--modes", "decode"), 2, "--modes takes"),
        (("--modes", "prefill", "--prompt", "8,x"), 2, "--prompt takes one number"),
        (("--bos", "first"), 2, "--bos takes"),
        (("--backends", "torch,onnx"), 2, "no backend 'onnx'"),
        (("--window", "65"), 2, "64 positions"),
        (("--limit", "50"), 2, "fewer than one window"),
        (("--backends", "ort-cpu:int3"), 2, "int3"),
        (("--text", "gone.txt"), 2, "does not exist"),
        (("--device", "cuda"), 3, "sees no GPU"),
    ],
)
def test_errors(llm_folder: Folders, tmp_path: Path, options: tuple[str, ...], code: int, message: str) -> None:
    if "--device" in options:
        import torch

        if torch.cuda.is_available():
            pytest.skip("this machine has a GPU")
    text = () if "--text" in options else ("--text", TEXT)
    result = invoke(llm_folder("llama"), *text, "--output", tmp_path / "out", *options)
    assert result.exit_code == code
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("backend", "message"),
    [
        ("ort-cpu:fp16", "Backend ort-cpu runs language models in fp32, not 'fp16'."),
        ("ort-cuda:int8", "Backend ort-cuda runs language models in fp32, fp16, not 'int8'."),
        ("ort-trt:fp8", "Backend ort-trt runs language models in fp32, fp16, bf16, not 'fp8'."),
        ("torch-compile:int8", "Backend torch-compile runs language models in fp32, fp16, bf16, not 'int8'."),
        ("trt:fp12", "fp12"),
    ],
)
def test_a_precision_is_refused_before_anything_is_loaded(
    llm_folder: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, message: str
) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "tmp"))
    result = invoke(llm_folder("llama"), "--text", TEXT, "--output", tmp_path / "out", "--backends", f"torch,{backend}")
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert "Exporting" not in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_folder_of_pickles(llm_folder: Folders, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((llm_folder("llama") / "config.json").read_bytes())
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    result = invoke(tmp_path, "--text", TEXT)
    assert result.exit_code == 2
    assert "refused" in result.stderr


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from trt_workbench.cli.eval_llm import main; sys.argv = ['eval-llm', '--help']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(sorted({'numpy', 'torch', 'transformers', 'onnx', 'onnxruntime', 'matplotlib'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


def test_without_a_model_the_embedded_one_is_evaluated(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    result = invoke("--limit", "1100", "--output", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "the embedded language model" in result.stderr
    assert "the embedded held-out text" in result.stderr
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics["passed"]
    assert [row["backend"] for row in metrics["backends"]] == ["torch", "ort-cpu"]
