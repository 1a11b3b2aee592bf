"""What a correct engine may differ by: the error that the asked precision itself makes on the same inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from trt_workbench.backends.base import Session
from trt_workbench.backends.registry import load_reference
from trt_workbench.core.compare import Difference, can_match, compare_rows, difference, matched, typical_error
from trt_workbench.core.documents import json_values
from trt_workbench.core.percent import share
from trt_workbench.core.precision import MATCH, Format, coarsest, get, parse
from trt_workbench.model.low_precision.simulate import simulated
from trt_workbench.model.low_precision.watch import FLAGS, computed_floats, outputs_behind, with_flags
from trt_workbench.model.narrow_formats import is_narrowing, narrow_formats
from trt_workbench.model.noise import with_rounding
from trt_workbench.model.opened import LARGE_BYTES, Model
from trt_workbench.model.proto import kinds, opset
from trt_workbench.model.walking import all_nodes
from trt_workbench.model.weights import save_model
from trt_workbench.verify.verdict import share_of_limit

Arrays = Mapping[str, NDArray[Any]]

# How many times the unit roundoff the copies are disturbed: a runtime rounds otherwise, and more often than once an
# operation. It is the copy that is disturbed more, not its result that is multiplied, so that what jumps (a rounding to
# integers, a comparison, an order) jumps in the copies first. Of a format with scales each value is rounded once, and
# again where it is read.
STRENGTH, _STRENGTH_WITH_SCALES = 4.0, 2.0
# Noise of formats with scales so coarse that more than one roundoff would leave nothing to decide.
_COARSE = 2.0**-5
_MARGIN = 2.0  # on top, as the worst of a few copies is not the worst there is
_FLOOR = 8.0  # units of roundoff that are allowed where the noise changes nothing; one of a coarse format
_JUMPS = 3  # elements of a row that may jump where none of the copies did
_COPIES = 2
_CLOSELY = 12  # runs of each copy before an output is called wrong
# Beyond these a limit says nothing.
_MOST_REL_L2, _MOST_CHANGED = 0.25, 0.25
# What properties that a model itself barely has are measured by: see `Limit.tighter`.
_TIGHTER = 0.25


@dataclass(frozen=True)
class Limit:
    """How much an output may differ.

    Attributes:
        precision: whose error it is.
        rel_l2: of floats, of each row.
        max_rel: of floats, the largest difference of an element over the largest value of its row.
        changed: share of elements, of integers and booleans.
        typical: what nine in ten elements of the copies differ by at most, with the margin.
        beyond: share of a row's elements that may differ by more: of an output that jumps, such as a list whose last
            places change hands, few do, and a fault in all of them must not pass for a jump.
        noise: relative L2 (share changed) of the noisy copies alone.
        matched: whether the vectors along the second dimension are put in order first, as rounding swaps them.
        left_out: rows that rounding can flip, such as one with a tie at a limit; they are not compared.
        overflows: whether the output is behind a tensor that is NaN in a copy and not in the model. Max and TopK may
            pass over NaN or not, so that a copy does not show what an engine makes of it.
    """

    precision: str
    rel_l2: float
    max_rel: float
    changed: float
    noise: float
    typical: float = np.inf
    beyond: float = 1.0
    matched: bool = False
    left_out: tuple[int, ...] = ()
    overflows: bool = False

    @property
    def decides(self) -> bool:
        """Whether a wrong output would be distinguished from a correct one; if not, rounding can exceed the limit."""
        return self.rel_l2 < _MOST_REL_L2 and self.changed < _MOST_CHANGED

    def apart(self, found: NDArray[Any], expected: NDArray[Any], *, rows: bool) -> Difference:
        """Return the difference that the limit is for."""
        ordered = matched(found, expected) if self.matched and found.shape == expected.shape else found
        return difference(ordered, expected, rows=rows, left_out=self.left_out, typical=self.typical)

    def allows(self, found: Difference) -> bool:
        """Whether a difference is within the limit; shapes and NaN never are."""
        return not self.excess(found)

    def excess(self, found: Difference) -> str:
        """Say in a clause by what a difference is beyond the limit; an empty text where it is not."""
        if found.shape_differs:
            return "its shape differs"
        if found.beyond > self.beyond:
            return f"{share(found.beyond)} of a row's elements differ by more than {self.typical:.2g} of its largest"
        figures = [
            ("relative L2", found.rel_l2, self.rel_l2),
            ("the largest element", found.max_rel, self.max_rel),
            ("the share of changed elements", found.changed, self.changed),
        ]
        return next(
            (
                f"{name} of the difference is {apart:.3g}, {self.precision} explains {most:.3g}"
                for name, apart, most in figures
                if not apart <= most
            ),
            "",
        )

    def share(self, found: Difference) -> float:
        """Return how much of the limit a difference takes, by the figure that takes most."""
        figures = ((found.rel_l2, self.rel_l2), (found.max_rel, self.max_rel), (found.changed, self.changed))
        return share_of_limit(figures)

    def of_rows(self, order: Sequence[int]) -> Limit:
        """Return the limit for an array that holds these rows, in this order."""
        return replace(self, left_out=tuple(place for place, row in enumerate(order) if row in self.left_out))

    def tighter(self) -> Limit:
        """Return a quarter of the limit: a model that breaks it lacks the property that is asked of its engine."""
        return replace(
            self,
            rel_l2=self.rel_l2 * _TIGHTER,
            max_rel=self.max_rel * _TIGHTER,
            changed=self.changed * _TIGHTER,
            typical=self.typical * _TIGHTER,
        )

    def is_overflow(self, found: Difference) -> bool:
        """Whether a difference is of the kind that NaN inside of the model makes: other elements NaN, other choices."""
        return self.overflows and not found.shape_differs and (found.nonfinite > 0 or found.changed > 0)

    def document(self) -> dict[str, Any]:
        """Return JSON values, without what is not finite."""
        return {name: value for name, value in json_values(self).items() if name != "precision"}


@dataclass(frozen=True)
class _Noise:
    """How copies are disturbed.

    Attributes:
        row: the coarsest format, whose error it is.
        unit: roundoff.
        strong: largest relative disturbance.
        ranged: it is relative to a tensor's largest value, as of integers with one scale.
        held: element type that tensors are held in; None of what has scales, or of old operators.
    """

    row: Format
    unit: float
    strong: float
    ranged: bool = False
    held: int | None = None

    @property
    def overflows(self) -> bool:
        """Whether tensors may pass the format's range where fp32 holds them."""
        return self.held is not None and self.row.exponent_bits < get("fp32").exponent_bits


class Yardstick:
    """Noisy copies of a model on ONNX Runtime's CPU provider, by precision; made when they are first asked for."""

    def __init__(self, model: Model, folder: Path, seed: int) -> None:
        """Take the model; copies are written to `folder`."""
        self._model, self._folder, self._seed = model, folder, seed
        self._exact: Session | None = None
        self._bare: onnx.ModelProto | None = None
        self._flagged: tuple[list[str], list[Session]] | None = None
        self._sessions: dict[tuple[str, float], dict[int, Session]] = {}
        self._written: set[str] = set()  # names of the copies

    def limits(
        self,
        precision: str,
        inputs: Arrays,
        expected: Arrays,
        rows: Mapping[str, bool],
        *,
        closely: bool = False,
        copies: int = _COPIES,
    ) -> dict[str, Limit]:
        """Return the limit of every output for one set of inputs.

        Args:
            precision: such as "fp16" or "int8+fp16"; the coarsest format of it counts.
            inputs: of the call.
            expected: what the model itself gives for them.
            rows: by output, whether its first dimension holds independent rows.
            closely: run the copies again and again, with other noise each time, and weaker ones too, to see what jumps
                now and then; a strong disturbance can lead away from a place where a weak one jumps.
            copies: how many are run; what is within the limit of one need not be asked of more.

        Raises:
            UsageProblem: a noisy copy does not run.
        """
        noise, times = self._noise(precision), _CLOSELY if closely else 1
        sizes = (noise.strong, noise.unit) if closely else (noise.strong,)
        sessions = (session for size in sizes for session in self._noisy(noise, size, copies))
        noisy = [session.run(typed_for(session, inputs)) for session in sessions for _ in range(times)]
        beyond = self._overflowed(noise, inputs) if closely else set()
        return {
            name: replace(
                limit(noise.row.name, [one[name] for one in noisy], array, rows=rows[name], unit=noise.unit),
                overflows=name in beyond,
            )
            for name, array in expected.items()
        }

    def exact(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Return what the model itself gives, undisturbed. Raises UsageProblem if it does not take the inputs."""
        if self._exact is None:
            self._exact = load_reference(self._model.path)
        return dict(self._exact.run(typed_for(self._exact, inputs)))

    def restart(self) -> None:
        """Let the copies be disturbed as at first: limits do not depend on what was asked before."""
        flagged = self._flagged[1] if self._flagged else []
        for session in (*flagged, *(one for kept in self._sessions.values() for one in kept.values())):
            session.close()
        self._sessions.clear()
        self._flagged = None

    def prepare(self, precision: str) -> None:
        """Make the copies of a precision, which `limits` would make at its first call. Raises UsageProblem as it."""
        noise = self._noise(precision)
        for _ in self._noisy(noise, noise.strong):  # of a large model one at a time
            pass

    def copies(self, precision: str) -> Iterator[Session]:
        """Yield the copies that are disturbed by what one result may be off by. Raises UsageProblem as `limits`."""
        noise = self._noise(precision)
        return self._noisy(noise, max(noise.unit, get("fp32").error))

    @property
    def rounds_itself(self) -> bool:
        """Whether the model's own graph rounds to a format."""
        return any(map(is_narrowing, all_nodes(self._model.proto)))

    def close(self) -> None:
        """Close the copies' sessions."""
        self.restart()
        if self._exact:
            self._exact.close()

    def _noise(self, precision: str) -> _Noise:
        """Return how the copies for a precision are disturbed.

        Where the graph itself rounds to a format with scales, its own nodes round in the copies as in the model, and
        what it multiplies in eight bits or more is disturbed by that. Coarser formats would hide every fault: there
        the copies are disturbed by what tensors are rounded to in between, which is fp16 at least.
        """
        row, *_ = rows = parse(precision)
        if not row.is_quantised:
            held = kinds(row.name)[0] if row.recipe == "cast" and opset(self._model.proto) >= row.since else None
            return _Noise(row, row.unit, _strong(row), held=held)
        if not self.rounds_itself:
            return _Noise(row, row.unit, _strong(row), ranged=not row.is_float)
        if row.unit <= get("int8").unit:
            return _Noise(row, row.unit, _strong(row))
        between = coarsest(["fp16", *(one.name for one in rows if not one.is_quantised)])
        return _Noise(row, between.unit, _strong(between))

    def _noisy(self, noise: _Noise, size: float, copies: int = _COPIES) -> Iterator[Session]:
        """Yield the copies; of a large model one is open at a time, and disturbed as at first whenever it is."""
        name, kept = f"noisy-{noise.row.name}-{size:.3g}", self._sessions.setdefault((noise.row.name, size), {})
        for number in range(copies):
            if number not in kept:
                kept[number] = self._load(partial(self._copy, noise, size, number), f"{name}-{number}")
            try:
                yield kept[number]
            finally:
                if self._model.size_bytes > LARGE_BYTES:
                    kept.pop(number).close()

    def _copy(self, noise: _Noise, size: float, number: int) -> onnx.ModelProto:
        seed = self._seed + number
        return with_rounding(self._source(), size, seed, ranged=noise.ranged, held=noise.held, folder=self._folder)

    def _source(self) -> onnx.ModelProto:
        """Return the model that copies are made of: they share one file of weights, unless these are simulated."""
        if not all(one.cpu for one in self._model.facts.rows):
            return self._model.load()
        if self._bare is None:
            self._bare = self._model.beside(self._folder / "weights.data")
        return self._bare

    def _load(self, make: Callable[[], onnx.ModelProto], name: str) -> Session:
        path = self._folder / f"{name}.onnx"
        if name in self._written:
            return load_reference(path)
        model = make()
        if any(not get(one).cpu for one in narrow_formats(model)):
            model = simulated(model)  # here, as the backend would keep the copy
        save_model(model, path)
        del model  # as large as the session
        self._written.add(name)
        return load_reference(path)

    def _overflowed(self, noise: _Noise, inputs: Arrays) -> set[str]:
        """Return the outputs behind a tensor that is NaN in a copy and not in the model."""
        if not noise.overflows:
            return set()
        if self._flagged is None:
            model = self._source()
            names = computed_floats(model)
            models = {"exact-flags": model, "noisy-flags": self._copy(noise, noise.strong, 0)}
            self._flagged = names, [self._load(partial(with_flags, one, names), name) for name, one in models.items()]
        names, sessions = self._flagged
        flags = [session.run(typed_for(session, inputs)).get(FLAGS, ()) for session in sessions]
        beyond = {name for name, exact, copy in zip(names, *flags, strict=False) if copy and not exact}
        return outputs_behind(self._model.proto, beyond)


def typed_for(session: Session, inputs: Arrays) -> dict[str, NDArray[Any]]:
    """Return the inputs in a session's own types: an engine may take int32 where its model takes int64."""
    return {spec.name: inputs[spec.name].astype(spec.dtype, copy=False) for spec in session.inputs}


def limit(
    precision: str, noisy: Sequence[NDArray[Any]], clean: NDArray[Any], *, rows: bool, unit: float | None = None
) -> Limit:
    """Return the limit that disturbed results give; of results that rounding swaps, for the matched ones.

    Args:
        precision: name of a format.
        noisy: disturbed results.
        clean: the undisturbed one.
        rows: whether the first dimension holds independent rows.
        unit: roundoff, if not the format's own.
    """
    unit = get(precision).unit if unit is None else unit
    plain = _limit(precision, noisy, clean, unit, rows=rows, is_matched=False)
    if (plain.decides and not plain.left_out) or not can_match(clean):
        return plain
    ordered = [matched(one, clean) if one.shape == clean.shape else one for one in noisy]
    sorted_out = _limit(precision, ordered, clean, unit, rows=rows, is_matched=True)
    better = sorted_out.decides and (not plain.decides or len(sorted_out.left_out) < len(plain.left_out))
    return sorted_out if better else plain


def _limit(
    precision: str, noisy: Sequence[NDArray[Any]], clean: NDArray[Any], unit: float, *, rows: bool, is_matched: bool
) -> Limit:
    left_out: tuple[int, ...] = ()
    if rows and all(one.shape == clean.shape for one in noisy):
        left_out = turned_over(np.max([compare_rows(one, clean).size for one in noisy], axis=0, initial=0.0))
    floor = min(_FLOOR * unit, max(unit, _COARSE))
    typical = _MARGIN * max((typical_error(one, clean) for one in noisy), default=0.0) + floor
    noise = [difference(one, clean, rows=rows, left_out=left_out, typical=typical) for one in noisy]
    in_row = max(1, clean.size // max(1, clean.shape[0] if rows else 1))
    return Limit(
        precision,
        rel_l2=_MARGIN * max((one.rel_l2 for one in noise), default=0.0) + floor,
        max_rel=_MARGIN * max((one.max_rel for one in noise), default=0.0) + floor,
        changed=min(1.0, _MARGIN * max((one.changed for one in noise), default=0.0)),
        typical=typical,
        beyond=_MARGIN * max((one.beyond for one in noise), default=0.0) + _JUMPS / in_row,
        noise=max((one.size for one in noise), default=0.0),
        matched=is_matched,
        left_out=left_out,
    )


def turned_over(noise: NDArray[np.floating[Any]]) -> tuple[int, ...]:
    """Return the rows that rounding can flip and that cannot be judged; none where they are most rows.

    Args:
        noise: of each row, how far disturbed results are from the undisturbed one.
    """
    over = np.flatnonzero(_MARGIN * noise >= min(_MOST_REL_L2, _MOST_CHANGED))
    return tuple(int(row) for row in over) if len(over) <= np.size(noise) / 2 else ()


def sensitivity(
    session: Session, inputs: Arrays, precision: str, rows: Mapping[str, bool], seed: int
) -> dict[str, Limit]:
    """Return limits for an engine without its model: what rounding its inputs changes in its own outputs.

    Args:
        session: the engine.
        inputs: of the call.
        precision: that it computes in.
        rows: by output, whether its first dimension holds independent rows.
        seed: of the disturbance.
    """
    generator = np.random.default_rng(seed)
    unit = _strong(get(precision))
    clean = session.run(inputs)
    several = []
    for _ in range(_COPIES):
        disturbed = {
            name: (array * (1 + unit * generator.uniform(-1, 1, array.shape))).astype(array.dtype)
            if array.dtype.kind == "f"
            else array
            for name, array in inputs.items()
        }
        noisy = session.run(disturbed)
        several.append({name: limit(precision, [noisy[name]], array, rows=rows[name]) for name, array in clean.items()})
    # the least of them: an engine whose every second call is wrong must not pass for a sensitive one
    least = {name: min((one[name] for one in several), key=lambda one: max(one.rel_l2, one.changed)) for name in clean}
    blind = MATCH.limit(precision)  # what an engine rounds inside is not seen from outside
    return {
        name: replace(one, rel_l2=max(one.rel_l2, blind), max_rel=max(one.max_rel, blind))
        for name, one in least.items()
    }


def _strong(row: Format) -> float:
    """Return how far the copies for a format are disturbed."""
    if not row.is_quantised:
        return max(STRENGTH * row.unit, get("fp32").error)
    return max(row.unit, min(_STRENGTH_WITH_SCALES * row.unit, _COARSE))
