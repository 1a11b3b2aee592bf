"""What wrong arguments raise: every function, method and property of the core is called with some, over doubles."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

native: Any = pytest.importorskip("trt_workbench_native", reason="run by tasks/sanitize-native")
core: Any = native._core
if not hasattr(native, "HeldDevice") and not hasattr(native, "build_engine"):
    pytest.skip("the core was built without TensorRT", allow_module_level=True)
DOUBLED = hasattr(native, "HeldDevice")  # an engine without TensorRT can be had

CPP = re.compile(r"std::|pybind|C\+\+|trtw::|SupportsI|_core\.|collections\.abc|argument types|Invoked with|\n|<class")
WRONG = (object(), 2**70, -1, 1.5, "no such word", b"x", None, [object()], {1: object()}, (2**70,), np.arange(2))
DOUBLES = ("HeldDevice.", "FullDevice.", "Stream.")  # they stop the double of the device
VALUES = {"x": np.ones(4, np.float32)}


def members() -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Every callable of the core: its name, itself, and pybind11's line of its parameters."""
    for name, found in vars(core).items():
        if not isinstance(found, type):
            if callable(found):
                yield name, found, found.__doc__ or ""
            continue
        for key, member in vars(found).items():
            parts = [member.fget, member.fset] if isinstance(member, property) else [getattr(found, key)]
            for part in parts:
                if part is not None and type(part).__name__ in {"instancemethod", "builtin_function_or_method"}:
                    yield f"{name}.{key}", part, part.__doc__ or ""


def of_the_core() -> dict[str, Any]:
    """An instance of each class that can be had, by the class's name."""
    spec = native.LetterboxSpec(8, 6)
    head = native.HeadSpec(64, 64, 4, 1, boxes=(0, 0, 4, 1), scores=(0, 0, 4, 0))
    made = [spec, head, native.RunnerOptions(), native.BenchOptions()]
    made += [native.StreamState("h", "h_next"), native.letterbox_geometry(4, 4, spec)]
    made += [native.ImageBatch([np.zeros((4, 4, 3), np.uint8)], spec)]
    if DOUBLED:
        engine = native.Engine.twice()
        runner = native.Runner(engine)
        ticket = native.Runner(engine).submit(VALUES)
        made += [engine, runner, native.Stream(), ticket, runner.graph_status()]
        made += [runner.run(VALUES, device_outputs=["y"])["y"]]
        states = [native.StreamState("h", "h_next")]
        axes = {"x": 0, "y": 0}
        made += [native.StreamPool(native.Engine.recurrent(-1), state=states, batch_axes=axes, buckets=[1])]
    else:
        made += [native.BuildOptions(), native.Profile(), native.Calibration()]
    return {type(one).__name__: one for one in made}


ALL = list(members())


def test_the_walk_reaches_the_whole_core() -> None:
    assert len(ALL) > (150 if DOUBLED else 200)


@pytest.mark.parametrize(("name", "call", "signature"), ALL, ids=[name for name, _, _ in ALL])
def test_a_wrong_argument_is_one_sentence_in_pythons_words(name: str, call: Any, signature: str) -> None:
    if name.startswith(DOUBLES) or "_pybind11_" in name or "self: object" in signature:
        pytest.skip("takes anything, or stops the double")
    keywords = re.findall(r"(\w+): [^=]*?(?= = |, |\) ->)", signature.partition("\n")[0])
    own = of_the_core().get(name.partition(".")[0])
    placed = [[], [object()], [None], [5] * 19]
    if own is not None and ".__init__" not in name:
        placed += [[own, wrong, *more] for wrong in WRONG for more in ([], [own])] + [[own]]
    elif name.endswith(".__init__"):
        kind = getattr(core, name.partition(".")[0])
        placed += [[kind.__new__(kind), *[wrong] * count] for wrong in WRONG for count in (1, 2, 4)]
    else:
        placed += [[wrong] * count for wrong in WRONG for count in (1, 2)]
    calls = [(args, {}) for args in placed]
    calls += [(args[:2], {key: wrong}) for args in placed[4:6] for key in keywords for wrong in WRONG]
    calls += [(args[:2], {"of_another_name": 1}) for args in placed]
    signal.alarm(60)  # a call that waits
    said = []
    for args, named in calls:
        try:
            call(*args, **named)
        except Exception as error:
            said.append(str(error))
    signal.alarm(0)
    assert said, "nothing was refused"
    assert [text for text in said if not text or CPP.search(text)] == []


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: native.RunnerOptions(slots="1"), "RunnerOptions() takes int for argument 'slots', not '1'"),
        (
            lambda: native.RunnerOptions(slots=2**70),
            "RunnerOptions() got a number out of range: slots=1180591620717411303424",
        ),
        (lambda: native.RunnerOptions(slot=1), "RunnerOptions() got an unexpected keyword argument 'slot'"),
        (lambda: native.RunnerOptions(3), "RunnerOptions() takes 1 positional argument but 2 were given"),
        (
            lambda: native.RunnerOptions(state={"h": 3}),
            "RunnerOptions() takes Mapping[str, str] | None for argument 'state', not {'h': 3}",
        ),
        (lambda: setattr(native.RunnerOptions(), "slots", "1"), "RunnerOptions.slots takes int, not '1'"),
        (
            lambda: native.LetterboxSpec(8, 6, mean=[1, 2]),
            "LetterboxSpec() takes Sequence[float] of 3 for argument 'mean', not [1, 2]",
        ),
        (
            lambda: native.letterbox_geometry(4, 4),
            "letterbox_geometry() missing 1 required positional argument: 'spec'",
        ),
        (
            lambda: native.letterbox_geometry(4, 4, 5),
            "letterbox_geometry() takes LetterboxSpec for argument 'spec', not 5",
        ),
        (lambda: native.StreamState(1, "b"), "StreamState() takes str for argument 'input', not 1"),
        (lambda: native.Runner.close(5), "Runner.close() takes Runner for argument 'self', not 5"),
        (lambda: native.Ticket.done(None), "Ticket.done() takes Ticket for argument 'self', not None"),
    ],
)
def test_the_words_of_a_wrong_argument(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(TypeError) as refused:
        call()
    assert str(refused.value) == words


class Described:
    """What says wrong things of itself, as an array on a GPU."""

    def __init__(self, description: Any) -> None:
        self.__cuda_array_interface__ = description


@pytest.mark.skipif(not DOUBLED, reason="has no engine")
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda run: run(None), "Arrays are given as a mapping by their names, not as NoneType."),
        (lambda run: run(VALUES["x"]), "Arrays are given as a mapping by their names, not as ndarray."),
        (lambda run: run(), "Runner.run() missing 1 required positional argument: 'inputs'"),
        (lambda run: run(VALUES, outputs="y"), "Runner.run() takes no str for argument 'outputs'"),
        (lambda run: run(VALUES, device_outputs="y"), "Runner.run() takes no str for argument 'device_outputs'"),
        (lambda run: run(VALUES, device_outputs=[1]), "Runner.run() takes no list for argument 'device_outputs'"),
        (lambda run: run(VALUES, stream=2**70), "No stream has a handle of 1180591620717411303424."),
        (
            lambda run: run({"x": Described({"shape": (2**64,), "typestr": "<f4", "data": (0, False)})}),
            "A Described cannot be read as an array: what it says of itself has values of other types than its "
            "protocol's.",
        ),
        (lambda run: run({"x": Described(5)}), "A Described cannot be read as an array: 'int' object is not iterable."),
        (lambda run: run({"x": Described({})}), "A Described cannot be read as an array: 'shape'."),
    ],
)
def test_the_words_of_a_wrong_argument_of_a_call(call: Callable[[Any], Any], words: str) -> None:
    with pytest.raises((TypeError, native.UsageProblem)) as refused:
        call(native.Runner(native.Engine.twice()).run)
    assert str(refused.value) == words
