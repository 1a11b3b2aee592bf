"""How like the baseline's a candidate's outputs are on arrays: cosine, relative distance and agreement of top-1."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat, PositiveInt

from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.backends.registry import require_backend
from trt_workbench.core.array_files import load_arrays, save_arrays
from trt_workbench.core.compare import compare_rows, divergence, log_softmax
from trt_workbench.core.documents import Strict, read_document, write_json
from trt_workbench.core.elements import Kind, is_finite, kind, largest_agrees, widened
from trt_workbench.core.errors import NotFinite, UsageProblem
from trt_workbench.core.statistics.bootstrap import draw_counts, step_of
from trt_workbench.engine.profiles import Profile
from trt_workbench.model.opened import Model
from trt_workbench.model.randomness import refuse_random
from trt_workbench.quantize.data import Batch, batches, calibration_data
from trt_workbench.quantize.own import OwnScore
from trt_workbench.quantize.scores import ResampledScore
from trt_workbench.quantize.settings import CalibrationSettings
from trt_workbench.verify import require_verified

NO_LOGITS = "Perplexity needs a model that maps input_ids to logits; `decide` has --score cosine for others."
FIGURE_NAMES = {"cosine": "cosine", "top1": "top-1 agreement", "perplexity": "perplexity"}
"""Of the scores of our own; another one is a function's."""
Outputs = dict[str, NDArray[Any]]
_OUTPUTS, _SAMPLES = "outputs.npz", "samples.json"
# Batches that a search for overflowing values reads.
_EXPLAINED = 8


class SampleScores(Strict):
    """samples.json: one figure a sample, each in the order of `names`.

    Attributes:
        names: of the samples.
        cosine: of all float outputs of a sample, laid end to end, with the baseline's; empty where a function scores.
        relative_l2: distance from the baseline's, over their length.
        top1: share of the positions of the first output at which the largest entry is the baseline's; empty where that
            is no [samples, classes] or [samples, positions, classes] of two classes at least.
        positions: how many there are of a sample; 1 of earlier releases.
        nll: of the next tokens, summed, in nats; empty of models that do not map token ids to logits.
        kl: divergence of the distribution of the next token from the baseline's, mean over positions, in nats.
        tokens: how many next tokens each sample has.
        words: perplexity of who knows of a text only how often each word is in the others; 0 of earlier releases.
        guesses: cosine and top1 of the baseline's mean outputs for every sample, or of those of another sample, the
            better of both: a score hardly better decides nothing. Empty of one sample, and in earlier releases.
        call_ms: median time of a call, milliseconds; None of earlier releases.
        own: what a function of the user's gives, the first of several numbers.
        others: the others by name; empty where they are folded.
        others_worse: how these become worse.
        folded: what the function's `fold` makes of all samples, then of each resample; empty where the mean counts.
        guessed: what it gives of a guess, the better one of both, by sample.
        guess_folded: of the guess, as `folded`.
        worse: how `own` becomes worse.
        key: hashes of the function's file and of the targets.
    """

    schema_version: Literal[1] = 1
    names: list[str]
    cosine: tuple[FiniteFloat, ...] = ()
    relative_l2: tuple[FiniteFloat, ...] = ()
    top1: tuple[FiniteFloat, ...] = ()
    positions: PositiveInt = 1
    nll: tuple[FiniteFloat, ...] = ()
    kl: tuple[FiniteFloat, ...] = ()
    tokens: int = 0
    words: FiniteFloat = 0
    guesses: dict[str, FiniteFloat] = Field(default_factory=dict)
    call_ms: FiniteFloat | None = None
    own: tuple[FiniteFloat, ...] = ()
    others: dict[str, tuple[FiniteFloat, ...]] = Field(default_factory=dict)
    others_worse: dict[str, Literal["falls", "rises"]] = Field(default_factory=dict)
    folded: tuple[FiniteFloat, ...] = ()
    guessed: tuple[FiniteFloat, ...] = ()
    guess_folded: tuple[FiniteFloat, ...] = ()
    worse: Literal["falls", "rises"] = "falls"
    key: str = ""


def score_arrays(request: Mapping[str, Any]) -> dict[str, Any]:
    """Run a model on samples and write `samples.json` into a folder; for the baseline its outputs, too.

    Args:
        request: `model`, `source` (whose samples they are), `folder`, `baseline` (folder of the baseline; None for the
            baseline itself), `backend`, its `precision`, `options` and `shapes` (as text), `data` (settings of the
            samples), `half` (of them, or None), `own` (fields of a function as score, or None), `annotations` (its
            targets), `batch`, `allow_unverified`.

    Raises:
        UsageProblem: the samples do not fit the model.
        CheckFailed: an output is NaN or infinite.
    """
    asked, own = request["data"], request["own"]
    paths = {name: asked[name] and Path(asked[name]) for name in ("tokenizer", "contract")}
    data = calibration_data(
        Model.open(Path(request["source"])), CalibrationSettings(**{**asked, **paths}), request["half"]
    )
    targets = data.targets(request["annotations"] and Path(request["annotations"])) if own else []
    model, folder = Path(request["model"]), Path(request["folder"])
    baseline = request["baseline"] and Path(request["baseline"])
    if baseline is None:
        refuse_random(Model.open(model), "compared")
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
    more: dict[str, Any] = {"call_ms": call_ms}
    if own:
        guessed = None
        if baseline:
            known = read_document(baseline / _SAMPLES, SampleScores)
            guessed = {"guessed": known.guessed, "guess_folded": known.guess_folded}
        more |= OwnScore(**own).of(outputs, targets, data.names, folder / "score.log", asked["seed"], guessed)
    else:
        ids = [one.of_samples(one.inputs["input_ids"]) for one in taken if "input_ids" in one.inputs]
        more |= _compared(outputs, expected or outputs, np.concatenate(ids) if ids else None)
    write_json(folder / _SAMPLES, SampleScores(names=list(data.names), **more))
    return {"provenance": provenance, "overflow": overflow, "verification": mark}


def array_scores(folder: Path, figure: str, seed: int) -> ResampledScore:
    """Return the score that `score_arrays` wrote. Raises UsageProblem as `read_document`."""
    found = read_document(folder / _SAMPLES, SampleScores)
    means = {name: float(np.mean(each)) for name in ("cosine", "relative_l2") if (each := getattr(found, name))}
    if found.top1:
        means["top1"] = float(np.mean(found.top1))
    elif figure == "top1":
        raise UsageProblem(
            "top1 needs a first float output of shape [samples, classes] or [samples, positions, classes] with at "
            "least 2 classes; use --score cosine for this one."
        )
    if found.nll:
        means |= {"kl": float(np.mean(found.kl)), "perplexity": float(np.exp(np.mean(found.nll) / found.tokens))}
    elif figure == "perplexity":
        raise UsageProblem(NO_LOGITS)
    own, count = figure not in FIGURE_NAMES, len(found.names)
    values = np.asarray(found.own if own else found.nll if figure == "perplexity" else getattr(found, figure))
    if figure == "cosine":  # which does not see a wrong scale
        values = _with_scale(values, np.asarray(found.relative_l2))
    counts = draw_counts(count, seed)
    value, drawn = _folded(found.folded, values, counts)
    made = ResampledScore(
        value=value if own or figure == "cosine" else means[figure],
        resampled=np.exp(drawn / found.tokens) if figure == "perplexity" else drawn,
        samples="\n".join([*found.names, found.key]),
        count=count,
        seed=seed,
        figures=means,
        counts=figure == "top1" and found.positions == 1,
        worse="grows" if figure == "perplexity" else found.worse,
        call_ms=found.call_ms,
        guess=found.words or None if figure == "perplexity" else found.guesses.get(figure),
        step=1 / found.positions if figure == "top1" else _own_step(found) if own else 0.0,
        each=np.exp(values / found.tokens) if figure == "perplexity" else None if found.folded else values,
    )
    if own and found.guessed:
        guess, drawn = _folded(found.guess_folded, np.asarray(found.guessed), counts)
        each = None if found.folded else np.asarray(found.guessed)
        ends = made.against(replace(made, value=guess, resampled=drawn, each=each)).loss_ci95
        made = replace(made, guess=guess, beats_guess=ends and ends[1] < 0)
    others = {
        name: replace(
            made,
            value=float(np.mean(found.others[name])),
            resampled=counts @ np.asarray(found.others[name]) / count,
            worse=worse,
            guess=None,
            beats_guess=None,
            step=step_of(np.asarray(found.others[name])),
            each=np.asarray(found.others[name]),
        )
        for name, worse in found.others_worse.items()
    }
    return replace(made, others=others)


def _own_step(found: SampleScores) -> float:
    """Return by how much a function's score moves: by its values, or what a guess has where these are all the same."""
    own, guessed = np.asarray(found.own), np.asarray(found.guessed)
    moving = next((one for one in (own, guessed, np.r_[own, guessed]) if one.size and np.ptp(one)), own)
    if not found.folded:
        return step_of(moving)
    # a sample that moves as far as any moves the score as far as a guess
    return step_of(moving) * abs(found.folded[0] - (found.guess_folded or (0.0,))[0]) / (float(np.ptp(moving)) or 1.0)


def _folded(
    folded: Sequence[float], values: NDArray[Any], counts: NDArray[np.int32]
) -> tuple[float, NDArray[np.float64]]:
    """Return the score of all samples and of the resamples: what was folded, or else the means of the values."""
    return (folded[0], np.array(folded[1:])) if folded else (float(np.mean(values)), counts @ values / len(values))


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


def _compared(found: Outputs, expected: Outputs, ids: NDArray[Any] | None) -> dict[str, Any]:
    """Return the fields of SampleScores that compare outputs with the baseline's."""
    floats = [name for name, array in expected.items() if kind(array) is Kind.REAL and array.size]
    if not floats:
        raise UsageProblem("The model has no float output to compare, or its float outputs are empty.")
    if any(name not in found or found[name].shape != expected[name].shape for name in floats):
        raise UsageProblem("The outputs differ from the baseline's in name or shape.")
    count = len(expected[floats[0]])
    ours, theirs = (
        np.concatenate([widened(one[name].reshape(count, -1)) for name in floats], axis=1) for one in (found, expected)
    )
    each, first = compare_rows(ours, theirs), floats[0]
    of_first = expected[first].reshape(count, -1)
    guesses: dict[str, list[Any]] = {
        "cosine": [
            _with_scale(one.likeness, one.rel_l2) for one in (compare_rows(guess, theirs) for guess in _guesses(theirs))
        ],
        "top1": [_top1(guess.reshape(expected[first].shape), expected[first]) for guess in _guesses(of_first)],
    }
    return {
        "cosine": each.likeness.tolist(),
        "relative_l2": np.minimum(each.rel_l2, 1e9).tolist(),
        "top1": _top1(found[first], expected[first]),
        "positions": math.prod(expected[first].shape[1:-1]),
        **_of_tokens(found[first], expected[first], ids),
        "guesses": {
            name: max(float(np.mean(one)) for one in several)
            for name, several in guesses.items()
            if count > 1 and len(several[0])
        },
    }


def _guesses(answers: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return what answers without a look at the samples, [samples, elements]: the mean of all, and another sample's."""
    return np.broadcast_to(answers.mean(axis=0), answers.shape), np.roll(answers, 1, axis=0)


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
    """Return the fields of SampleScores that only logits [samples, tokens, words] of token ids have."""
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
    return {"nll": nll, "kl": kl, "tokens": following.shape[1], "words": float(np.exp(np.mean(guessed)))}
