"""The real bindings over doubles of CUDA and of an engine, as `tasks/sanitize-native` builds and runs them."""

from __future__ import annotations

import _thread
import ctypes
import gc
import signal
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

native: Any = pytest.importorskip("trt_workbench_native", reason="run by tasks/sanitize-native")
if not hasattr(native, "HeldDevice"):
    pytest.skip("this is the core itself, not its bindings over the doubles", allow_module_level=True)

X = np.arange(4, dtype=np.float32)
ONES = np.ones(4, np.float32)
FOREIGN = ONES.astype(">f4")


def twice(**options: Any) -> Any:
    return native.Runner(native.Engine.twice(), native.RunnerOptions(**options))


@pytest.fixture
def recurrent() -> Any:
    """Its state is 10, 10, 10, 10."""
    runner = native.Runner(native.Engine.recurrent(), native.RunnerOptions(state={"h_next": "h"}))
    runner.reset_state({"h": 10 * ONES})
    return runner


def result_into(out: dict[str, Any]) -> Any:
    runner = twice()
    return runner.submit({"x": X}).result(out=out)


def in_thread(action: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    return thread


def pool() -> Any:
    states = [native.StreamState("h", "h_next")]
    return native.StreamPool(native.Engine.recurrent(-1), state=states, batch_axes={"x": 0, "y": 0}, buckets=[1, 2])


# ---- byte order -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        lambda: twice().run({"x": FOREIGN}),
        lambda: twice().submit({"x": FOREIGN}),
        lambda: twice().measure({"x": FOREIGN}, native.BenchOptions(iterations=1, duration_s=0, warmup_ms=0)),
        lambda: native.bench(
            native.Engine.twice(), {"x": FOREIGN}, native.BenchOptions(iterations=1, duration_s=0, warmup_ms=0)
        ),
        lambda: twice().run({"x": X}, out={"y": FOREIGN.copy()}),
        lambda: result_into({"y": FOREIGN.copy()}),
        lambda: native.Runner(native.Engine.recurrent(), native.RunnerOptions(state={"h_next": "h"})).reset_state(
            {"h": FOREIGN}
        ),
        lambda: pool().push([1], {"x": FOREIGN[:1]}),
        lambda: pool().restore(1, {"h": FOREIGN[:1]}),
        lambda: native.StreamPool(
            native.Engine.recurrent(-1),
            state=[native.StreamState("h", "h_next", initial=FOREIGN[:1])],
            batch_axes={"x": 0, "y": 0},
        ),
        lambda: native.find_boxes_cpu(rows_head(), [FOREIGN]),
        lambda: native.find_boxes_gpu(rows_head(), [FOREIGN]),
    ],
)
def test_foreign_byte_order_is_refused_wherever_an_array_is_taken(given: Callable[[], Any]) -> None:
    with pytest.raises(native.UsageProblem, match=r"foreign byte order \(>f4\); use .astype\('float32'\)"):
        given()


ARRAY_TAKERS = {"count_nonfinite", "find_boxes_cpu", "find_boxes_gpu", "letterbox_cpu"}


def test_every_function_that_takes_arrays_is_known_here() -> None:
    """Those that take `object`, dictionaries of arrays, are the methods above."""
    takers = set()
    for name in dir(native):
        signature = (getattr(native, name).__doc__ or "").partition("->")[0]
        if not isinstance(getattr(native, name), type) and callable(getattr(native, name)):
            takers |= {name} if "ndarray" in signature or "outputs" in signature or "image:" in signature else set()
    assert takers == ARRAY_TAKERS


def test_no_signature_has_a_type_of_cpp() -> None:
    def signatures(owner: Any) -> list[str]:
        members = [getattr(owner, name) for name in dir(owner)]
        texts = [str(member.__doc__) for member in members if callable(member)]
        return texts + [text for member in members if isinstance(member, type) for text in signatures_of(member)]

    def signatures_of(cls: type) -> list[str]:
        return [str(member.__doc__) for member in vars(cls).values() if callable(member)]

    assert [text for text in signatures(native) if "::" in text] == []


@pytest.mark.parametrize(
    "given",
    [
        lambda array: twice().run({"x": array}),
        lambda array: twice().submit({"x": array}),
        lambda array: pool().push([1], {"x": array}),
        lambda array: native.find_boxes_cpu(rows_head(), [array]),
        lambda array: native.letterbox_cpu(array.astype(np.uint8), native.LetterboxSpec(4, 4)),
    ],
)
def test_masked_values_are_refused(given: Callable[[Any], Any]) -> None:
    with pytest.raises(native.UsageProblem, match=r"masked values; pass .filled\(\)"):
        given(np.ma.array(X, mask=[1, 0, 0, 0]))


def test_an_array_without_masked_values_is_taken() -> None:
    assert twice().run({"x": np.ma.array(X)})["y"].tolist() == (2 * X + 1).tolist()


class Unreadable:
    """As a tensor of PyTorch that requires a gradient, or holds bfloat16."""

    def __array__(self, *_args: Any, **_named: Any) -> Any:
        raise TypeError("Got unsupported ScalarType BFloat16")


def test_what_numpy_cannot_read_is_told_with_the_reason() -> None:
    with pytest.raises(
        native.UsageProblem, match="Input 'x' is a Unreadable that numpy cannot read: Got unsupported ScalarType"
    ):
        twice().run({"x": Unreadable()})


DESCRIPTIONS = {
    "short strides": ({"strides": ()}, "gaps or not in row-major order"),
    "long strides": ({"strides": (4, 4)}, "gaps or not in row-major order"),
    "a mask": ({"mask": X}, "has a mask"),
    "negative sizes": ({"shape": (-2, -2)}, "negative size"),
}


@pytest.mark.parametrize("case", DESCRIPTIONS)
def test_descriptions_of_device_arrays_that_make_no_sense_are_refused(case: str) -> None:
    changed, words = DESCRIPTIONS[case]
    y = twice().run({"x": X}, device_outputs=True)["y"]
    given = type("Array", (), {"__cuda_array_interface__": {**y.__cuda_array_interface__, **changed}})()
    with pytest.raises(native.UsageProblem, match=words):
        twice().run({"x": given})


def test_images_with_sides_beyond_32_bits_are_refused() -> None:
    huge = np.lib.stride_tricks.as_strided(np.zeros((8, 4, 3), np.uint8), (2**32 + 5, 4, 3), (0, 3, 1))
    wide = np.lib.stride_tricks.as_strided(np.zeros((1, 4, 3), np.uint8), (1, 800_000_000, 3), (0, 3, 1))
    for image in (huge, wide):
        with pytest.raises(native.UsageProblem, match=r"image"):
            native.letterbox_cpu(image, native.LetterboxSpec(4, 4))
    with pytest.raises(native.UsageProblem, match="An image is a uint8 array"):
        native.ImageBatch([huge], native.LetterboxSpec(4, 4))


def test_a_step_that_wraps_the_count_of_bytes_is_refused() -> None:
    spec = native.HeadSpec(64, 64, 4, 1, boxes=(0, 0, 4, 1), scores=(0, 0, 2**62 + 2**40, 0), conf=0.1)
    with pytest.raises(native.UsageProblem, match="do not lie as its head says"):
        native.find_boxes_cpu(spec, [np.zeros((1, 4, 4), np.float32)])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_what_is_not_finite_is_counted_in_either_byte_order(dtype: Any) -> None:
    values = np.array([np.nan, 1, np.inf, -np.inf, 0], dtype)
    for order in "<>":
        assert native.count_nonfinite(values.astype(values.dtype.newbyteorder(order))) == 3
    looks_infinite = np.frombuffer(bytes.fromhex("0000807f"), ">f4")
    assert native.count_nonfinite(looks_infinite) == 0


# ---- arrays to write into -------------------------------------------------------------------------------


def read_only() -> Any:
    array = np.zeros(4, np.float32)
    array.flags.writeable = False
    return array


BAD_TARGETS = {
    "another shape": ({"y": np.zeros(3, np.float32)}, r"has the shape \[3\], but the output has \[4\]"),
    "another rank": ({"y": np.zeros((4, 1), np.float32)}, r"has the shape \[4, 1\], but the output has \[4\]"),
    "another type": ({"y": np.zeros(4, np.int32)}, "must be float32"),
    "another size": ({"y": np.zeros(4, np.float64)}, "must be float32"),
    "foreign": ({"y": np.zeros(4, ">f4")}, "foreign byte order"),
    "gaps": ({"y": np.zeros(8, np.float32)[::2]}, "C-contiguous"),
    "read-only": ({"y": read_only()}, "writeable"),
    "unknown": ({"nope": np.zeros(4, np.float32)}, "no output 'nope'"),
    "not copied": ({"h_next": np.zeros(4, np.float32)}, "does not copy this output"),
}


@pytest.mark.parametrize("kind", BAD_TARGETS)
def test_a_refused_target_moves_no_state(recurrent: Any, kind: str) -> None:
    out, words = BAD_TARGETS[kind]
    for inputs in ({"x": ONES}, {"x": ONES, "h": ONES}):
        for _ in range(3):
            with pytest.raises(native.UsageProblem, match=words):
                recurrent.run(inputs, out=out)
    assert recurrent.run({"x": ONES})["y"].tolist() == [12] * 4


@pytest.mark.parametrize("kind", BAD_TARGETS)
def test_a_refused_target_keeps_the_result(kind: str) -> None:
    out, words = BAD_TARGETS[kind]
    runner = native.Runner(native.Engine.recurrent(), native.RunnerOptions(outputs=["y"]))
    ticket = runner.submit({"x": ONES, "h": ONES})
    with pytest.raises(native.UsageProblem, match=words):
        ticket.result(out=out)
    target = np.zeros(4, np.float32)
    assert ticket.result(out={"y": target})["y"] is target
    assert target.tolist() == [3] * 4


def test_a_target_that_fits_is_written(recurrent: Any) -> None:
    y, h = np.zeros(4, np.float32), np.zeros(4, np.float32)
    for step in range(1, 5):
        found = recurrent.run({"x": ONES}, outputs=["y", "h_next"], out={"y": y, "h_next": h})
        assert found["y"] is y
        assert y.tolist() == [11 + step] * 4
        assert h.tolist() == [10 + step] * 4


def test_an_output_whose_shape_depends_on_the_data_is_checked_before_state_moves() -> None:
    engine = native.Engine.recurrent()
    engine.open_output = 0
    runner = native.Runner(engine, native.RunnerOptions(state={"h_next": "h"}))
    runner.reset_state({"h": 10 * ONES})
    for inputs in ({"x": ONES}, {"x": ONES, "h": ONES}):
        with pytest.raises(native.UsageProblem, match=r"\[3\], but the output has \[4\]"):
            runner.run(inputs, out={"y": np.zeros(3, np.float32)})
    assert runner.run({"x": ONES})["y"].tolist() == [12] * 4


def test_no_memory_moves_no_state(recurrent: Any) -> None:
    held = [recurrent.run({"x": 0 * ONES}, device_outputs=["y"])["y"] for _ in range(4)]
    with native.FullDevice(), pytest.raises(native.OutOfMemory):
        recurrent.run({"x": ONES, "h": ONES}, device_outputs=["y"])
    assert held[0].numpy().tolist() == [11] * 4
    assert recurrent.run({"x": ONES})["y"].tolist() == [12] * 4


# ---- threads --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [False, True])
def test_close_waits_for_calls_of_other_threads(again: bool) -> None:
    runner = twice(cuda_graph=False)
    found: dict[str, Any] = {}
    with native.HeldDevice():
        caller = in_thread(lambda: found.update(runner.run({"x": X})))
        time.sleep(0.1)
        closers = [in_thread(runner.close) for _ in range(1 + again)]
        time.sleep(0.2)
        assert [closer.is_alive() for closer in closers] == [True] * len(closers)
        with pytest.raises(native.UsageProblem, match="closed"):
            runner.run({"x": X})
    for thread in (caller, *closers):
        thread.join(10)
        assert not thread.is_alive()
    assert found["y"].tolist() == (2 * X + 1).tolist()
    runner.close()


def test_close_ends_what_waits_for_a_slot_and_tickets_that_nobody_took() -> None:
    runner = twice()
    ticket = runner.submit({"x": X})
    found: dict[str, Any] = {}
    waiter = in_thread(lambda: found.update(runner.run({"x": X})))
    time.sleep(0.1)
    runner.close()
    assert found["y"].tolist() == (2 * X + 1).tolist()
    waiter.join(10)
    with pytest.raises(native.UsageProblem, match="closed before"):
        ticket.result()


def test_a_pool_is_released_after_the_push_of_another_thread() -> None:
    streams = pool()
    one = streams.open()
    found: dict[str, Any] = {}
    with native.HeldDevice():
        caller = in_thread(lambda: found.update(streams.push([one], {"x": ONES[:1]})))
        time.sleep(0.1)
        closer = in_thread(streams.release)
        time.sleep(0.2)
        assert closer.is_alive()
    caller.join(10)
    closer.join(10)
    assert not closer.is_alive()
    assert found["y"].tolist() == [2]


@pytest.mark.parametrize("action", ["run", "close"])
def test_ctrl_c_ends_a_wait(action: str) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    runner = twice(cuda_graph=False)
    interrupt = threading.Timer(0.3, _thread.interrupt_main)
    begin = time.monotonic()
    with native.HeldDevice():
        caller = in_thread(lambda: runner.run({"x": X}))
        time.sleep(0.1)
        interrupt.start()
        with pytest.raises(KeyboardInterrupt):
            runner.run({"x": X}) if action == "run" else runner.close()
        assert time.monotonic() - begin < 5
    signal.signal(signal.SIGINT, before)
    caller.join(10)
    runner.close()


class Interrupted:
    """A `with` block in which the main thread is interrupted after some time, and must be out of it soon after."""

    def __enter__(self) -> None:
        self.before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.begin = time.monotonic()
        self.timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
        self.timer.start()

    def __exit__(self, kind: Any, *_rest: Any) -> bool:
        self.timer.join()
        signal.signal(signal.SIGINT, self.before)
        assert kind is KeyboardInterrupt
        assert time.monotonic() - self.begin < 3
        return True


@pytest.mark.parametrize("how", ["run", "out", "submit", "wait", "detector"])
@pytest.mark.parametrize("spin", [True, False])
def test_ctrl_c_ends_a_long_call_which_then_ends_by_itself(how: str, spin: bool) -> None:
    options = native.RunnerOptions(spin=spin)
    runner, detector = (
        native.Runner(native.Engine.twice(), options),
        native.Detector(native.Engine.twice(), rows_head(), options),
    )
    held, out = native.HeldDevice(), np.zeros(4, np.float32)
    calls: dict[str, Callable[[], Any]] = {
        "run": lambda: runner.run({"x": X}),
        "out": lambda: runner.run({"x": X}, out={"y": out}),
        "submit": lambda: runner.submit({"x": X}).result(),
        "wait": lambda: runner.submit({"x": X}).wait(),
        "detector": lambda: detector.run({"x": X}),
    }
    held.__enter__()
    release = threading.Timer(2, held.__exit__, [None, None, None])
    release.start()
    with Interrupted():
        calls[how]()
    release.join()
    for first in range(3):
        assert runner.run({"x": X + first})["y"].tolist() == (2 * (X + first) + 1).tolist()
        assert detector.run({"x": X + first}, outputs=["y"])[1]["y"].tolist() == (2 * (X + first) + 1).tolist()
    runner.close()
    detector.close()


@pytest.mark.parametrize("threads", [True, False])
@pytest.mark.parametrize("how", ["measure", "bench"])
def test_ctrl_c_ends_a_measurement(how: str, threads: bool) -> None:
    options = native.BenchOptions(iterations=1, duration_s=20, warmup_ms=0, threads=threads, streams=2)
    runner = twice()
    with Interrupted():
        runner.measure({"x": X}, options) if how == "measure" else native.bench(
            native.Engine.twice(), {"x": X}, options
        )
    assert runner.run({"x": X})["y"].tolist() == (2 * X + 1).tolist()


def test_a_handler_that_closes_the_runner_of_the_call_it_interrupts_does_not_wait_for_that() -> None:
    runner, held, closed = twice(), native.HeldDevice(), []

    def close(*_: Any) -> None:
        runner.close()
        closed.append(time.monotonic())

    before = signal.signal(signal.SIGALRM, close)
    held.__enter__()
    release = threading.Timer(1, held.__exit__, [None, None, None])
    release.start()
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    assert runner.run({"x": X})["y"].tolist() == (2 * X + 1).tolist()
    release.join()
    signal.signal(signal.SIGALRM, before)
    assert closed
    with pytest.raises(native.UsageProblem, match="closed"):
        runner.run({"x": X})


def test_threads_that_run_submit_and_give_up() -> None:
    runner = native.Runner(native.Engine.twice(), native.RunnerOptions(slots=3, spin=False))

    def work(number: int) -> int:
        wrong = 0
        for i in range(40):
            x = np.full(1 + (i + number) % 4, 100 * number + i, np.float32)
            out = np.empty_like(x)
            if i % 4 == 0:
                wrong += not np.array_equal(runner.run({"x": x}, out={"y": out})["y"], 2 * x + 1)
                continue
            ticket = runner.submit({"x": x})
            if i % 4 == 1:
                wrong += not np.array_equal(ticket.result(timeout=30)["y"], 2 * x + 1)
            elif i % 4 == 2:
                wrong += not np.array_equal(ticket.future().result(30)["y"], 2 * x + 1)
            del ticket  # its slot is free again
            runner.memory_bytes()
            runner.graph_status()
        return wrong

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(work, range(4))) == 0
    runner.close()
    gc.collect()


def test_runners_that_are_closed_while_threads_use_them() -> None:
    for _ in range(10):
        runner = native.Runner(native.Engine.twice(), native.RunnerOptions(slots=2))

        def work(runner: Any = runner) -> None:
            try:
                for _ in range(100):
                    runner.submit({"x": X}).result()
                    runner.run({"x": X})
            except native.UsageProblem as closed:
                assert "closed" in str(closed)  # noqa: PT017 - the thread ends with it

        with ThreadPoolExecutor(3) as threads:
            futures = [threads.submit(work) for _ in range(3)]
            time.sleep(0.01)
            runner.close()
            for future in futures:
                future.result(30)


# ---- memory that serves one request after another -------------------------------------------------------


def test_a_call_knows_nothing_of_the_one_before() -> None:
    runner, wide = twice(), np.arange(8, dtype=np.float32)
    on_device = twice().run({"x": X}, device_outputs=True)["y"]
    expected = (2 * X + 1).tolist()
    for _ in range(2):
        assert runner.run({"x": wide[::2]})["y"].tolist() == (2 * wide[::2] + 1).tolist()
        assert runner.run({"x": X})["y"].tolist() == expected
        assert runner.run({"x": on_device})["y"].tolist() == (2 * (2 * X + 1) + 1).tolist()
        assert runner.run({"x": X}, outputs=[], device_outputs=True)["y"].numpy().tolist() == expected
        out = np.zeros(4, np.float32)
        assert runner.run({"x": list(X)}, out={"y": out})["y"] is out
        with pytest.raises(native.UsageProblem, match="foreign byte order"):
            runner.run({"x": FOREIGN})
        assert runner.run({"x": X[:2]})["y"].tolist() == expected[:2]
        assert out.tolist() == expected


def test_an_array_is_let_go_of_with_its_call() -> None:
    class Weak(np.ndarray):
        pass

    runner = twice()
    for call in (lambda x: runner.run({"x": x}), lambda x: runner.submit({"x": x}).result()):
        given = X.view(Weak)
        gone = weakref.ref(given)
        assert call(given)["y"].tolist() == (2 * X + 1).tolist()
        del given
        assert gone() is None


def test_the_end_of_an_array_may_call_the_runner() -> None:
    runner, found = twice(), []

    class Ending(np.ndarray):
        def __del__(self) -> None:
            found.append(runner.run({"x": ONES})["y"].tolist())

    class Lazy:
        def __array__(self, *_: Any, **__: Any) -> Any:
            return X.copy().view(Ending)

    for count in range(1, 4):
        assert runner.run({"x": Lazy()})["y"].tolist() == (2 * X + 1).tolist()
        assert found == [[3] * 4] * count


def test_states_that_a_call_leaves_out_stay_their_own() -> None:
    count = 24
    names = {f"present.{i}": f"past.{i}" for i in range(count)}
    runner = native.Runner(native.Engine.many(count), native.RunnerOptions(state=names))
    runner.reset_state({f"past.{i}": i * ONES for i in range(count)})
    for step in range(6):
        given = {"x": step * ONES}
        if step == 3:
            given["past.7"] = -ONES
        found = runner.run(given, outputs=["y"], device_outputs=[*names] if step % 2 else [])
        assert found.pop("y").tolist() == [step] * 4
        for i, one in enumerate(found.values()):
            assert one.numpy().tolist() == [-1 if i == 7 and step >= 3 else i] * 4
    with pytest.raises(native.UsageProblem, match="no input 'z'"):
        runner.run({"x": X, "z": X})
    with pytest.raises(native.UsageProblem, match="'x' is missing"):
        runner.run({"past.3": X})


# ---- device arrays and graphs ---------------------------------------------------------------------------


def test_device_arrays_are_taken_and_kept() -> None:
    runner = twice()
    kept = [runner.run({"x": np.full(4, i, np.float32)}, device_outputs=True)["y"] for i in range(5)]
    other = twice()
    for i, array in enumerate(kept):
        assert other.run({"x": array})["y"].tolist() == [2 * (2 * i + 1) + 1] * 4


def test_an_engine_that_streams_weights_has_no_graph() -> None:
    engine = native.Engine.twice(4)
    engine.streams_weights = True
    runner = native.Runner(engine)
    for _ in range(4):
        assert runner.run({"x": X})["y"].tolist() == (2 * X + 1).tolist()
    assert "streams weights" in str(runner.graph_status())
    assert (
        "streams weights"
        in native.bench(engine, {"x": X}, native.BenchOptions(iterations=1, duration_s=0, warmup_ms=0)).graph_fallback
    )


class Foreign:
    """An array of another library; `described` is how often and how it was asked for."""

    def __init__(self) -> None:
        self.array = twice().run({"x": X}, device_outputs=True)["y"]
        self.described: list[Any] = []

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self.described.append("interface")
        return {name: value for name, value in self.array.__cuda_array_interface__.items() if name != "stream"}


class ForeignDlpack(Foreign):
    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, *, stream: int | None = None) -> Any:
        self.described.append(stream)
        return self.array.__dlpack__(stream=stream)


ANSWER = (2 * (2 * X + 1) + 1).tolist()


def test_an_array_of_another_library_is_described_once() -> None:
    for slots in (1, 2):
        foreign, runner = ForeignDlpack(), twice(slots=slots)
        for _ in range(3):
            assert runner.run({"x": foreign})["y"].tolist() == ANSWER
        own, *others = foreign.described  # by DLPack alone, with a stream of the runner's
        assert own > 2
        assert others == [own, own]
    for value in (Foreign(), ForeignDlpack()):
        stream = native.Stream()
        found = twice().run({"x": value}, device_outputs=True, stream=stream)
        assert found["y"].numpy().tolist() == ANSWER
        assert value.described == [stream.cuda_stream if hasattr(value, "__dlpack__") else "interface"]


def test_an_array_with_an_exchange_is_described_without_python() -> None:
    class Device(ctypes.Structure):
        _fields_ = (("kind", ctypes.c_int32), ("index", ctypes.c_int32))

    class Tensor(ctypes.Structure):
        _fields_ = (
            ("data", ctypes.c_void_p),
            ("device", Device),
            ("ndim", ctypes.c_int32),
            ("code", ctypes.c_uint8),
            ("bits", ctypes.c_uint8),
            ("lanes", ctypes.c_uint16),
            ("shape", ctypes.POINTER(ctypes.c_int64)),
            ("strides", ctypes.POINTER(ctypes.c_int64)),
            ("offset", ctypes.c_uint64),
        )

    shape, current = (ctypes.c_int64 * 1)(4), native.Stream()

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))
    def view(value: Any, out: Any) -> int:
        out[0] = Tensor(value.array.pointer, Device(2, 0), 1, 2, 32, 1, shape, None, 0)
        return 0

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
    def stream(_kind: int, _index: int, out: Any) -> int:
        out[0] = current.cuda_stream
        return 0

    functions = (ctypes.c_void_p * 7)(
        1 | 3 << 32, None, None, None, None, *(ctypes.cast(f, ctypes.c_void_p) for f in (view, stream))
    )
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    name = b"dlpack_exchange_api"

    class Exchanged(ForeignDlpack):
        __dlpack_c_exchange_api__ = new(ctypes.addressof(functions), name, None)

    value, runner = Exchanged(), twice()
    assert runner.run({"x": value})["y"].tolist() == ANSWER
    other, waits = native.Stream(), native.waits()
    for on, more in ((current, 0), (other, 1)):  # its library's own stream needs no event
        found = runner.run({"x": value}, device_outputs=True, stream=on)["y"]
        assert found.numpy().tolist() == ANSWER
        assert native.waits() - waits >= more
    assert value.described == []


# ---- arrays that are still being written ----------------------------------------------------------------


class OnlyDlpack:
    """What CuPy, JAX and older releases of PyTorch offer."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def __dlpack__(self, *, stream: int | None = None) -> Any:
        return self.array.__dlpack__(stream=stream)


class OnlyInterface:
    """What Numba offers: a description, which names the stream that writes the array."""

    def __init__(self, array: Any) -> None:
        self.array, self.__cuda_array_interface__ = array, array.__cuda_array_interface__


@pytest.mark.parametrize("how", ["run", "submit", "detector"])
@pytest.mark.parametrize("slots", [1, 2, 4])
@pytest.mark.parametrize("wrap", [lambda array: array, OnlyDlpack, OnlyInterface], ids=["own", "dlpack", "interface"])
def test_an_input_is_waited_for_whichever_slot_reads_it(wrap: Callable[[Any], Any], slots: int, how: str) -> None:
    maker, stream = twice(), native.Stream()
    consumer = twice(slots=slots)
    detector = native.Detector(native.Engine.twice(), rows_head(), native.RunnerOptions(slots=slots))
    for turn in range(4 * slots):
        stream.hold()
        x = wrap(maker.run({"x": X + turn}, outputs=[], device_outputs=["y"], stream=stream)["y"])
        found: list[Any] = []
        calls: dict[str, Callable[[], Any]] = {
            "run": lambda x=x: consumer.run({"x": x})["y"],
            "submit": lambda x=x: consumer.submit({"x": x}).result()["y"],
            "detector": lambda x=x: detector.run({"x": x}, outputs=["y"])[1]["y"],
        }
        caller = in_thread(lambda call=calls[how], found=found: found.append(call().tolist()))
        caller.join(0.02)
        assert caller.is_alive()
        stream.release()
        caller.join(10)
        assert found == [(2 * (2 * (X + turn) + 1) + 1).tolist()]


def test_an_array_of_a_threads_default_stream_is_not_taken_for_one_of_another_thread() -> None:
    runner, found = twice(), []
    x = runner.run({"x": X}, device_outputs=True)["y"]
    worker = in_thread(lambda: found.append(runner.run({"x": x}, device_outputs=True, stream=2)["y"]))
    worker.join(10)
    (y,) = found
    waits = native.waits()
    y.__dlpack__(stream=2)
    assert native.waits() == waits + 1
    assert y.__cuda_array_interface__["stream"] == 1


def test_input_buffers_may_be_crossed() -> None:
    for options in ({}, {"graph_includes_transfers": False}, {"cuda_graph": False}):
        for size in (4, 20_000):  # staged, and copied apart
            runner = native.Runner(native.Engine.recurrent(size), native.RunnerOptions(**options))
            x, h = runner.input_buffer("x"), runner.input_buffer("h")
            for turn in range(4):
                x[...], h[...] = 1 + turn, 10
                assert (runner.run({"x": h, "h": x})["y"] == 12 + turn).all()
                x[...], h[...] = 1 + turn, 10
                assert (runner.run({"x": np.full(size, 5, np.float32), "h": x})["y"] == 7 + turn).all()
                x[...], h[...] = np.arange(size), 10
                assert (runner.run({"x": x[::-1], "h": x})["y"] == size).all()
                x[...], h[...] = 1, 2
                assert (runner.run({"x": x, "h": h})["y"] == 4).all()


# ---- streams of the caller's ----------------------------------------------------------------------------


def test_a_call_on_a_stream_returns_before_the_device_is_done() -> None:
    runner, stream = twice(), native.Stream()
    x = twice().run({"x": X}, device_outputs=True)["y"]
    for _ in range(5):
        stream.hold()
        found = runner.run({"x": x}, device_outputs=True, stream=stream)["y"]
        waits = native.waits()
        found.__dlpack__(stream=stream.cuda_stream)
        found.__dlpack__(stream=-1)
        assert native.waits() == waits  # comes after it anyhow
        found.__dlpack__(stream=native.Stream().cuda_stream)
        assert native.waits() == waits + 1
        assert found.__cuda_array_interface__["stream"] == stream.cuda_stream
        reader = in_thread(found.numpy)
        reader.join(0.02)
        assert reader.is_alive()
        stream.release()
        reader.join(10)
        assert found.numpy().tolist() == ANSWER
    assert "on:" in str(runner.graph_status())


def test_outputs_on_the_host_are_waited_for_on_a_stream_too() -> None:
    runner, stream = twice(), native.Stream()
    target = np.zeros(4, np.float32)
    for _ in range(4):
        assert runner.run({"x": X}, stream=stream)["y"].tolist() == (2 * X + 1).tolist()
        assert runner.run({"x": X}, out={"y": target}, stream=stream)["y"] is target
    assert runner.run({"x": X}, device_outputs=True)["y"].__cuda_array_interface__["stream"] is None


class Handle:
    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __int__(self) -> int:
        return self.handle


class Protocol(Handle):
    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle

    __int__ = None  # type: ignore[assignment]


def test_streams_of_other_libraries_are_taken() -> None:
    runner, stream = twice(), native.Stream()
    cupy = type("Stream", (), {"ptr": stream.cuda_stream})()
    for given in (stream, stream.cuda_stream, cupy, Protocol(stream.cuda_stream), Handle(stream.cuda_stream)):
        found = runner.run({"x": X}, device_outputs=True, stream=given)["y"]
        assert found.__cuda_array_interface__["stream"] == stream.cuda_stream
    for default in (0, 1):
        found = runner.run({"x": X}, device_outputs=True, stream=default)["y"]
        assert found.__cuda_array_interface__["stream"] == 1
        assert found.numpy().tolist() == (2 * X + 1).tolist()
    for wrong in ("1", 1.0, True, object(), X):
        with pytest.raises(native.UsageProblem, match="A stream is an object of PyTorch"):
            runner.run({"x": X}, device_outputs=True, stream=wrong)


def test_close_waits_for_what_is_queued() -> None:
    runner, stream = twice(), native.Stream()
    stream.hold()
    found = runner.run({"x": X}, device_outputs=True, stream=stream)["y"]
    closer = in_thread(runner.close)
    closer.join(0.1)
    assert closer.is_alive()
    stream.release()
    closer.join(10)
    assert not closer.is_alive()
    assert found.numpy().tolist() == (2 * X + 1).tolist()


def test_measured_calls_have_times_and_others_take_none() -> None:
    runner = twice()
    runner.run({"x": X})
    assert runner.timing().compute_ms == 0
    options = native.BenchOptions(iterations=2, duration_s=0, warmup_ms=0)
    assert runner.measure({"x": X}, options).compute_ms.min() > 0


# ---- page-locked arrays of the caller's -----------------------------------------------------------------


def page_locked(values: Any) -> Any:
    """An array in page-locked memory: the buffer of a runner that makes no calls."""
    array = twice().input_buffer("x", values.shape)
    array[...] = values
    return array


def test_page_locked_arrays_are_read_and_written_where_they_lie() -> None:
    runner = native.Runner(native.Engine.twice(20_000))
    for first in range(5):
        x = page_locked(np.arange(first, first + 20_000, dtype=np.float32))
        y = page_locked(np.zeros(20_000, np.float32))
        found = runner.run({"x": x}, out={"y": y})
        assert found["y"] is y
        np.testing.assert_array_equal(y, 2 * x + 1)
        assert runner.counters()["in_place_inputs"] == first + 1
        np.testing.assert_array_equal(runner.run({"x": np.array(x)})["y"], y)
        assert runner.counters()["in_place_inputs"] == first + 1


def test_a_submitted_page_locked_array_may_change() -> None:
    runner, x = native.Runner(native.Engine.twice(20_000)), page_locked(np.ones(20_000, np.float32))
    with native.HeldDevice():
        ticket = runner.submit({"x": x})
        x[...] = 5
    np.testing.assert_array_equal(ticket.result()["y"], np.full(20_000, 3, np.float32))


# ---- boxes of detectors ---------------------------------------------------------------------------------


def rows_head(**changed: Any) -> Any:
    """Of rows of six values, in an output [images, values]: the engine "twice" gives 2 x + 1."""
    places = {"boxes": (0, 0, 1, 0), "scores": (0, 0, 1, 0), "labels": (0, 0, 1, 0)}
    return native.HeadSpec(8, **{"width": 8, "items": 1, "classes": 0, "kind": "rows", **places, **changed})


def test_a_detector_gives_boxes_and_the_outputs_that_are_asked_for() -> None:
    with native.Detector(native.Engine.twice(), rows_head()) as detector:
        for turn in range(5):
            x = np.array([0, -0.25, 1 + turn], np.float32)  # 1: a score and a class; 0.5: no class; the rest is odd
            found, outputs = detector.run({"x": x}, outputs=["y"] if turn % 2 else [])
            assert found[1:] == [None, None]
            boxes, scores, labels = found[0]
            assert (boxes.tolist(), scores.tolist(), labels.tolist()) == ([[1] * 4], [1], [1])
            assert [*outputs] == (["y"] if turn % 2 else [])
            assert detector.timing().end_to_end_ms > 0
    with pytest.raises(native.UsageProblem, match="closed"):
        detector.run({"x": ONES})


def test_further_values_come_with_the_boxes() -> None:
    with native.Detector(native.Engine.twice(), rows_head(more=(0, 0, 1, 0), values=2)) as detector:
        for _ in range(3):
            found, _ = detector.run({"x": np.array([0, -0.5], np.float32)})
            assert [array.tolist() for array in found[0]] == [[[1] * 4], [1], [1], [[1, 1]]]
            assert found[1][3].shape == (0, 2)


def test_masks_come_with_the_boxes() -> None:
    planes = {"more": (0, 0, 1, 0), "values": 1, "planes": (0, 0, 1, 0), "plane_height": 1, "plane_width": 1}
    with native.Detector(native.Engine.twice(), rows_head(**planes)) as detector:
        for _ in range(3):
            (found,), _ = detector.run({"x": np.array([0], np.float32)})
            assert (len(found), found[4].dtype, found[4].size) == (5, np.uint32, 0)  # there is no pixel in the box
    (found,) = native.find_boxes_cpu(
        rows_head(**planes, width=40, boxes=(0, 1, 0, 1)), [np.array([[1, -3, 0, 40, 2]], np.float32)]
    )
    assert found[4].tolist() == [0xFFFF_FFFF, 0xFF] * 2


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"kind": "columns"}, "There is no kind 'columns'; there are: pairs, best, cells, rows"),
        ({"conf": 1.0}, "score threshold"),
        ({"max_dets": 0}, "number of boxes"),
    ],
)
def test_a_head_that_makes_no_sense_is_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(native.UsageProblem, match=words):
        rows_head(**changed)


def test_a_head_that_does_not_fit_the_engine_is_refused_by_the_call() -> None:
    detector = native.Detector(native.Engine.twice(), rows_head(boxes=(0, 3, 1, 0)))
    for _ in range(3):
        with pytest.raises(native.UsageProblem, match="do not lie as its head says"):
            detector.run({"x": ONES})
    with pytest.raises(native.UsageProblem, match="no output 'z'"):
        detector.run({"x": ONES}, outputs=["z"])
