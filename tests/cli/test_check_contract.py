"""`check-contract` and `make-contract`: exit codes, documents, and nothing half-written."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.in_app import stderr_of, stdout_of, trtw
from tests.streaming_models import (
    C,
    F,
    attention,
    contract_of,
    convolution,
    degenerate,
    lstm,
    write_contract,
    zipformer,
)
from tests.texts import held

from trt_workbench.core.documents import read_document
from trt_workbench.stream.check.document import ContractCheck


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))


def test_a_sound_model_keeps_its_contract(tmp_path: Path) -> None:
    contract = write_contract(tmp_path / "contract.json", contract_of("degenerate"))
    result = trtw("check-contract", contract, degenerate(tmp_path), "--output", tmp_path / "run")
    assert result.exit_code == 0, result.stderr
    assert "degenerate.onnx: KEEPS its contract (on ort-cpu, 12 chunks)" in result.stdout
    assert "Dead state: cache_last_channel, cache_last_channel_len" in result.stdout
    assert "auto chose backend ort-cpu." in result.stderr
    found = read_document(tmp_path / "run" / "check.json", ContractCheck)
    assert (found.passed, found.backend, found.target["file"]) == (True, "ort-cpu", "degenerate.onnx")
    assert found.contract["name"].startswith("degenerate")
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"run.json", "env.json", "check.json", "report.html"}
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "degenerate.onnx keeps its contract" in page
    assert "noise in it changes no output up to chunk 11" in page
    checked = [check for check in found.checks if check.verdict == "passed"]
    assert f"All {len(checked)} checks passed." in page
    assert "(limit 1.00e-05)" in page
    (tmp_path / "run" / "report.html").unlink()
    assert trtw("report", tmp_path / "run").exit_code == 0
    assert (tmp_path / "run" / "report.html").read_text(encoding="utf-8") == page


def test_a_model_that_does_not_keep_it_is_exit_code_1(tmp_path: Path) -> None:
    contract = write_contract(tmp_path / "contract.json", contract_of("attention"))
    model = attention(tmp_path, ("cache_len_next = Min(longer, capacity)", "cache_len_next = Identity(cache_len)"))
    result = trtw("check-contract", contract, model, "--backend", "ort-cpu", "--json", "--output", tmp_path / "run")
    assert result.exit_code == 1
    assert result.stderr.startswith(
        "error: attention.onnx does not keep its contract: invariants: chunk 0, invariant len_out: "
        "cache_len_next == min(cache_len + encoded_len, C) does not hold"
    )
    document = json.loads(result.stdout)
    assert document["passed"] is False
    assert document["directory"] == str(tmp_path / "run")
    first = next(check for check in document["checks"] if check["verdict"] == "failed")["findings"][0]
    assert (first["chunk"], first["invariant"]) == (0, "len_out")


def test_contradictions_are_exit_code_2_all_at_once_and_leave_nothing(tmp_path: Path) -> None:
    document = contract_of("attention")
    document["inputs"]["length"]["dtype"] = "int32"
    document["state"].pop()
    contract = write_contract(tmp_path / "contract.json", document)
    words = ("check-contract", contract, attention(tmp_path), "--output", tmp_path / "run")
    result = trtw(*words, "--json")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: contract.json cannot be used because of 2 problems: ")
    assert len(result.stderr.splitlines()) == 1
    assert json.loads(result.stdout) == {
        "schema_version": 1,
        "passed": False,
        "problems": [
            "input cache_len has the role state, but no state pair says which output it takes",
            "length is int64 in the model and int32 in the contract",
        ],
    }
    assert trtw(*words).stdout == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["attention.onnx", "contract.json"]


def test_a_contract_that_is_not_there_is_said_to_be_none(tmp_path: Path) -> None:
    said = stderr_of("check-contract", tmp_path / "c.json", convolution(tmp_path))
    held(said)


def test_states_that_are_exchanged_against_their_names_are_named(tmp_path: Path) -> None:
    document = contract_of("lstm")
    document["state"] = [{"output": "cn", "input": "h"}, {"output": "hn", "input": "c"}]
    words = ("check-contract", write_contract(tmp_path / "c.json", document), lstm(tmp_path), "--static")
    said = trtw(*words).stderr
    for given, by_name, written in (("h", "hn", "cn"), ("c", "cn", "hn")):
        assert f"note: By name, state {given} takes {by_name}, but the contract says {written}." in said
    assert (
        "By name" not in trtw(*words[:1], write_contract(tmp_path / "c.json", contract_of("lstm")), *words[2:]).stderr
    )


def test_static_compares_documents_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trt_workbench.stream.check.run.require_backend", None)
    contract = write_contract(tmp_path / "contract.json", contract_of("attention"))
    result = trtw("check-contract", contract, attention(tmp_path), "--static")
    assert (result.exit_code, "(documents only)" in result.stdout) == (0, True)


def test_a_signal_of_the_user_s_own_has_to_fit(tmp_path: Path) -> None:
    contract = write_contract(tmp_path / "contract.json", contract_of("convolution"))
    words = ("check-contract", contract, convolution(tmp_path), "--chunks", 4, "--input", tmp_path / "x.npy")
    for shape, dtype, said in (
        ((F, 40), np.float32, ""),
        ((F + 1, 40), np.float32, "--input is [1, 4, 40]"),
        ((F, 40), np.float64, "--input is float64, but x is float32"),
    ):
        np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal(shape).astype(dtype))
        result = trtw(*words)
        assert (result.exit_code, said in result.stderr) == (2 if said else 0, True), result.stderr
    np.save(tmp_path / "x.npy", np.full((F, 40), np.nan, np.float32))
    held(stderr_of(*words))


@pytest.mark.parametrize(
    ("model", "said"),
    [("absent.onnx", "does not exist"), ("absent.plan", "does not exist"), ("bare.plan", "stands in its manifest")],
)
def test_models_that_cannot_be_read(model: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "bare.plan").write_bytes(b"plan")
    contract = write_contract(tmp_path / "contract.json", contract_of("attention"))
    result = trtw("check-contract", contract, tmp_path / model)
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr


def _answer(document: Any, answers: dict[str, Any]) -> None:
    for place, answer in answers.items():
        *path, last = [int(part) if part.isdigit() else part for part in place.split(".")]
        held = document
        for part in path:
            held = held[part]
        held[last] = answer


def test_a_first_contract_is_whole_when_what_it_leaves_is_answered(tmp_path: Path) -> None:
    model, contract = attention(tmp_path), tmp_path / "contract.json"
    words = ("--first", 5, "--later", 9, "--left-context", 1, "--init", 0, "--batch", 3)
    made = json.loads(trtw("make-contract", model, "-o", contract, *words, "--json").stdout)
    assert made["state"] == [
        {"output": "cache_next", "input": "cache", "init": 0},
        {"output": "cache_len_next", "input": "cache_len", "init": 0},
    ]
    assert not made["undecided"]
    stdout_of("check-contract", contract, model)
    document = json.loads(contract.read_text())
    assert document["inputs"]["length"]["range"] == [5, "T"]  # that of a whole chunk; fewer will do
    _answer(document, {"inputs.length.range.0": 2})
    stdout_of("check-contract", write_contract(contract, document), model)
    _answer(document, {"inputs.length.range.0": "TODO: the fewest frames"})
    held(stderr_of("check-contract", write_contract(contract, document), model))
    # nothing was guessed: sizes between 5 and 9 are those of the profile
    assert document["profiles"] == [{"name": "all", "symbols": {"B": [1, 3, 3], "T": [5, 9, 9]}}]


def test_a_first_contract_of_a_model_of_one_chunk_size_is_whole(tmp_path: Path) -> None:
    model, contract = zipformer(tmp_path, T="45", decode_chunk_len="32"), tmp_path / "contract.json"
    printed = stdout_of("make-contract", model, "-o", contract, "--init", 0, "--batch", 3)
    assert "Frames: dimension 1 of x, 45 in every chunk (the given size; --time-axis sets another)" in printed
    assert "Chunks: 45 frames, a later one every 32 (T, decode_chunk_len of the model's metadata)" in printed
    assert "(0 TODOs left)" in printed
    stdout_of("check-contract", contract, model)


def test_states_of_other_names_are_named_by_options(tmp_path: Path) -> None:
    model = convolution(tmp_path, ("present", "tail"))
    contract, words = tmp_path / "contract.json", ("--first", 4, "--later", 4, "--left-context", 0, "--init", 0)
    more = ("--state", "past=tail", "--signal", "x", "--time-axis", 2, "--batch", 4)
    assert "State: past takes tail" in stdout_of("make-contract", model, "-o", contract, *words, *more)
    stdout_of("check-contract", contract, model)
    held(stderr_of("make-contract", model, "-o", tmp_path / "2.json", "--state", "past"))


def test_what_nobody_said_is_left_undecided(tmp_path: Path) -> None:
    printed = stdout_of("make-contract", convolution(tmp_path), "-o", tmp_path / "contract.json")
    assert "State: past takes present" in printed
    for place in ("chunking.later.size", "chunking.first.left_context", "profiles.0.symbols.T"):
        assert f"{place}: TODO" in printed
    assert f"C = {C}" not in printed


def test_a_contract_that_somebody_wrote_is_left_alone(tmp_path: Path) -> None:
    contract = write_contract(tmp_path / "contract.json", {"mine": 1})
    result = trtw("make-contract", convolution(tmp_path), "-o", contract)
    assert result.exit_code == 2
    assert json.loads(contract.read_text()) == {"mine": 1}


HOSTILE: dict[str, tuple[str, Any]] = {
    "code": ("symbols.N", "__import__('os').system('true')"),
    "power": ("symbols.N", "9 ** 9 ** 9 ** 9"),
    "deep": ("symbols.N", "(" * 400 + "T" + ")" * 90),
    "huge size": ("profiles.1.symbols.T", [3, 9, 2**31 - 1]),
    "huge number": ("symbols.C", "9" * 400),
    "many": ("symbols", {f"s{number}": f"s{number + 1}" for number in range(100_000)}),
    "markup": ("invariants.0.check", "value('[/red]\u202e') == 1"),
    "file outside": ("state.0.init", {"file": "../../etc/passwd"}),
    "not finite": ("chunking.left_fill", float("inf")),
    "no text": ("name", "\udcff"),
    "a list": ("inputs", []),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("hostile", HOSTILE)
def test_contracts_that_cannot_be(hostile: str, tmp_path: Path) -> None:
    place, value = HOSTILE[hostile]
    document = contract_of("attention")
    _answer(document, {place: value})
    contract = write_contract(tmp_path / "contract.json", document)
    said = stderr_of("check-contract", contract, attention(tmp_path), "--backend", "ort-cpu", "--chunks", 4)
    held(said)
    assert said.rstrip("\n").isprintable()
    assert len(said) < 7000


def answered(document: Any, answers: dict[str, Any]) -> Any:
    """Return a draft whose undecided fields have these answers, by the beginning of what stands there."""
    if isinstance(document, dict):
        return {key: answered(one, answers) for key, one in document.items()}
    if isinstance(document, list):
        return [answered(one, answers) for one in document]
    if isinstance(document, str) and document.startswith("TODO"):
        return next(answer for words, answer in answers.items() if document.startswith(f"TODO: {words}"))
    return document


@pytest.mark.parametrize("number", [None, "in the shape", "as a symbol"])
def test_a_draft_of_a_sound_encoder_with_every_answer_is_kept(tmp_path: Path, number: str | None) -> None:
    """Its output behind the valid frames is anything: the draft says which tensor counts them."""
    model, draft = attention(tmp_path), tmp_path / "draft.json"
    given = ("--first", 9, "--later", 9, "--left-context", 1, "--init", 0)
    said = stdout_of("make-contract", model, "--output", draft, "--batch", 2, *given)
    assert "Valid: encoded_len gives the number of valid entries of encoded, along dimension 2" in said
    document = answered(json.loads(draft.read_text()), {"the fewest frames": 3})
    assert document["outputs"]["encoded"]["valid"] == {"axis": 2, "by": "encoded_len"}
    if number:  # as a user writes it whose model has one chunk size
        frames = document["inputs"]["x"]["shape"][2]
        document["symbols"][frames] = 9
        del document["profiles"][0]["symbols"][frames]
        if number == "in the shape":
            del document["symbols"][frames]
            document["inputs"]["x"]["shape"][2] = document["inputs"]["length"]["range"][1] = 9
            document["outputs"]["encoded"]["shape"][2] = 4
    draft.write_text(json.dumps(document))
    result = trtw("check-contract", draft, model, "--output", tmp_path / "run")
    assert result.exit_code == 0, result.stdout + result.stderr
