"""Encoders as other projects export them: drafted, checked and run."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.in_app import json_of, stderr_of, stdout_of
from tests.speech_decoders import lstm_parts, stateless_parts, write_tokens
from tests.speech_exports import (
    PROMPTS,
    Conformer,
    conformer,
    nemotron,
    parakeet_tdt,
    parakeet_unified,
    tone,
    wenet,
    zipformer,
)
from tests.streaming_models import attention, contract_of, write_contract
from tests.texts import held, refused
from tests.unit.stream.evaluation import evaluated
from tests.unit.stream.test_stream_input import write_wav

from trt_workbench.backends.registry import get_backend
from trt_workbench.core.errors import UsageProblem
from trt_workbench.stream.check.run import dynamic_checks
from trt_workbench.stream.check.steps import Stepper
from trt_workbench.stream.check.trial import ContractTrial
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.model_tensors import read_tensors
from trt_workbench.stream.contract.reading import read_contract
from trt_workbench.stream.input import code_audio, open_stream, signal_of_audio
from trt_workbench.stream.pool import StreamPool
from trt_workbench.stream.rows import row_of
from trt_workbench.stream.settings import StreamSettings

torch = pytest.importorskip("torch")
Document = dict[str, Any]
# What a user adds: the frames of an utterance.
EXPORTS: dict[str, tuple[Callable[[Path], Path], tuple[object, ...], dict[str, Any]]] = {
    "nemotron": (nemotron, (), {}),
    "parakeet-unified": (parakeet_unified, (), {}),
    "parakeet-tdt": (parakeet_tdt, ("--first", 400), {}),
    "zipformer": (zipformer, (), {}),
    "conformer": (conformer, (), {}),
    "wenet": (wenet, (), {}),
    "t-one": (tone, (), {}),
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folders = {name: tmp_path_factory.mktemp(name) for name in EXPORTS}
    return {name: EXPORTS[name][0](folder) for name, folder in folders.items()}


def drafted(model: Path, folder: Path, name: str, **changes: Any) -> tuple[Path, list[str], list[str]]:
    """The draft of a contract with its TODOs answered; what was concluded; what was left."""
    path = folder / f"{name}.json"
    said = json_of("make-contract", model, "-o", path, *EXPORTS[name][1])
    document = json.loads(path.read_text())
    for place, value in {**EXPORTS[name][2], **changes}.items():
        part = document
        *way, last = place.split(".")
        for key in way:
            part = part[int(key)] if isinstance(part, list) else part[key]
        part[int(last) if isinstance(part, list) else last] = value
    path.write_text(json.dumps(document))
    return path, said["concluded"], list(said["undecided"])


@pytest.mark.parametrize("name", EXPORTS)
def test_a_draft_asks_for_what_no_file_says_alone(name: str, exported: dict[str, Path], tmp_path: Path) -> None:
    path, concluded, left = drafted(exported[name], tmp_path, name)
    assert left == list(EXPORTS[name][2])
    held(*(one for one in concluded if not one.startswith("Sizes")))
    assert read_contract(path, read_tensors(exported[name]))


@pytest.mark.parametrize("name", EXPORTS)
def test_a_healthy_encoder_keeps_its_draft(name: str, exported: dict[str, Path], tmp_path: Path) -> None:
    path, *_ = drafted(exported[name], tmp_path, name)
    contract = read_contract(path, read_tensors(exported[name]))
    with get_backend("ort-cpu").load(exported[name]) as session:
        found = dynamic_checks(ContractTrial(Stepper(contract, session, tmp_path, 0, None), 8, 1e-5, 0))
    assert {check.name: check.findings for check in found if check.findings} == {}
    metrics = evaluated(
        StreamSettings(target=exported[name], contract=path, backend="torch", chunks=6), tmp_path / "run"
    )
    assert metrics.passed, metrics.failures


@pytest.mark.parametrize(("left", "right"), [(8, 0), (0, 4)])
def test_windows_with_one_context_keep_their_draft(left: int, right: int, tmp_path: Path) -> None:
    model = parakeet_unified(tmp_path, left=left, chunk=4, right=right)
    path, _, undecided = drafted(model, tmp_path, "parakeet-unified")
    assert not undecided
    stdout_of("check-contract", path, model, "--backend", "ort-cpu", "--output", tmp_path / "run")


def test_a_shorter_length_is_checked(exported: dict[str, Path], tmp_path: Path) -> None:
    path, *_ = drafted(exported["nemotron"], tmp_path, "nemotron", **{"inputs.length.range": [17, "time"]})
    found = json_of("check-contract", path, exported["nemotron"], "--backend", "ort-cpu")
    assert {one["name"]: one["verdict"] for one in found["checks"]}["padding"] == "passed"


def test_a_missing_valid_part_is_named(tmp_path: Path) -> None:
    document = contract_of("attention")
    del document["outputs"]["encoded"]["valid"]
    words = (write_contract(tmp_path / "c.json", document), attention(tmp_path), "--backend", "ort-cpu")
    held(stderr_of("check-contract", *words, code=1).splitlines()[-1])


def test_streams_of_different_languages_are_one_batch(exported: dict[str, Path], tmp_path: Path) -> None:
    path, *_ = drafted(exported["nemotron"], tmp_path, "nemotron")
    contract = read_contract(path, read_tensors(exported["nemotron"]))
    frames = np.random.default_rng(0).standard_normal((1, 128, 65)).astype(np.float32)
    with get_backend("ort-cpu").load(exported["nemotron"]) as session, StreamPool(session, contract) as pool:
        given: tuple[dict[str, float | str], ...] = ({}, {"prompt_index": "en-US"}, {"prompt_index": 2})
        streams = [pool.open(constants) for constants in given]
        together = [one["outputs"] for one in pool.push(streams, [frames] * 3)]
        for constants, found in zip(given, together, strict=True):
            own = contract.with_constants(constants)
            chunk = next(own.chunks(65))
            values = own.chunk_values(chunk)
            fed = own.feed(chunk, frames, values)
            assert fed["prompt_index"] == contract.constants(constants).get("prompt_index", PROMPTS["auto"])
            alone = session.run({**fed, **own.initial_state(values)})["outputs"]
            assert np.abs(alone - found).max() < 1e-5
        assert not np.allclose(together[0], together[1], atol=1e-3)
        with refused(UsageProblem):
            pool.open({"prompt_index": "en-UK"})
        with refused(UsageProblem):
            pool.open({"language": "en-US"})


def test_constants_are_chosen_on_the_command_line(exported: dict[str, Path], tmp_path: Path) -> None:
    path, *_ = drafted(exported["nemotron"], tmp_path, "nemotron")
    words = (
        "eval-stream",
        exported["nemotron"],
        "--contract",
        path,
        "--backend",
        "ort-cpu",
        "--chunks",
        3,
        "--no-report",
    )
    json_of(*words, "--record", "--output", tmp_path / "auto")
    record = ("--reference", tmp_path / "auto")
    json_of(*words, "--constant", "prompt_index=auto", *record)
    held(
        stderr_of(*words, "--constant", "prompt_index=en-US", *record),
        stderr_of(*words, "--constant", "prompt_index=klingon"),
    )


def test_windows_that_overlap_hear_what_one_pass_hears(exported: dict[str, Path], tmp_path: Path) -> None:
    """The middles of all windows together are the frames of the whole stream; a look-ahead too short shows."""
    model = exported["parakeet-unified"]
    path, *_ = drafted(model, tmp_path, "parakeet-unified", **{"chunking.normalize": None})
    contract = read_contract(path, read_tensors(model))
    signal = np.random.default_rng(1).standard_normal((1, 128, 56 * 20)).astype(np.float32)
    ended = np.pad(signal, [(0, 0), (0, 0), (0, contract.chunking.right_context)])
    with get_backend("ort-cpu").load(model) as session, StreamPool(session, contract) as pool:
        whole = session.run({"audio_signal": ended, "length": np.array([ended.shape[2]])})["outputs"]
        found = streamed(contract, pool, ended)
        assert np.abs(whole[..., : 20 * 7] - found)[..., 4:].max() < 1e-5  # the left fill is no silence
        blind = contract.model_copy(update={"outputs": _with_offset(contract, 77)})
        assert np.abs(whole[..., : 20 * 7] - streamed(blind, pool, ended))[..., 4:].max() > 0.1


def _with_offset(contract: Contract, offset: int) -> dict[str, Any]:
    output = contract.outputs["outputs"]
    assert output.valid
    moved = output.valid.model_validate({**output.valid.model_dump(mode="json"), "offset": offset})
    return {**contract.outputs, "outputs": output.model_copy(update={"valid": moved})}


def streamed(contract: Contract, pool: StreamPool, signal: Any) -> Any:
    """What counts of all chunks of a stream."""
    stream, found = pool.open(), []
    for chunk in contract.chunks(signal.shape[2]):
        outputs = stream.push(signal[..., chunk.start : chunk.start + chunk.new])
        valid = contract.outputs["outputs"].valid
        assert valid
        part = valid.part(contract.known(contract.chunk_values(chunk), chunk), 84)
        found.append(row_of(outputs["outputs"], 0, 0)[..., part])
    stream.close()
    return np.concatenate(found, 2)


@pytest.mark.parametrize(("name", "over"), [("parakeet-unified", "window"), ("parakeet-tdt", "valid")])
def test_features_are_normalised(name: str, over: str, exported: dict[str, Path], tmp_path: Path) -> None:
    """A chunk of a feed, and the pool's of the same frames, have the mean 0 and the deviation 1 that NeMo's have."""
    path, *_ = drafted(exported[name], tmp_path, name)
    contract = read_contract(path, read_tensors(exported[name]))
    assert contract.chunking.normalize == over
    chunk = next(contract.chunks(100))
    signal = 3 + 2 * np.random.default_rng(2).standard_normal((1, 128, 100)).astype(np.float32)
    fed = contract.feed(chunk, signal, contract.chunk_values(chunk))["audio_signal"]
    own = fed if over == "window" else fed[..., :100]
    assert np.abs(own.mean(-1)).max() < 1e-5
    assert np.abs(own.std(-1, ddof=1) - 1).max() < 1e-4
    assert over == "window" or not fed[..., 100:].any()
    with get_backend("ort-cpu").load(exported[name]) as session, StreamPool(session, contract) as pool:
        found = pool.open().push(signal)["outputs"]
        length = np.array([672 if over == "window" else 100])
        assert np.abs(session.run({"audio_signal": fed, "length": length})["outputs"] - found).max() < 1e-5


@pytest.mark.parametrize(
    ("name", "kind", "front"),
    [("nemotron", "transducer", "nemo"), ("parakeet-tdt", "tdt", "nemo"), ("zipformer", "stateless", "kaldi")],
)
def test_a_transducer_is_drafted_whole_and_transcribes(name: str, kind: str, front: str, tmp_path: Path) -> None:
    model = EXPORTS[name][0](tmp_path)
    write_tokens(tmp_path)
    _, _, said = stateless_parts(tmp_path) if kind == "stateless" else lstm_parts(tmp_path, (0, 1, 2) * (kind == "tdt"))
    for part in ("decoder", "joiner"):
        (tmp_path / f"{part}.onnx").rename(tmp_path / model.name.replace("encoder", part))
    path, concluded, _ = drafted(model, tmp_path, name)
    contract = read_contract(path, read_tensors(model))
    names = {part: model.name.replace("encoder", part) for part in ("decoder", "joiner")}
    frames = "encoder_out" if name == "zipformer" else "outputs"
    most = {"max_symbols": 1} if kind == "stateless" else {"max_symbols": 10}
    assert contract.decoding == said.model_copy(update={**names, **most, "frames": frames})
    assert contract.chunking.features == front
    assert any(one.startswith("Decoding: ") for one in concluded)
    write_wav(tmp_path / "a.wav", code_audio(20, 0).samples)
    manifest = tmp_path / "m.jsonl"
    manifest.write_text('{"audio": "a.wav", "text": "a bad cab"}\n' * 3)
    words = ("--contract", path, "--backend", "ort-cpu", "--no-report", "--data", manifest)
    found = json_of("eval-speech", model, *words, "--output", tmp_path / "run")
    assert found["kind"] == said.kind
    assert found["differences"]["fp32"]["utterances_changed"] == 0
    lines = [json.loads(line) for line in (tmp_path / "run" / "transcripts.jsonl").read_text().splitlines()]
    assert len({line["found"]["fp32"] for line in lines}) == 1
    assert lines[0]["found"]["fp32"]


@pytest.mark.parametrize("count", [7, 9, 11])
def test_a_vocabulary_of_another_length_makes_no_durations(tmp_path: Path, count: int) -> None:
    """icefall's decoder says how many tokens there are; other scores would be taken for durations."""
    model = conformer(tmp_path)
    stateless_parts(tmp_path)
    decoder = onnx.load(tmp_path / "decoder.onnx")
    onnx.helper.set_model_props(decoder, {"vocab_size": "9", "context_size": "2"})
    onnx.save(decoder, tmp_path / "decoder.onnx")
    for part in ("decoder", "joiner"):
        (tmp_path / f"{part}.onnx").rename(tmp_path / model.name.replace("encoder", part))
    (tmp_path / "tokens.txt").write_text("".join(f"{one or '<blk>'} {one}\n" for one in range(count)))
    path, _, undecided = drafted(model, tmp_path, "conformer")
    assert not undecided
    said = read_contract(path, read_tensors(model)).decoding
    assert said
    assert (said.kind, said.durations) == ("transducer", ())


def test_a_layer_whose_cache_is_not_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    healthy = Conformer.forward

    def stale(self: Any, x: Any, attn: Any, conv: Any, processed: Any) -> Any:
        frames, held, ends = healthy(self, x, attn, conv, processed)
        return frames, held, torch.stack([ends[0], conv[1]])

    monkeypatch.setattr(Conformer, "forward", stale)
    path, *_ = drafted(model := conformer(tmp_path), tmp_path, "conformer")
    (live,) = (
        one
        for one in json_of("check-contract", path, model, "--backend", "ort-cpu")["checks"]
        if one["name"] == "live state"
    )
    assert live["reason"] == "of cached_conv 1 entry along dimension 0 (1) never left the initial value"


def test_a_conformer_is_told_how_much_was_processed(exported: dict[str, Path], tmp_path: Path) -> None:
    """As icefall's loop does it: frames before the window, by the subsampling."""
    path, *_ = drafted(exported["conformer"], tmp_path, "conformer")
    contract = read_contract(path, read_tensors(exported["conformer"]))
    frames = 43 + 3 * 32
    signal = np.zeros((1, frames, 80), np.float32)
    fed = [contract.feed(chunk, signal, contract.chunk_values(chunk)) for chunk in contract.chunks(frames)]
    assert [one["processed_lens"].tolist() for one in fed] == [[0], [8], [16], [24]]


def test_samples_of_whole_numbers_are_those_of_the_file(exported: dict[str, Path], tmp_path: Path) -> None:
    path, *_ = drafted(exported["t-one"], tmp_path, "t-one")
    contract = read_contract(path, read_tensors(exported["t-one"]))
    whole = np.array([0, 1, -1, 32767, -32768, 12345], np.int16)
    found = signal_of_audio(contract, whole.astype(np.float32) / np.float32(2**15), 8000, "a file", 10)
    assert found.dtype == np.int32
    assert found.ravel().tolist() == whole.tolist()
    tokens = contract.model_copy(update={"chunking": contract.chunking.model_copy(update={"sample_rate": None})})
    with refused(UsageProblem):
        open_stream(tokens, "random", 10, 0)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("schema_version", 2),
        ("chunking.right_context", 617),
        ("outputs.outputs.valid.offset", "nowhere"),
        ("chunking.normalize", "all"),
    ],
)
def test_contradictions(place: str, value: Any, exported: dict[str, Path], tmp_path: Path) -> None:
    path, *_ = drafted(exported["parakeet-unified"], tmp_path, "parakeet-unified", **{place: value})
    with refused(UsageProblem):
        read_contract(path)


def test_a_constant_has_one_of_its_values(exported: dict[str, Path], tmp_path: Path) -> None:
    path, *_ = drafted(exported["nemotron"], tmp_path, "nemotron", **{"inputs.prompt_index.value": "auto2"})
    with refused(UsageProblem):
        read_contract(path)


@pytest.mark.parametrize("text", ["{", "[1]", '{"a": "b"}', '{"a": true}', "{}"])
def test_a_dictionary_that_is_none_is_left_alone(text: str, exported: dict[str, Path]) -> None:
    from trt_workbench.stream.contract.exporters import named_constants

    tensors = read_tensors(exported["nemotron"])
    assert named_constants(replace(tensors, metadata={"prompt_dictionary": text})) == {}
