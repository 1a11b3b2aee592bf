"""A language model as eval-llm runs it, whatever executes it: logits of whole sequences, or prefill and steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Session
from trt_workbench.backends.language import Logits, Tokens
from trt_workbench.backends.state_session import StateSession
from trt_workbench.core.errors import UsageProblem
from trt_workbench.llm.graph import ExportedGraph, state_names


class _OfSession:
    """A graph in a session, and the keys and values that pass by host memory."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._dtypes = {spec.name: spec.dtype for spec in session.inputs}
        self._state: dict[str, NDArray[Any]] = {}

    @property
    def provenance(self) -> Mapping[str, Any]:
        """What executes the graph."""
        return self.session.record()

    def memory_bytes(self) -> dict[str, int]:
        """Return what the session says it holds; empty if it does not say."""
        return dict(self.session.memory_bytes())

    def close(self) -> None:
        """Release the session."""
        self._state = {}
        self.session.close()


class SessionLogits(_OfSession):
    """The `logits` graph in a session."""

    def logits(self, input_ids: Tokens) -> Logits:
        """Run the graph once without padding."""
        return self.session.run(self._feed(input_ids))["logits"].astype(np.float32, copy=False)

    def last_logits(self, input_ids: Tokens) -> Logits:
        """Run the graph once without padding; it computes all positions, and a device returns only the last one."""
        return self.session.run_at(self._feed(input_ids), "logits", -1).astype(np.float32, copy=False)

    def explained(self, input_ids: Tokens) -> str:
        """Return which inner values leave the range of its format, as the end of a sentence; "" for none known."""
        from trt_workbench.backends.overflow import explained_of

        return explained_of(self.session, [self._feed(input_ids)])

    def _feed(self, input_ids: Tokens) -> dict[str, NDArray[Any]]:
        return _cast({"input_ids": input_ids, "attention_mask": np.ones_like(input_ids)}, self._dtypes)


class SessionCache(_OfSession):
    """The `cached` graph in a session: keys and values go out and come in again through host memory."""

    def __init__(self, session: Session, graph: ExportedGraph) -> None:
        super().__init__(session)
        self._before, self._after = state_names(graph.layers)
        self._shapes = {spec.name: spec.shape for spec in session.inputs if spec.name in self._before}
        self._length = 0

    def prefill(self, input_ids: Tokens, capacity: int) -> Logits:  # noqa: ARG002 - the interface's name
        """Run the prompt after keys and values of length 0."""
        self._length, self._state = 0, {}  # until the prompt is done, there is nothing to append to
        return self._append(input_ids, _zeros(self._shapes, self._dtypes, input_ids.shape[0]))

    def step(self, tokens: Tokens) -> Logits:
        """Append one token."""
        if not self._state:
            raise not_started()
        return self._append(tokens[:, None], self._state)

    def memory_bytes(self) -> dict[str, int]:
        """Return the size of the keys and values."""
        return {"state": sum(array.nbytes for array in self._state.values())}

    def _append(self, input_ids: Tokens, state: Mapping[str, NDArray[Any]]) -> Logits:
        length = self._length + input_ids.shape[1]
        feed = {"input_ids": input_ids, "attention_mask": np.ones((input_ids.shape[0], length), np.int64)}
        outputs = self.session.run({**_cast(feed, self._dtypes), **state})
        self._state = dict(zip(self._before, (outputs[name] for name in self._after), strict=True))
        self._length = length
        return outputs["logits"][:, -1].astype(np.float32, copy=False)


class SessionSlots(_OfSession):
    """The `static` or `step` graph in a session: every step has the same shapes.

    A session that keeps state on its device takes no keys and values and gives none. Through one without state, such as
    the one that proves an export for any batch, they pass by host memory.
    """

    def __init__(self, session: Session, graph: ExportedGraph) -> None:
        super().__init__(session)
        before, after = state_names(graph.layers)
        given = {spec.name for spec in session.outputs}
        self._pairs = [(new, old) for new, old in zip(after, before, strict=True) if new in given]
        self._shapes = {spec.name: spec.shape for spec in session.inputs if spec.name in before}
        self._capacity = graph.cache_length or 0
        self._position: int | None = None

    def prefill(self, input_ids: Tokens, capacity: int) -> Logits:
        """Run the prompt at position 0; what earlier sequences left behind is never seen."""
        self._position = None  # until the prompt is done, there is nothing to append to
        self._check_room(capacity)
        if not self._state:
            self._state = _zeros(self._shapes, self._dtypes, input_ids.shape[0])
        last = self._prompt(input_ids)
        self._position = input_ids.shape[1]
        return last

    def step(self, tokens: Tokens) -> Logits:
        """Append one token."""
        if self._position is None:
            raise not_started()
        last = self._append(self.session, tokens[:, None], self._position)
        self._position += 1
        return last

    def memory_bytes(self) -> dict[str, int]:
        """Return what the session says it holds, else the size of the keys and values on the host."""
        return super().memory_bytes() or {"state": sum(array.nbytes for array in self._state.values())}

    def _prompt(self, input_ids: Tokens) -> Logits:
        return self._append(self.session, input_ids, 0)

    def _append(self, session: Session, input_ids: Tokens, start: int) -> Logits:
        self._check_room(start + input_ids.shape[1])  # the graph would write no slot, without an error
        feed = _cast({"input_ids": input_ids, "start": np.array([start])}, self._dtypes)
        if not self._pairs and input_ids.shape[1] > 1:
            last = session.run_at(feed, "logits", -1)  # of a prompt, only what the next token needs
        else:
            outputs = session.run({**feed, **self._state})
            self._state = {old: outputs[new] for new, old in self._pairs}
            last = outputs["logits"][:, -1]
        return last.astype(np.float32, copy=False)

    def _check_room(self, tokens: int) -> None:
        if tokens > self._capacity:
            raise UsageProblem(
                f"The graph has {self._capacity} slots; {tokens} tokens need one exported with a longer cache."
            )


class TwoSessionSlots(SessionSlots):
    """The `static` graph for prompts and the `step` graph for single tokens, in two sessions with state.

    A graph for one token has less to do, and a compiler knows every shape of it.
    """

    session: StateSession

    def __init__(self, prompts: StateSession, steps: StateSession, graph: ExportedGraph) -> None:
        """Take sessions of the `static` and the `step` graph, `graph` being one of them; they are closed with this."""
        super().__init__(steps, graph)
        self.prompts = prompts

    @property
    def provenance(self) -> Mapping[str, Any]:
        """What executes the graph for single tokens, and under `prompts` for prompts."""
        return {**super().provenance, "prompts": self.prompts.record()}

    def memory_bytes(self) -> dict[str, int]:
        """Return what both sessions hold, by purpose."""
        total = super().memory_bytes()
        for purpose, size in self.prompts.memory_bytes().items():
            total[purpose] = total.get(purpose, 0) + size
        return total

    def close(self) -> None:
        """Release both sessions."""
        self.prompts.close()
        super().close()

    def _prompt(self, input_ids: Tokens) -> Logits:
        last = self._append(self.prompts, input_ids, 0)
        self.session.take_state(self.prompts)
        return last


def not_started() -> UsageProblem:
    """Return the error for a step without a prompt before it."""
    return UsageProblem("A sequence must start with prefill: there is nothing to append to.")


def _zeros(
    shapes: Mapping[str, Sequence[int | None]], dtypes: Mapping[str, str], batch: int
) -> dict[str, NDArray[Any]]:
    """Keys and values of no token, or of empty slots where their number is fixed."""
    return {name: np.zeros((batch, *(dim or 0 for dim in shape[1:])), dtypes[name]) for name, shape in shapes.items()}


def _cast(feed: Mapping[str, NDArray[Any]], dtypes: Mapping[str, str]) -> dict[str, NDArray[Any]]:
    """Inputs that the session has, in its own integer types: TensorRT 8 takes int32 where the graph says int64."""
    return {name: array.astype(dtypes[name], copy=False) for name, array in feed.items() if name in dtypes}
