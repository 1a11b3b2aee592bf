"""eval-llm through its command line."""

import json
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.faulty_llm import Faulty, rows_after_the_first
from tests.fork_server import ForkServer
from tests.in_app import stderr_of, stdout_of, trtw
from tests.texts import held

pytestmark = pytest.mark.usefixtures("llm_output", "blank_pictures")

Folders = Callable[[str], Path]
TEXT = Path(__file__)


def test_a_whole_run(llm_folder: Folders, tmp_path: Path) -> None:
    out = tmp_path / "out"
    modes = "generate-cached,perplexity,generate"
    options = ("--limit", "400", "--modes", modes, "--prompt", "6,9", "--new-tokens", "4")
    result = trtw("eval-llm", llm_folder("llama"), "--text", TEXT, "--output", out, "--batch", "2", *options)
    assert result.exit_code == 0, result.output
    made = {path.name for path in out.iterdir()}
    assert made == {"metrics.json", "records.jsonl", "env.json", "run.json", "work.json", "report.html"}
    for text in ("torch:fp32", "ort-cpu:fp32", "generate-cached", "passed", str(out / "report.html")):
        assert text in result.stdout
    assert "Windows of 64 tokens start every 32 tokens" in result.stderr
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["status"] == "complete"
    assert len(metrics["generation"]) == 8
    for row in metrics["generation"]:
        agreement = row["agreement"]
        assert agreement["reference"] == "torch:fp32"
        assert agreement["failure"] is agreement["first_difference"] is None
        assert (agreement["sequences"], agreement["tokens"]) == (2, 4)
        assert agreement["max_logit_difference"] < 1e-4 < agreement["logit_difference_limit"]
    page = (out / "report.html").read_text()
    for text in ("Perplexity by backend", "generate-cached", metrics["recipe"]["text"], metrics["text"]["sha256"]):
        assert text in page
    # the folder names its parts by what they are, nothing by where the page was made
    assert "http" not in page.split("<main>")[1].replace("http://www.w3.org", "")  # names of SVG


def test_json_is_one_document(llm_folder: Folders, tmp_path: Path) -> None:
    options = ("--json", "--no-report", "--limit", "100", "--option", "ort-cpu:graph_optimization_level=basic")
    result = trtw("eval-llm", llm_folder("gpt2"), "--text", TEXT, "--output", tmp_path / "out", *options)
    document = json.loads(result.stdout)
    assert document["options"] == {"ort-cpu": {"graph_optimization_level": "basic"}}
    assert document["backends"][1]["provenance"]["graph_optimization_level"] == "basic"
    assert document["directory"] == str(tmp_path / "out")
    assert document["perplexity"] > 1
    assert document["tokens"] == 99
    assert not (tmp_path / "out" / "report.html").exists()


def test_generation_alone(llm_folder: Folders, tmp_path: Path) -> None:
    options = ("--modes", "generate", "--prompt", "6", "--new-tokens", "2", "--backends", "torch", "--limit", "100")
    printed = stdout_of("eval-llm", llm_folder("gpt2"), "--text", TEXT, "--output", tmp_path / "out", *options)
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert (metrics["perplexity"], metrics["backends"]) == (None, [])
    assert len(metrics["generation"]) == 1
    assert "Gate" not in printed


def test_what_does_not_generate_is_named_and_the_rest_is_kept(llm_folder: Folders, tmp_path: Path) -> None:
    from trt_workbench.backends.registry import availability

    if availability("ort-cuda").ok:
        pytest.skip("ort-cuda can serve here")
    folder, graphs, out, both = llm_folder("llama"), tmp_path / "graphs", tmp_path / "out", tmp_path / "both"
    # without the graph for generation with a cache
    stdout_of("export-llm", folder, "--graphs", "logits", "--output", graphs)
    options = ("--prompt", "6", "--new-tokens", "4", "--limit", "100", "--text", TEXT)
    wanted = ("--graphs", graphs, "--modes", "generate,generate-cached", "--backends", "ort-cpu,ort-cuda:fp16,torch")
    result = trtw("eval-llm", folder, "--output", out, *options, *wanted)
    assert result.exit_code == 3, result.output  # of the first: a component is missing
    assert [result.stdout.count(name) for name in ("torch:fp32", "ort-cpu:fp32", "ort-cuda")] == [2, 1, 0]
    missed = [("ort-cuda:fp16", "generate"), ("ort-cpu:fp32", "generate-cached"), ("ort-cuda:fp16", "generate-cached")]
    for backend, mode in missed:
        assert f"failed: {backend}, {mode} (batch 1, prompt of 6 tokens): " in result.stderr
    ending = "error: Not every backend generates what PyTorch generates; the reasons are above. Run directory: "
    assert result.stderr.endswith(f"{ending}{out}\n")
    assert "Traceback" not in result.stderr
    assert json.loads((out / "run.json").read_text())["status"] == "complete"
    metrics = json.loads((out / "metrics.json").read_text())
    assert [row["error_kind"] for row in metrics["generation"]] == [
        *(None, "ComponentMissing", None),
        *("UsageProblem", "ComponentMissing", None),
    ]
    page = (out / "report.html").read_text()
    assert "Not every backend generates what PyTorch generates." in page
    assert all(f"{backend}, {mode} (batch 1" in page for backend, mode in missed)

    stdout_of("report", out, out, "--output", both)
    assert (out / "report.html").read_text() == page
    for name in ("overview.html", "overview.md"):
        text = re.sub("<[^>]+>", "", (both / name).read_text())  # a verdict is a pill
        assert re.search(r"failed\W*generate-cached b1 prompt 6\W*The export has no cached graph that fits", text)

    # with no result there is nothing to keep
    said = stderr_of("eval-llm", folder, "--output", tmp_path / "no", *options, *wanted[:5], "ort-cuda:fp16", code=3)
    assert said == f"error: {metrics['generation'][1]['failure']}\n"
    assert not (tmp_path / "no").exists()


# Sends a real signal to itself when so many backends have been compared. SIGINT is set up as in a terminal: shells have
# background jobs, such as a test run, ignore it.
INTERRUPTED_RUN = """
import os, signal, sys
from trt_workbench.llm.cli import main
from trt_workbench.llm import generation_check as llm_generation

signal.signal(signal.SIGINT, signal.default_int_handler)
ending, after = signal.Signals(int(sys.argv.pop(1))), int(sys.argv.pop(1))
opened, original = [], llm_generation._open

def open_(*given):
    opened.append(given)
    if len(opened) == after:
        os.kill(os.getpid(), ending)
    return original(*given)

llm_generation._open = open_
main()
"""


def interrupted(
    forks: ForkServer, ending: signal.Signals, after: int, out: Path, folder: Path, *options: str
) -> subprocess.CompletedProcess[str]:
    sizes = ("--prompt", "6", "--new-tokens", "4", "--limit", "100", "--device", "cpu")
    words = (int(ending), after, folder, "--text", TEXT, "--output", out, *sizes, *options)
    return forks.run(INTERRUPTED_RUN, *words, torch=True)


@pytest.mark.parametrize(
    ("ending", "modes", "after", "done"),
    [(signal.SIGINT, "generate", 3, 1), (signal.SIGTERM, "perplexity,generate", 1, 0)],
)
def test_an_interrupt_while_generating_keeps_a_partial_run(
    fork_server: ForkServer,
    llm_folder: Folders,
    tmp_path: Path,
    ending: signal.Signals,
    modes: str,
    after: int,
    done: int,
) -> None:
    out = tmp_path / "out"
    process = interrupted(fork_server, ending, after, out, llm_folder("llama"), "--modes", modes)
    assert process.returncode == 130, process.stderr
    assert f"Interrupted while generating (comparisons done: {done}); the results so far are kept" in process.stderr
    assert "Traceback" not in process.stderr
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["status"] == json.loads((out / "run.json").read_text())["status"] == "partial"
    assert [row["backend"] for row in metrics["generation"]] == ["torch"][:done]
    assert (metrics["bits_per_byte"] is not None) == ("perplexity" in modes)
    page = (out / "report.html").read_text()
    assert "Partial run." in page
    assert "interrupted while generating" in page
    assert ("the perplexity is complete" in page) == ("perplexity" in modes)
    stdout_of("report", out, "--output", tmp_path / "all")
    assert "partial" in (tmp_path / "all" / "overview.md").read_text()


def test_an_interrupt_before_the_first_result_keeps_nothing(
    fork_server: ForkServer, llm_folder: Folders, tmp_path: Path
) -> None:
    process = interrupted(fork_server, signal.SIGINT, 1, tmp_path / "out", llm_folder("llama"), "--modes", "generate")
    assert process.returncode == 130, process.stderr
    assert "nothing was kept" in process.stderr
    assert not list(tmp_path.iterdir())


def test_a_gate_that_fails(llm_folder: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trt_workbench.llm import run as llm

    real = llm.open_logits

    def opened(choice: Any, *rest: Any) -> Any:
        model = real(choice, *rest)
        if choice.name == "ort-cpu":
            run = model.logits
            model.logits = lambda tokens: run(tokens) * 1.2
        return model

    monkeypatch.setattr(llm, "open_logits", opened)
    out = tmp_path / "out"
    result = trtw("eval-llm", llm_folder("llama"), "--text", TEXT, "--limit", "200", "--output", out)
    assert result.exit_code == 1
    assert "error: The perplexity gate failed. ort-cpu:fp32" in result.stderr
    assert "failed" in result.stdout
    # the evidence is kept
    assert not json.loads((out / "metrics.json").read_text())["passed"]
    assert "The gate failed." in (out / "report.html").read_text()
    stdout_of("eval-llm", llm_folder("llama"), "--text", TEXT, "--limit", "200", "--max-ppl-increase", "100")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--modes", "prefill"), 2),
        (("--modes", "generate", "--prompt", "8,x"), 2),
        (("--bos", "first"), 2),
        (("--backends", "torch", "--graphs", "."), 2),
        (("--backends", "torch,onnx"), 2),
        (("--window", "65"), 2),
        (("--limit", "50"), 2),
        (("--backends", "ort-cpu:int3"), 2),
        (("--modes", "generate", "--prompt", "60", "--new-tokens", "5"), 2),
        (
            ("--modes", "generate", "--prompt", "51", "--new-tokens", "2", "--batch", "2", "--limit", "100"),
            2,
        ),
        (("--text", "gone.txt"), 2),
        *(
            (("--backends", f"torch,ort-cpu:{name}", "--modes", modes, "--calibration", "random"), 2)
            for name in ("int8", "fp8", "fp8-e5m2")
            for modes in ("generate-cached", "perplexity,generate-cached")
        ),
        (("--backends", "ort-cpu:fp8", "--modes", "generate"), 2),
        (("--backends", "ort-cpu:int8", "--calibration", "gone.txt"), 2),
        (("--device", "cuda"), 3),
        (("--option", "ort-cpu:spin=true"), 2),
        (("--option", "trt:device=1"), 2),
        (("--option", "torch:channels_last=true"), 2),
    ],
)
def test_errors(llm_folder: Folders, tmp_path: Path, options: tuple[str, ...], code: int) -> None:
    if "--device" in options:
        import torch

        if torch.cuda.is_available():
            pytest.skip("this machine has a GPU")
    text = () if "--text" in options else ("--text", TEXT)
    said = stderr_of("eval-llm", llm_folder("llama"), *text, "--output", tmp_path / "out", *options, code=code)
    held(said)
    assert "Traceback" not in said
    assert "Loading" not in said  # nothing that takes its time comes before
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "backend",
    [
        "ort-cpu:tf32",
        "ort-cuda:int8",
        "ort-trt:fp8",
        "torch-compile:int8",
        "trt:fp12",
    ],
)
def test_a_precision_is_refused_before_anything_is_loaded(
    llm_folder: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "tmp"))
    said = stderr_of(
        "eval-llm", llm_folder("llama"), "--text", TEXT, "--output", tmp_path / "out", "--backends", f"torch,{backend}"
    )
    held(" ".join(said.split()))
    assert "Exporting" not in said
    assert not list(tmp_path.iterdir())


def test_formats_are_made_and_named(llm_folder: Folders, tmp_path: Path) -> None:
    out, text = tmp_path / "out", tmp_path / "other.txt"
    text.write_text(TEXT.read_text(encoding="utf-8"), encoding="utf-8")
    backends = "torch,ort-cpu:bf16,ort-cpu:nvfp4,ort-cpu:fp8"
    options = ("--limit", "100", "--backends", backends, "--max-ppl-increase", "100", "--calibration", text)
    stdout_of("eval-llm", llm_folder("llama"), "--text", TEXT, "--output", out, "--no-report", *options)
    rows = {row["precision"]: row for row in json.loads((out / "metrics.json").read_text())["backends"]}
    assert rows["bf16"]["precision_ran"]["label"] == "bf16 (simulated)"
    for name in ("nvfp4", "fp8"):
        assert rows[name]["precision_ran"]["label"] == f"{name}+fp32 (simulated)"
        assert rows[name]["kl_divergence"] > rows["bf16"]["kl_divergence"] > 0


def test_ranges_need_a_text(llm_folder: Folders, tmp_path: Path) -> None:
    options = ("--limit", "100", "--backends", "torch,ort-cpu:int8")
    said = stderr_of("eval-llm", llm_folder("llama"), "--text", TEXT, "--output", tmp_path / "out", *options)
    held(" ".join(said.split()))


def test_the_reference_alone_has_a_report(llm_folder: Folders, tmp_path: Path) -> None:
    words = (llm_folder("gpt2"), "--text", TEXT, "--limit", "100", "--backends", "torch")
    stdout_of("eval-llm", *words, "--output", tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "torch:fp32" in page


def test_a_folder_of_pickles(llm_folder: Folders, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((llm_folder("llama") / "config.json").read_bytes())
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    held(stderr_of("eval-llm", tmp_path, "--text", TEXT))


def test_without_a_model_the_embedded_one_is_evaluated(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    result = trtw("eval-llm", "--limit", "1100", "--output", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "the embedded language model" in result.stderr
    assert "the embedded held-out text" in result.stderr
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics["passed"]
    assert [row["backend"] for row in metrics["backends"]] == ["torch", "ort-cpu"]


def test_a_masked_model_is_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48}
    transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=300, **sizes)).save_pretrained(tmp_path / "m")
    said = stderr_of("eval-llm", tmp_path / "m", "--text", TEXT, "--output", tmp_path / "out")
    held(" ".join(said.split()))
    assert not (tmp_path / "out").exists()


def a_number_that_is_none(logits: Any, calls: int) -> Any:
    if calls == 2:
        logits = logits.copy()
        logits[-1, 7] = float("nan")
    return logits


def one_wrong_token(logits: Any, calls: int) -> Any:
    """Negated once the logits have been compared, in the third token of what it generates by itself."""
    return -logits if calls == 4 + 3 else logits


@pytest.mark.parametrize("mode", ["generate", "generate-cached"])
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (rows_after_the_first, "in 1 of 2 sequences, first in sequence 1 at token 0, by"),
        (a_number_that_is_none, "in 1 of 2 sequences, first in sequence 1 at token 1, by NaN or infinity"),
        (one_wrong_token, "Its tokens differ from those of torch:fp32: in sequence"),
    ],
)
def test_wrong_generation_is_found(
    llm_folder: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Any, message: str, mode: str
) -> None:
    from trt_workbench.llm import generation_check as llm_generation

    for name in ("open_cached", "open_logits"):
        real = getattr(llm_generation, name)

        def opened(choice: Any, *arguments: Any, real: Any = real) -> Any:
            model = real(choice, *arguments)
            return Faulty(model, fault) if choice.name == "ort-cpu" else model

        monkeypatch.setattr(llm_generation, name, opened)
    out = tmp_path / "out"
    options = ("--modes", mode, "--prompt", "6", "--new-tokens", "4", "--batch", "2")
    result = trtw("eval-llm", llm_folder("llama"), "--text", TEXT, "--output", out, *options)
    assert result.exit_code == 1, result.output
    assert message in " ".join(result.stderr.split())
    assert "wrong" in result.stdout
    metrics = json.loads((out / "metrics.json").read_text())
    assert not metrics["passed"]
    torch, ort = metrics["generation"]
    assert (torch["failure"], torch["error_kind"]) == (None, None)
    assert (ort["backend"], ort["error_kind"]) == ("ort-cpu", "Disagreement")
    assert message in ort["agreement"]["failure"]
    assert ort["failure"] == ort["agreement"]["failure"]
    assert '<td class="text">wrong</td>' in (out / "report.html").read_text()


def test_near_ties_in_half_precision_are_named(llm_folder: Folders, tmp_path: Path) -> None:
    """With many tokens of a random model some are near ties, which fp16 turns over."""
    out = tmp_path / "out"
    options = ("--modes", "generate-cached", "--backends", "torch:fp16", "--batch", "32")
    sizes = ("--prompt", "4", "--new-tokens", "56")
    stdout_of("eval-llm", llm_folder("gpt2"), "--text", TEXT, "--output", out, *options, *sizes)
    (row,) = json.loads((out / "metrics.json").read_text())["generation"]
    agreement = row["agreement"]
    assert agreement["max_logit_difference"] > 1e-4
    assert agreement["first_difference"] is not None
    assert 0 <= agreement["logit_gap"] <= agreement["logit_gap_limit"]
    assert "then a near tie (gap" in (out / "report.html").read_text()
