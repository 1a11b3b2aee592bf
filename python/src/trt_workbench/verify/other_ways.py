"""Other ways to run the same target, which have to agree with the first: sessions, graphs, calls in flight, state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from trt_workbench.backends.device_arrays import DeviceArraySession, uploader
from trt_workbench.core.errors import DeviceFailure, UsageProblem
from trt_workbench.verify.opening import Opened
from trt_workbench.verify.properties import (
    CallTrial,
    PropertyResult,
    Run,
    agrees,
    calls_at_once,
    follows_state,
    rows_at_once,
    worst,
)

# Single rows: what a server makes batches of is as many rows as were waiting.
_AT_ONCE, _ROWS_AT_ONCE = 4, 16
_STATE = "state on the device"


@dataclass(frozen=True)
class OtherWay:
    """What one way to run the target gave.

    Attributes:
        name: of the way.
        trial: the call that it was compared with.
        findings: by output.
        reason: why it could not be run or says nothing; "" otherwise.
        unproven: whether it was to run and could not; the target need not offer what nobody asked for.
        device_failed: whether that was the device.
    """

    name: str
    trial: CallTrial
    findings: Sequence[PropertyResult]
    reason: str = ""
    unproven: bool = False
    device_failed: bool = False


def ways(opened: Opened, trial: CallTrial, device: int, *, quick: bool) -> Iterator[OtherWay]:
    """Yield every further way to run the target. One that cannot be run does not end the others.

    Args:
        opened: the target; sessions are opened one after the other.
        trial: a call that was made in the first way.
        device: CUDA device of the target.
        quick: only what the way that was tried cannot show at all: batches that a server makes of several calls.
    """
    for name, run in _ways(opened, trial, device, quick=quick).items():
        try:
            findings = worst(run())
        except (UsageProblem, DeviceFailure, MemoryError) as error:
            reason, failed = f"it could not run: {str(error) or 'out of memory'}", not isinstance(error, UsageProblem)
            yield OtherWay(name, trial, (), reason, unproven=failed or name == _STATE, device_failed=failed)
            continue
        yield OtherWay(name, trial, findings, "" if findings else "rounding alone can exceed the limit of every output")


def _ways(
    opened: Opened, trial: CallTrial, device: int, *, quick: bool
) -> dict[str, Callable[[], Iterator[PropertyResult]]]:
    found: dict[str, Callable[[], Iterator[PropertyResult]]] = {}

    def session(
        check: Callable[[Run], Iterator[PropertyResult]], concurrency: int = 1, **options: Any
    ) -> Iterator[PropertyResult]:
        with opened.open(concurrency, **options) as other:
            yield from check(other.run)

    own = opened.session
    if own.shares_batches:
        rows = partial(rows_at_once, trial=trial, count=_ROWS_AT_ONCE)
        found["single rows at once"] = partial(session, rows, _ROWS_AT_ONCE)
    if quick:
        return found
    # on trt each of several calls in a slot, with a context and a stream of its own
    calls = partial(calls_at_once, trial=trial, count=_AT_ONCE)
    found["a second session"] = partial(session, partial(agrees, "a second session", trial=trial))
    found[f"{_AT_ONCE} calls at once"] = partial(session, calls, _AT_ONCE)
    for variant, options in own.variants.items():
        found[variant] = partial(session, partial(agrees, variant, trial=trial), **options)
    if isinstance(own, DeviceArraySession):
        upload = uploader(device)
        name = "arrays on the device" if upload else "outputs on the device"
        found[name] = lambda: agrees(name, lambda inputs: own.run_on_device(inputs, upload), trial)
    if opened.state:
        state = partial(follows_state, stateless=own.run, state=opened.state, trial=trial)
        found[_STATE] = partial(session, state, state=opened.state)
    return found
