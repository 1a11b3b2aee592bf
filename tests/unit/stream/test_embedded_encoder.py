"""The embedded streaming encoder: it answers the code, in chunks of any size as in one pass."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest
from tests.scripts import load_script

from trt_workbench.backends.base import Session
from trt_workbench.backends.registry import get_backend
from trt_workbench.core.workspace import ENCODER, embedded_contract, embedded_model
from trt_workbench.stream.check.run import dynamic_checks
from trt_workbench.stream.check.steps import Stepper
from trt_workbench.stream.check.trial import ContractTrial
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.log_mel import log_mel
from trt_workbench.stream.contract.model_tensors import read_tensors
from trt_workbench.stream.contract.reading import disagreements, read_contract
from trt_workbench.stream.input import code_audio

HELD_OUT_SEED = 10**6 + 50  # training watched 10^6 to 10^6 + 31
SYMBOLS = 112


@pytest.fixture(scope="module")
def contract() -> Contract:
    return read_contract(embedded_contract())


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with get_backend("ort-cpu").load(embedded_model(ENCODER)) as found:
        yield found


def streamed(contract: Contract, session: Session, features: np.ndarray, size: int) -> dict[str, np.ndarray]:
    """The frames and logits of a whole stream, and the last length."""
    chunks = list(contract.chunks(features.shape[1], size))
    state = contract.initial_state(contract.chunk_values(chunks[0]))
    encoded, logits = [], []
    for chunk in chunks:
        found = session.run({**contract.feed(chunk, features[None], contract.chunk_values(chunk)), **state})
        state = contract.next_state(found)
        encoded.append(found["encoded"])
        logits.append(found["logits"])
    length = state["cache_last_channel_len"]
    return {"encoded": np.concatenate(encoded, 2), "logits": np.concatenate(logits, 1), "length": length}


def test_it_answers_what_it_has_never_heard(contract: Contract, session: Session) -> None:
    audio = code_audio(SYMBOLS, HELD_OUT_SEED)
    found = streamed(contract, session, log_mel(audio.samples), 65)
    known = audio.answers >= 0
    assert known.sum() > 50
    assert (found["logits"][0].argmax(-1) == audio.answers)[known].mean() >= 0.98


def test_chunks_of_any_size_give_what_one_pass_gives(contract: Contract, session: Session) -> None:
    features = log_mel(code_audio(SYMBOLS, HELD_OUT_SEED).samples)
    whole = streamed(contract, session, features, 8 * SYMBOLS + 9)
    for frames in (1, 2, 7, 14, 16):
        found = streamed(contract, session, features, 8 * frames + 9)
        assert found["length"] == 70
        for name in ("encoded", "logits"):
            scale = max(1.0, float(np.abs(whole[name]).max()))
            assert np.abs(found[name] - whole[name]).max() <= 5e-6 * scale, (frames, name)


def test_the_file_is_small_and_readable_for_tensorrt_8_6() -> None:
    path = embedded_model(ENCODER)
    assert path.stat().st_size <= 4 * 2**20
    document = onnx.load(path)
    onnx.checker.check_model(document, full_check=True)
    assert document.opset_import[0].version == 17
    operators = Counter(node.op_type for node in document.graph.node)
    assert not operators.keys() & {"Range", "Clip", "Pad", "If", "Loop", "Scan", "NonZero", "ConstantOfShape"}


def test_the_contract_is_that_of_the_file(contract: Contract) -> None:
    assert disagreements(contract, read_tensors(embedded_model(ENCODER))) == []


def test_it_keeps_its_contract(contract: Contract, session: Session) -> None:
    stepper = Stepper(contract, session, embedded_contract().parent, 0, None)
    checks = dynamic_checks(ContractTrial(stepper, 3, 1e-5, 0))
    assert [f"{check.name}: {check.findings[0]}" for check in checks if check.verdict == "failed"] == []


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module that exports the model."""
    pytest.importorskip("torch")
    folder = embedded_model(ENCODER).parent
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "model", raising=False)
    yield load_script(folder / "export.py")
    sys.modules.pop("model", None)


def test_layers_first_caches_hold_the_same(scripts: ModuleType, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    size = scripts.Size()
    models = [scripts.StreamingEncoder(size, layers_first=first).eval() for first in (False, True)]
    models[1].load_state_dict(models[0].state_dict())
    paths = [tmp_path / f"{first}.onnx" for first in (False, True)]
    for model, path in zip(models, paths, strict=True):
        scripts.export(model, path)
    feeds = {"audio_signal": np.random.default_rng(0).standard_normal((2, 80, 65)).astype(np.float32)}
    feeds["length"] = np.array([65, 65])
    names = scripts.INPUTS[2:]
    outputs = []
    for model, path in zip(models, paths, strict=True):
        state = dict(zip(names, (one.numpy() for one in model.empty_state(2)), strict=True))
        with get_backend("ort-cpu").load(path) as opened:
            for _ in range(2):
                found = opened.run({**feeds, **state})
                state = {name: found[f"{name}_next"] for name in names}
        outputs.append(found)
    for name in scripts.OUTPUTS:
        first, second = outputs[0][name], outputs[1][name]
        turned = second.swapaxes(0, 1) if name.startswith("cache") and second.ndim > 1 else second
        assert np.allclose(first, turned, atol=1e-6), name
