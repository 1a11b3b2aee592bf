"""What a model does with streams, beside its contract: sound models pass, every planted fault is found where it is."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.streaming_models import (
    GROWING_CONTRACT,
    MODELS,
    SHARED,
    attention,
    contract_of,
    convolution,
    counted,
    counted_contract,
    degenerate,
    growing,
    lstm,
)
from tests.texts import held, refused

from trt_workbench.backends.base import Session
from trt_workbench.backends.registry import get_backend
from trt_workbench.core.errors import UsageProblem
from trt_workbench.stream.check.document import Check
from trt_workbench.stream.check.run import dynamic_checks
from trt_workbench.stream.check.steps import Stepper
from trt_workbench.stream.check.trial import ContractTrial
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.static_check import contradictions

Edit = tuple[str, str]


def checked(
    model: Path,
    document: dict[str, Any],
    wrap: Callable[[Session], Session] = lambda one: one,
    chunks: int = 8,
    given: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Check], ContractTrial]:
    contract = Contract.model_validate(document)
    assert contradictions(contract) == []
    with get_backend("ort-cpu").load(model) as session:
        stepper = Stepper(contract, wrap(session), model.parent, 0, dict(given) if given else None)
        trial = ContractTrial(stepper, chunks, 1e-5, 0)
        return {check.name: check for check in dynamic_checks(trial)}, trial


def failed(checks: Mapping[str, Check]) -> dict[str, str]:
    return {name: str(check.findings[0]) for name, check in checks.items() if check.verdict == "failed"}


@pytest.mark.parametrize("name", MODELS)
def test_sound_models_keep_their_contracts(name: str, tmp_path: Path) -> None:
    checks, trial = checked(MODELS[name][0](tmp_path), contract_of(name))
    assert failed(checks) == {}
    assert checks["reset"].worst_rel_l2 == 0
    assert {fact.input: fact.live for fact in trial.states if not fact.declared_dead} == {
        fact.input: True for fact in trial.states if not fact.declared_dead
    }


def test_all_that_can_be_checked_of_an_attention_cache_is(tmp_path: Path) -> None:
    checks, _ = checked(attention(tmp_path), contract_of("attention"))
    assert {check.verdict for check in checks.values()} == {"passed"}
    assert len(checks) == 10


def test_the_degenerate_stream_passes_with_its_dead_state_named(tmp_path: Path) -> None:
    checks, trial = checked(degenerate(tmp_path), contract_of("degenerate"))
    assert failed(checks) == {}
    facts = {fact.input: (fact.live, fact.reason) for fact in trial.states}
    assert facts["cache_last_channel"] == (False, "noise in it changes no output up to chunk 7")
    assert facts["cache_last_channel_len"] == (False, "it never leaves its initial value in 8 chunks")
    assert facts["cache_last_time"][0]


def test_the_degenerate_stream_fails_without_them_named(tmp_path: Path) -> None:
    document = contract_of("degenerate")
    for pair in document["state"]:
        pair["dead"] = False
    checks, _ = checked(degenerate(tmp_path), document)
    # the length is stuck, which is why the cache is not read
    assert [finding.tensor for finding in checks["live state"].findings] == [
        "cache_last_channel_len",
        "cache_last_channel",
    ]


def test_a_state_that_is_declared_dead_and_lives(tmp_path: Path) -> None:
    document = contract_of("lstm")
    document["state"][1]["dead"] = True
    checks, _ = checked(lstm(tmp_path), document)
    assert failed(checks)["live state"].startswith(
        "c: is declared dead but is live: noise in it before chunk 1 changes y"
    )


_FAULTS: dict[str, tuple[tuple[Edit, ...], str, str]] = {
    "the cache is stale": (
        (("cache_next = GatherElements <axis = 1> (keys, wide)", "cache_next = Identity(cache)"),),
        "live state",
        "cache: carries nothing to later chunks but is not declared dead: it never leaves its initial value",
    ),
    "the length is stuck": (
        (("cache_len_next = Min(longer, capacity)", "cache_len_next = Identity(cache_len)"),),
        "invariants",
        "chunk 0, invariant len_out: cache_len_next == min(cache_len + encoded_len, C) does not hold",
    ),
    "the length is one short": (
        (("cache_len_next = Min(longer, capacity)", "m = Min(longer, capacity) cache_len_next = Sub(m, one)"),),
        "invariants",
        "chunk 0, invariant len_out",
    ),
    "the cache is off by one": (
        (("moved = Add(kept_row, step)", "s = Add(kept_row, step) moved = Sub(s, one)"),),
        "state shift",
        "chunk 1, cache_next: does not hold its earlier entries shifted by 4",
    ),
    "the invalid part is read": (
        (("after = GreaterOrEqual(places, low)", "after = GreaterOrEqual(places, zero)"),),
        "invalid part",
        "chunk 0, encoded: is changed by the values in the invalid part of cache",
    ),
    "the padding is read": (
        (("before = Less(places, high)", "before = GreaterOrEqual(places, zero)"),),
        "padding",
        "chunk 0, encoded: is changed by the padding after 3 valid frames of 5",
    ),
    "rows are mixed": (
        (("both = Add(new, context)", "mean = ReduceMean <axes = [0], keepdims = 1> (context) both = Add(new, mean)"),),
        "batch",
        "row 0 of a batch of 3 differs from the same stream alone",
    ),
    "frames are lost at long chunks": (
        (
            (
                "encoded = Transpose <perm = [0, 2, 1]> (both)",
                "e = Transpose <perm = [0, 2, 1]> (both) encoded = Slice(e, first, four, axis)",
            ),
        ),
        "chunk sizes",
        "encoded: at T = 11, batch 1: dimension 2 of encoded is 4, but the contract says N = 5",
    ),
    "a frame too many does not run": (
        (("encoded_len = Div(less, two)", "n = Div(less, two) encoded_len = Add(n, one)"),),
        "invariants",
        "chunk 0: the model rejects inputs that the contract allows: ONNX Runtime cannot run the model",
    ),
    "an output is no number": (
        (
            (
                "encoded = Transpose <perm = [0, 2, 1]> (both)",
                "l = Log(both) encoded = Transpose <perm = [0, 2, 1]> (l)",
            ),
        ),
        "invariants",
        "chunk 0, encoded: has values that are not finite",
    ),
}


@pytest.mark.parametrize("fault", _FAULTS)
def test_a_planted_fault_is_found(fault: str, tmp_path: Path) -> None:
    edits, check, said = _FAULTS[fault]
    model = attention(tmp_path, *edits)
    _with(model, four=np.asarray([4], np.int64), axis=np.asarray([2], np.int64))
    checks, _ = checked(model, contract_of("attention"))
    found = [str(finding) for finding in checks[check].findings]
    assert any(said in one for one in found), failed(checks)


def _with(path: Path, **weights: Any) -> None:
    import onnx

    model = onnx.load(path)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
    onnx.save(model, path)


@pytest.mark.parametrize("shared", [False, True])
def test_a_model_that_its_caller_counts_for(shared: bool, tmp_path: Path) -> None:
    checks, _ = checked(counted(tmp_path, *(SHARED if shared else ())), counted_contract(shared=shared))
    assert failed(checks) == {}
    assert (checks["batch"].verdict, checks["batch"].cases) == ("passed", 16)
    # in rows of one age nobody sees whose number is read
    first = ("place = Cast <to = 1> (offset)", "of_first = Slice(offset, zero, one) place = Cast <to = 1> (of_first)")
    checks, _ = checked(counted(tmp_path, first, *(SHARED if shared else ())), counted_contract(shared=shared))
    found = failed(checks).get("batch", "")
    assert found.startswith("" if shared else "chunk 3, y: row 1 of a batch of 4 differs from the same stream alone")
    assert bool(found) != shared


def test_a_mask_that_is_wrong_is_found_beside_a_cache_that_was_never_written(tmp_path: Path) -> None:
    document = counted_contract()
    document["chunking"]["memory"] = {"kind": "finite", "chunks": "ceil(C / T)"}
    document["state"][0]["shift"] = {"axis": 1, "by": "min(start, C)", "moves": "T"}
    checks, _ = checked(counted(tmp_path), document)
    assert {name for name, check in checks.items() if check.verdict != "passed"} == {"whole streams", "padding"}
    document["inputs"]["mask"]["valid"] = "min(start + T, C) + T"
    checks, _ = checked(counted(tmp_path), document)
    assert failed(checks)["invalid part"].startswith("chunk 0, y: is changed by the values in the invalid part of")


def test_what_a_state_holds_after_a_chunk_is_counted_by_the_next_chunk(tmp_path: Path) -> None:
    document = counted_contract()
    document["state"][0]["shift"] = {"axis": 1, "by": "min(offset - C, C)"}
    with get_backend("ort-cpu").load(counted(tmp_path)) as session:
        trial = ContractTrial(Stepper(Contract.model_validate(document), session, tmp_path, 0, None), 8, 1e-5, 0)
        held = [trial._valid("r_cache", step)[0, :, 0] for step in trial.stepper.run(trial.schedule(), trial.signal())]
    assert [int(mask.sum()) for mask in held] == [3, 5, 6, 6, 6, 6, 6, 6]


def test_a_model_that_ends_its_stream_is_said_with_the_chunk(tmp_path: Path) -> None:
    """As one with a table of positions does."""
    model = counted(tmp_path, ("place = Cast <to = 1> (offset)", "place = Gather(table, offset)"))
    _with(model, table=np.arange(20, dtype=np.float32))
    checks, _ = checked(model, counted_contract(), chunks=12)
    assert failed(checks)["invariants"].startswith("chunk 7: the model rejects inputs that the contract allows")


def test_a_cache_that_does_not_keep_its_shape(tmp_path: Path) -> None:
    checks, _ = checked(growing(tmp_path), GROWING_CONTRACT)
    said = str(checks["invariants"].findings[0])
    held(said)
    assert (checks["batch"].verdict, checks["batch"].reason) == (
        "not checked",
        "a state has a different shape in an older stream",
    )


def test_a_model_that_runs_at_some_sizes_alone(tmp_path: Path) -> None:
    """As an export does with a size baked in: the graph says that it takes any."""
    model = convolution(tmp_path, ("y = Conv(whole, w)", "c = Conv(whole, w) y = Reshape(c, baked)"))
    _with(model, baked=np.asarray([-1, 4, 4], np.int64))
    checks, _ = checked(model, contract_of("convolution"))
    findings = [str(finding) for finding in checks["chunk sizes"].findings]
    assert checks["invariants"].verdict == "passed"
    assert any("at T = 3, batch 1: the model rejects inputs that the contract allows" in one for one in findings)
    assert any("at T = 8" in one and "B is 1 in dimension 0 of x and 2 in dimension 0 of y" in one for one in findings)


@pytest.mark.parametrize(
    ("change", "check", "said"),
    [
        (
            lambda one: one["chunking"]["memory"].update(chunks=1),
            "memory",
            "chunk 3, encoded: still depends on a state 1 chunk earlier",
        ),
        (lambda one: one["state"][0]["shift"].update(moves="N - 1"), "state shift", "shifted by 1"),
        (lambda one: one["state"][0]["shift"].update(valid_at="start", moves=None), "invalid part", "invalid part"),
        (
            lambda one: one["outputs"]["encoded"]["valid"].update(by="encoded_len + 1"),
            "invariants",
            "chunk 0, encoded: has 2 entries in dimension 2, fewer than the valid encoded_len + 1 = 3",
        ),
        (
            lambda one: one["state"][0]["shift"].update(by="2 * cache_len"),
            "invariants",
            "chunk 2, cache: has 6 entries in dimension 1, fewer than the valid 2 * cache_len = 12",
        ),
        (
            lambda one: one["invariants"][4].update(check="total(encoded_len) == total(new) // 2 + 1"),
            "whole streams",
            "invariant no_loss: total(encoded_len) == total(new) // 2 + 1 does not hold over 60 frames in 8 chunks: "
            "total(encoded_len) is 30, total(new) is 60",
        ),
        (
            lambda one: one["invariants"][2].update(check="encoded_len == cache_len", when="chunk > 0"),
            "invariants",
            "chunk 1, invariant full: encoded_len == cache_len does not hold: cache_len is 2, encoded_len is 4",
        ),
    ],
)
def test_a_contract_that_promises_what_the_model_does_not_do(
    change: Callable[[Any], None], check: str, said: str, tmp_path: Path
) -> None:
    document = contract_of("attention")
    change(document)
    checks, _ = checked(attention(tmp_path), document)
    assert any(said in str(finding) for finding in checks[check].findings), failed(checks)


class _Leaking(Session):
    """A session that keeps something of earlier calls, as a state on the device that nobody resets would be."""

    def __init__(self, inner: Session) -> None:
        self.inputs, self.outputs, self.metadata, self.provenance = inner.inputs, inner.outputs, {}, {}
        self._inner, self._kept = inner, 0.0

    def _infer(self, inputs: dict[str, Any]) -> dict[str, Any]:
        found = self._inner.run(inputs)
        self._kept = 0.9 * self._kept + float(inputs["x"].mean())
        return {**found, "y": found["y"] + np.float32(self._kept)}

    def _close(self) -> None:
        pass


def test_what_a_session_keeps_of_an_earlier_stream_is_found(tmp_path: Path) -> None:
    checks, _ = checked(convolution(tmp_path), contract_of("convolution"), _Leaking)
    assert failed(checks)["reset"].startswith("chunk 0, y: differs from the same stream before another one")


def test_a_signal_of_the_user_s_own(tmp_path: Path) -> None:
    """Rows and streams begin at other frames of it, so that they differ; a short one is repeated."""
    signal = np.random.default_rng(3).standard_normal((3, 50), dtype=np.float32)
    checks, trial = checked(convolution(tmp_path), contract_of("convolution"), given={"x": signal})
    assert failed(checks) == {}
    rows = trial.stepper.signal(60, streams=2)
    np.testing.assert_array_equal(rows[0, :, :50], signal)
    np.testing.assert_array_equal(rows[0, :, 50:], signal[:, :10])
    # the same streams, drawn at random: a longer one begins like a shorter one
    _, drawn = checked(convolution(tmp_path), contract_of("convolution"))
    np.testing.assert_array_equal(drawn.stepper.signal(60)[..., :20], drawn.stepper.signal(20))
    assert not np.array_equal(drawn.stepper.signal(20, 1), drawn.stepper.signal(20))


def test_a_signal_of_more_than_is_drawn_is_refused_before_it_takes_memory(tmp_path: Path) -> None:
    contract = Contract.model_validate(contract_of("convolution"))
    with get_backend("ort-cpu").load(convolution(tmp_path)) as session:
        stepper = Stepper(contract, session, tmp_path, 0, None)
        with refused(UsageProblem):
            stepper.signal(2**28)


def test_more_streams_in_a_call_than_rows_can_be_looked_at_are_refused(tmp_path: Path) -> None:
    document = contract_of("attention")
    document["profiles"][1]["symbols"]["B"] = [1, 2, 3_000_000]
    with refused(UsageProblem):
        checked(attention(tmp_path), document)


def test_a_state_beyond_the_memory_is_refused() -> None:
    contract = Contract.model_validate(contract_of("attention"))
    (chunk, *_) = contract.chunks(100)
    values = contract.chunk_values(chunk, 2**40)
    with refused(UsageProblem):
        contract.initial_state(values)
