"""The scores there are, and how those of arrays are found: from outputs next to the baseline's, or to targets."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.backends.registry import require_backend
from trt_workbench.core.array_files import load_arrays, save_arrays
from trt_workbench.core.compare import compare_rows, divergence, log_softmax
from trt_workbench.core.documents import read_document, write_json
from trt_workbench.core.elements import Kind, is_finite, kind, largest_agrees, widened
from trt_workbench.core.errors import NotFinite, UsageProblem
from trt_workbench.core.extensions import SCORES, part
from trt_workbench.core.statistics.bootstrap import another
from trt_workbench.engine.profiles import Profile
from trt_workbench.model.opened import Model
from trt_workbench.model.randomness import refuse_random
from trt_workbench.quantize.data import Batch, batches, calibration_data
from trt_workbench.quantize.own import OwnScore
from trt_workbench.quantize.scores import ANNOTATED, SAMPLES, SampleScores
from trt_workbench.quantize.settings import ArrayMetric, CalibrationSettings, Metric
from trt_workbench.verify import require_verified

Outputs = dict[str, NDArray[Any]]
_OUTPUTS = "outputs.npz"
_WITH_BASELINE = "decide, as it compares with fp32"
# Batches that a search for overflowing values reads.
_EXPLAINED = 8


class Likened(ArrayMetric):
    """How like the baseline's the outputs are, and of logits what the next token says of them."""

    def numbers(self, run: Mapping[str, Any]) -> dict[str, Any]:
        """Return all numbers of outputs, as pages show the others, too."""
        found, expected, ids = run["outputs"], run["expected"], run["ids"]
        floats = [name for name, array in expected.items() if kind(array) is Kind.REAL and array.size]
        if not floats:
            raise UsageProblem("The model has no float output to compare, or its float outputs are empty.")
        if any(name not in found or found[name].shape != expected[name].shape for name in floats):
            raise UsageProblem("The outputs differ from the baseline's in name or shape.")
        count = len(expected[floats[0]])
        ours, theirs = (
            np.concatenate([widened(one[name].reshape(count, -1)) for name in floats], axis=1)
            for one in (found, expected)
        )
        each, first = compare_rows(ours, theirs), floats[0]
        of_first, apart = expected[first].reshape(count, -1), np.minimum(each.rel_l2, 1e9)
        likely = [
            _with_scale(one.likeness, one.rel_l2) for one in (compare_rows(one, theirs) for one in _guesses(theirs))
        ]
        numbers: dict[str, dict[str, Any]] = {
            COSINE.number: {"each": _with_scale(each.likeness, apart).tolist(), "guess": _best(likely)},
            "cosine": {"each": each.likeness.tolist()},
            "relative_l2": {"each": apart.tolist(), "worse": "rises"},
        }
        if agree := _top1(found[first], expected[first]):
            guesses = [_top1(one.reshape(expected[first].shape), expected[first]) for one in _guesses(of_first)]
            positions = math.prod(expected[first].shape[1:-1])
            numbers[_TOP1.number] = {
                "each": agree,
                "guess": _best(guesses),
                "step": 1 / positions,
                "counts": positions == 1,
            }
        numbers |= _of_tokens(found[first], expected[first], ids)
        return {"numbers": numbers, "figures": [name for name in numbers if name != COSINE.number]}


COSINE = Likened(kind="cosine", name="cosine", is_share=True, number="likeness", elsewhere=_WITH_BASELINE)
PERPLEXITY = Likened(
    kind="perplexity",
    name="perplexity",
    number="perplexity",
    needs="Perplexity needs a model that maps input_ids to logits; `decide` has --score cosine for others.",
    ranks=(3,),
    takes="input_ids",
)
_TOP1 = Likened(
    kind="top1",
    name="top-1 agreement",
    is_share=True,
    number="top1",
    elsewhere=_WITH_BASELINE,
    needs="top1 needs a first float output of shape [samples, classes] or [samples, positions, classes] with at least "
    "2 classes; use --score cosine for this one.",
    ranks=(2, 3),
)
METRICS: Mapping[str, Any] = {one.kind: one for one in (ANNOTATED, _TOP1, COSINE, PERPLEXITY)}
"""Those of our own."""
WER: Final = "wer"
PLUGGED: Final = {WER: "speech"}
"""Those of our plug-ins."""


def metric_of(score: str | None, better: Any = None, loss: float | None = None) -> Metric:
    """Return a score, given what `--score` and `--better` say of it, and which loss is allowed.

    Args:
        score: one of ours, or a function, which is not loaded; None is AP.
        better: which values of a function are better; None where its attribute says it.
        loss: that is allowed; None where none is named.

    Raises:
        UsageProblem: `better` comes with a score of ours, or the score cannot lose so much.
        ComponentMissing: its plug-in is not installed.
    """
    asked = score or ANNOTATED.kind
    made: Metric = (
        part(asked, PLUGGED[asked], f"--score {asked}", SCORES)
        if asked in PLUGGED
        else METRICS.get(asked) or OwnScore(kind=asked, name=asked.rpartition(":")[2], better=better)
    )
    if better and not made.takes_targets:
        raise UsageProblem(f"--better {better} is for a function as --score; remove it.")
    if loss and loss > 1 and made.is_share:
        raise UsageProblem(f"No score loses {loss:g} but --score perplexity or a function; pass at most 1.")
    return made


def metric_for(usual: Metric, score: str | None, better: str | None = None) -> Any:
    """Return what data are scored by: what was requested, if it is of such data, or the usual score.

    Raises:
        UsageProblem: the score is of other data, and as `metric_of`.
    """
    made = metric_of(score or usual.kind, better)
    if made.unit != usual.unit:
        raise UsageProblem(f"--score {score} is of {made.of}, and these are {usual.of}.")
    return made


def score_arrays(request: Mapping[str, Any]) -> dict[str, Any]:
    """Run a model on samples and write `samples.json` into a folder; for the baseline its outputs, too.

    Args:
        request: `model`, `source` (whose samples they are), `folder`, `baseline` (folder of the baseline; None for the
            baseline itself), `backend`, its `precision`, `options` and `shapes` (as text), `data` (settings of the
            samples), `half` (of them, or None), `score` (fields of an `ArrayMetric`), `annotations` (targets of a
            function), `batch`, `allow_unverified`.

    Raises:
        UsageProblem: the samples do not fit the model.
        CheckFailed: an output is NaN or infinite.
    """
    asked, metric = request["data"], METRICS.get(request["score"]["kind"]) or OwnScore(**request["score"])
    paths = {name: asked[name] and Path(asked[name]) for name in ("tokenizer", "contract")}
    source = Model.open(Path(request["source"]))
    data = calibration_data(source, CalibrationSettings(**{**asked, **paths}), request["half"])
    model, folder = Path(request["model"]), Path(request["folder"])
    baseline = request["baseline"] and Path(request["baseline"])
    if baseline is None:
        refuse_random(source, "compared")
    runtime = require_backend(request["backend"])
    options = SessionOptions(
        precision=request["precision"],
        extra=request["options"],
        shapes=request["shapes"] and Profile.model_validate(request["shapes"]),
    )
    with runtime.load(model, options) as session:
        fixed = session.inputs[0].shape[0] if session.inputs[0].shape else None
        taken = list(batches(data, fixed or request["batch"]))
        shapes = {tuple((name, array.shape) for name, array in one.inputs.items()) for one in taken}
        mark = require_verified(
            session.provenance,
            model,
            [dict(one) for one in shapes],
            allow_unverified=request["allow_unverified"],
            device=int(options.extra.get("device", 0)) if runtime.plans else 0,
            note=lambda _: None,
        )
        expected = None if baseline is None else load_arrays(baseline / _OUTPUTS)
        outputs, call_ms = _run(session, taken, expected or {})
    # once the session has let go of its weights: each of the two may load the model once more
    provenance = session.record()
    from trt_workbench.backends.overflow import explained_of

    overflow = explained_of(session, (one.inputs for one in taken[:_EXPLAINED])) if session.simulated else ""
    if baseline is None:
        save_arrays(folder / _OUTPUTS, outputs)
    ids = [one.of_samples(one.inputs["input_ids"]) for one in taken if "input_ids" in one.inputs]
    run = {
        "outputs": outputs,
        "expected": expected or outputs,
        "ids": np.concatenate(ids) if ids else None,
        "names": data.names,
        "targets": partial(data.targets, request["annotations"] and Path(request["annotations"])),
        "folder": folder,
        "seed": asked["seed"],
        "baseline": baseline and partial(read_document, baseline / SAMPLES, SampleScores),
    }
    write_json(folder / SAMPLES, SampleScores(names=list(data.names), call_ms=call_ms, **metric.numbers(run)))
    return {"provenance": provenance, "overflow": overflow, "verification": mark}


def _run(session: Session, taken: Sequence[Batch], expected: Outputs) -> tuple[Outputs, float]:
    """Return the outputs of all samples, one after the other along the first axis, and the median time of a call.

    Args:
        session: of the candidate or the baseline.
        taken: the samples in batches.
        expected: outputs of the baseline; empty for itself.
    """
    parts, times, done = list[Outputs](), list[float](), 0
    for batch in taken:
        started = time.perf_counter()
        found = session.run(batch.inputs)
        times.append((time.perf_counter() - started) * 1000)
        for name, array in found.items():
            if array.ndim == 0 or len(array) != batch.size:
                raise UsageProblem(f"Output {name} does not have one entry per sample, so samples cannot be compared.")
            if parts and parts[0][name].shape[1:] != array.shape[1:]:
                raise UsageProblem(
                    f"Output {name} of a sample is {list(parts[0][name].shape[1:])}, then {list(array.shape[1:])}; "
                    f"give all samples one shape. Sample: {batch.names[0]}"
                )
        parts.append({name: batch.of_samples(array) for name, array in found.items()})
        for name, own in parts[-1].items():
            if _is_broken(own, expected[name][done : done + len(own)] if name in expected else own):
                from trt_workbench.backends.overflow import explained_of

                raise NotFinite(f"Output {name} holds NaN or infinite values", explained_of(session, [batch.inputs]))
        done += len(batch.names)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, median(times)


def _best(guesses: Sequence[Any]) -> float | None:
    """Return the better mean of guesses; None of one sample, which guesses itself."""
    return max(float(np.mean(one)) for one in guesses) if len(guesses[0]) > 1 else None


def _guesses(answers: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return what answers without a look at the samples, [samples, elements]: the mean of all, and another sample's."""
    return np.broadcast_to(answers.mean(axis=0), answers.shape), answers[another(len(answers))]


def _with_scale(cosine: NDArray[Any], relative_l2: NDArray[Any]) -> NDArray[Any]:
    """Return the cosine, or 1 - e^2 / 2 of the distance e where that is less: the same but for a wrong scale."""
    found: NDArray[Any] = np.minimum(cosine, np.maximum(1 - relative_l2**2 / 2, -1))
    return found


def _is_broken(found: NDArray[Any], expected: NDArray[Any]) -> bool:
    """Whether values are not finite where the baseline's are, or not the same, or all of a sample are not finite."""
    finite = is_finite(expected)
    if compare_rows(found, expected).nonfinite.any():
        return True
    return finite.size > 0 and not finite.any(axis=tuple(range(1, finite.ndim))).all()


def _top1(found: NDArray[Any], expected: NDArray[Any]) -> tuple[float, ...]:
    """Return by sample how often the largest entry is the same; of images it is not known where the classes lie."""
    if found.ndim not in (2, 3) or found.shape[-1] < 2:
        return ()
    return tuple(largest_agrees(found, expected).reshape(len(found), -1).mean(axis=1).tolist())


def _of_tokens(found: NDArray[Any], expected: NDArray[Any], ids: NDArray[Any] | None) -> dict[str, Any]:
    """Return the numbers that only logits [samples, tokens, words] of token ids have."""
    is_language = ids is not None and found.ndim == 3 and found.shape[:2] == ids.shape and found.shape[1] > 1
    if ids is None or not is_language or ids.max() >= found.shape[-1]:
        return {}
    nll, kl = [], []
    for own, other, sample in zip(found, expected, ids, strict=True):  # one by one: logits of all take gigabytes
        ours, theirs = (log_softmax(one[:-1]) for one in (own, other))
        nll.append(-float(np.take_along_axis(ours, sample[1:, None].astype(np.int64), axis=-1).sum()))
        kl.append(float(divergence(ours, theirs).mean()))
    following = ids[:, 1:].astype(np.int64)
    counts = np.bincount(following.ravel(), minlength=found.shape[-1]) + 1  # so that a word that is not there may come
    guessed = [np.log((counts.sum() - one.size) / (counts[one] - np.bincount(one)[one])) for one in following]
    return {
        "kl": {"each": kl, "worse": "rises"},
        PERPLEXITY.number: {
            "each": nll,
            "worse": "grows",
            "fold": "exponential",
            "parts": following.shape[1],
            "guess": float(np.exp(np.mean(guessed))),
        },
    }
