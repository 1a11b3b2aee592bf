"""Encoders as other projects export them, of drawn sizes: a draft holds for the healthy one, and faults are found."""

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tests.in_app import json_of, trtw
from tests.speech_decoders import lstm_parts, stateless_parts, write_tokens
from tests.speech_exports import (
    icefall_ctc,
    nemo_ctc,
    nemotron,
    parakeet_tdt,
    parakeet_unified,
    zipformer,
)
from tests.unit.stream.evaluation import evaluated
from tests.unit.stream.test_stream_input import write_wav

from trt_workbench.backends.registry import get_backend
from trt_workbench.stream.check.run import dynamic_checks
from trt_workbench.stream.check.steps import Stepper
from trt_workbench.stream.check.trial import ContractTrial
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.model_tensors import read_tensors
from trt_workbench.stream.contract.reading import read_contract
from trt_workbench.stream.input import code_audio
from trt_workbench.stream.settings import CLOSED_LOOP, StreamSettings
from trt_workbench_speech.manifest import Utterance
from trt_workbench_speech.spoken import Spoken


class Family(NamedTuple):
    """Exports of one kind.

    Attributes:
        export: writes one.
        sizes: the ends of each size that is drawn, and its step.
        output: of the frames, with their axis.
        caches: states with the axis of their frames.
        swapped: two states of one shape; none where the layers of the first cache are swapped along its axis 1.
        words: of the command that drafts.
    """

    export: Callable[..., Path]
    sizes: dict[str, tuple[int, int, int]]
    output: tuple[str, int]
    caches: dict[str, int]
    swapped: tuple[str, str] | None = None
    words: tuple[object, ...] = ()


NEMO = {"layers": (2, 4, 1), "context": (3, 12, 1), "kernel": (3, 9, 2), "hop": (8, 112, 8)}
NEMO_CACHES = {"cache_last_channel_next": 2, "cache_last_time_next": 3}
ZIPFORMER = {"layers": (1, 3, 1), "left": (4, 40, 4), "hop": (32, 96, 32)}
ZIPFORMER_CACHES = {
    "new_cached_key_0": 0,
    "new_cached_nonlin_attn_0": 2,
    "new_cached_conv1_0": 2,
    "new_embed_states": 2,
}
ZIPFORMER_SWAPPED = ("new_cached_val1_0", "new_cached_val2_0")
FAMILIES = {
    "nemotron": Family(nemotron, NEMO, ("outputs", 2), NEMO_CACHES),
    "nemo-ctc": Family(nemo_ctc, NEMO, ("logprobs", 1), NEMO_CACHES),
    "parakeet-unified": Family(
        parakeet_unified, {"left": (4, 80, 1), "chunk": (1, 14, 1), "right": (1, 14, 1)}, ("outputs", 2), {}
    ),
    "parakeet-tdt": Family(parakeet_tdt, {}, ("outputs", 2), {}, words=("--first", 240)),
    "zipformer": Family(zipformer, ZIPFORMER, ("encoder_out", 1), ZIPFORMER_CACHES, ZIPFORMER_SWAPPED),
    "icefall-ctc": Family(icefall_ctc, ZIPFORMER, ("log_probs", 1), ZIPFORMER_CACHES, ZIPFORMER_SWAPPED),
}
SEEDS = (0,)


def drawn(name: str, seed: int) -> dict[str, int]:
    random = np.random.default_rng([seed, zlib.crc32(name.encode())])
    return {
        size: int(random.choice(np.arange(least, most + 1, step)))
        for size, (least, most, step) in FAMILIES[name].sizes.items()
    }


def renamed(document: onnx.ModelProto, output: str) -> str:
    """Give what makes an output another name, so that a node may make it anew."""
    inner = f"{output}_healthy"
    for node in document.graph.node:
        node.output[:] = [inner if name == output else name for name in node.output]
        node.input[:] = [inner if name == output else name for name in node.input]
    return inner


def one_late(document: onnx.ModelProto, output: str, axis: int) -> None:
    """What an output holds comes one entry later along an axis; its first one comes twice."""
    inner = renamed(document, output)
    ends = {"zero": 0, "one": 1, "last": -1, "axis": axis}
    for name, value in ends.items():
        document.graph.initializer.append(helper.make_tensor(f"{output}_{name}", onnx.TensorProto.INT64, [1], [value]))
    zero, one, last, along = (f"{output}_{name}" for name in ends)
    document.graph.node.extend(
        [
            helper.make_node("Slice", [inner, zero, one, along], [f"{output}_a"]),
            helper.make_node("Slice", [inner, zero, last, along], [f"{output}_b"]),
            helper.make_node("Concat", [f"{output}_a", f"{output}_b"], [output], axis=axis),
        ]
    )


def stale(document: onnx.ModelProto, output: str, given: str) -> None:
    renamed(document, output)
    document.graph.node.append(helper.make_node("Identity", [given], [output]))


def exchanged(document: onnx.ModelProto, one: str, other: str) -> None:
    inner = renamed(document, one), renamed(document, other)
    document.graph.node.extend(
        [helper.make_node("Identity", [inner[1]], [one]), helper.make_node("Identity", [inner[0]], [other])]
    )


def planted(family: Family, contract: Contract) -> dict[str, Callable[[onnx.ModelProto], None]]:
    """Faults of an encoder by name."""
    pairs = {pair.output: pair.input for pair in contract.state}
    found: dict[str, Callable[[onnx.ModelProto], None]] = {}
    for name in family.caches:
        found[f"{name} stale"] = lambda document, name=name: stale(document, name, pairs[name])  # type: ignore[misc]
        found[f"{name} late"] = lambda document, name=name: one_late(document, name, family.caches[name])  # type: ignore[misc]
    if family.swapped:
        one, other = family.swapped
        found["caches swapped"] = lambda document: exchanged(document, one, other)
    elif family.caches:
        found["layers swapped"] = lambda document: one_late(document, next(iter(family.caches)), 1)
    found["frames late"] = lambda document: one_late(document, *family.output)
    return found


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", FAMILIES)
def test_healthy_ones_keep_their_draft_and_faulty_ones_are_found(name: str, seed: int, tmp_path: Path) -> None:
    family = FAMILIES[name]
    model = family.export(tmp_path, **drawn(name, seed))
    path = tmp_path / "c.json"
    said = json_of("make-contract", model, "-o", path, *family.words)
    assert said["undecided"] == {}
    contract = read_contract(path, read_tensors(model))
    with get_backend("ort-cpu").load(model) as session:
        found = dynamic_checks(ContractTrial(Stepper(contract, session, tmp_path, seed, None), 6, 1e-5, seed))
    assert {check.name: check.findings for check in found if check.findings} == {}
    settings = {"contract": path, "model": model, "mode": (CLOSED_LOOP,), "chunks": 8, "seed": seed}
    healthy = evaluated(StreamSettings(target=model, backend="torch", **settings), tmp_path / "healthy")  # type: ignore[arg-type]
    assert healthy.passed, healthy.failures
    missed = []
    for number, (fault, change) in enumerate(planted(family, contract).items()):
        document = onnx.load(model)
        change(document)
        faulty = tmp_path / "faulty.onnx"
        onnx.save(document, faulty)
        asked = StreamSettings(target=faulty, backend="ort-cpu", **settings)  # type: ignore[arg-type]
        run = evaluated(asked, tmp_path / f"faulty-{number}")
        missed += [fault] * run.passed
    assert missed == []


TRANSDUCERS: dict[str, tuple[str, tuple[int, ...], int]] = {
    "nemotron": ("transducer", (), 4),
    "parakeet-tdt": ("tdt", (0, 1, 2, 3), 5),
    "zipformer": ("stateless", (), 3),
}


def standardised(model: Path, contract: Path, audio: Path, name: str, axis: int) -> None:
    """Give each entry of the frames the mean 0 and the deviation 4 on an utterance.

    So that frames decide what a decoder with random weights writes, not its biases.
    """
    spoken = Spoken(contract, "")
    said = Utterance("", "", audio)
    with get_backend("ort-cpu").load(model) as session:
        calls = spoken.calls(session, said, range(len(spoken.chunks(said))))
        frames = np.concatenate([session.run(feed)[name] for feed in calls], axis)
    mean, deviation = (of(frames, axis=(0, axis), keepdims=True) for of in (np.mean, np.std))
    document = onnx.load(model)
    inner = renamed(document, name)
    for key, values in (("mean", mean), ("gain", 4 / (deviation + 1e-6))):
        document.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), key))
    document.graph.node.append(helper.make_node("Sub", [inner, "mean"], ["centred"]))
    document.graph.node.append(helper.make_node("Mul", ["centred", "gain"], [name]))
    onnx.save(document, model)


@pytest.mark.parametrize(
    ("name", "seed"), [*((name, 1) for name in (*TRANSDUCERS, "nemo-ctc", "icefall-ctc")), ("nemotron", 5)]
)
def test_faults_of_decoding_are_found(name: str, seed: int, tmp_path: Path) -> None:
    """The texts are the healthy decoder's own, so that each fault shows as errors."""
    family = FAMILIES[name]
    model = family.export(tmp_path, **drawn(name, seed))
    kind, durations, count = TRANSDUCERS.get(name, ("ctc", (), 1))
    if kind == "ctc":
        pieces = ["▁", *"abcdefghij"]
        pieces.insert(0 if name == "icefall-ctc" else len(pieces), "<blk>")
        (tmp_path / "tokens.txt").write_text("".join(f"{piece} {number}\n" for number, piece in enumerate(pieces)))
    else:
        write_tokens(tmp_path)
        _ = stateless_parts(tmp_path) if kind == "stateless" else lstm_parts(tmp_path, durations)
        for part in ("decoder", "joiner"):
            (tmp_path / f"{part}.onnx").rename(tmp_path / model.name.replace("encoder", part))
    path = tmp_path / "c.json"
    said = json_of("make-contract", model, "-o", path, *family.words)
    assert said["undecided"] == {}
    assert any(one.startswith("Decoding: ") for one in said["concluded"])
    lines = []
    for number in range(6):
        write_wav(tmp_path / f"{number}.wav", code_audio(30, number).samples)
        lines.append({"audio": f"{number}.wav", "text": "a"})
    standardised(model, path, tmp_path / "0.wav", *family.output)

    def run(*words: object) -> Any:
        manifest = tmp_path / "m.jsonl"
        manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
        folder = tmp_path / f"run{len(words)}"
        asked = ("--contract", path, "--backend", "ort-cpu", "--no-report", "--data", manifest)
        trtw("eval-speech", model, *asked, *words, "--output", folder)
        found = json.loads((folder / "metrics.json").read_text())
        heard = [json.loads(line) for line in (folder / "transcripts.jsonl").read_text().splitlines()]
        return found, [one["found"]["reference"] for one in heard]

    _, texts = run()
    assert all(len(set(text)) > 2 for text in texts), texts
    lines = [{**line, "text": text} for line, text in zip(lines, texts, strict=True)]
    found, again = run("--faults")
    assert again == texts
    assert found["faults_wer"] == 0
    faults = {one["fault"]: one["caught"] for one in found["faults"] if not one["reason"]}
    assert len(faults) == count
    assert all(faults.values()), faults
