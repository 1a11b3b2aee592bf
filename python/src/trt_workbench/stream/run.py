"""`eval-stream`: a streaming model compared with its reference over many chunks, by its contract."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from trt_workbench.core.array_files import load_arrays, named_below, save_arrays
from trt_workbench.core.counts import counted
from trt_workbench.core.documents import append_lines, json_values, read_lines, write_json
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import atomic_writer
from trt_workbench.core.work import taking
from trt_workbench.stream.compare import Parts
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.expressions import Uncomputable
from trt_workbench.stream.contract.parts import Chunk
from trt_workbench.stream.document import ChunkRecord, FaultMetrics, Faults, LaneMetrics, Resident, StreamMetrics
from trt_workbench.stream.drift import RECURRENT_CHUNKS
from trt_workbench.stream.faults import ONE_SHORT, STUCK, faults
from trt_workbench.stream.input import StreamInput, held_out, open_stream
from trt_workbench.stream.lane import Lane
from trt_workbench.stream.lane_gates import CHECKLIST, judge, judged_as, tie
from trt_workbench.stream.opening import OpenedStream
from trt_workbench.stream.paced import rounds, run_paced
from trt_workbench.stream.paced_document import Paced
from trt_workbench.stream.reference import StreamRecorder
from trt_workbench.stream.settings import CLOSED_LOOP, CODE, DEVICE, FUNCTIONAL, RANDOM
from trt_workbench.stream.sharding import what_decides

_SAMPLES = 400
_FEWEST = 20


class Watch:
    """Samples the resident memory while a stream runs."""

    def __init__(self, chunks: int) -> None:
        """Expect so many chunks."""
        import psutil

        self._process = psutil.Process(os.getpid())
        self._every = max(1, chunks // _SAMPLES)
        self._found: list[tuple[int, int]] = []

    def sample(self, chunk: int) -> None:
        """Take a sample if it is time for one."""
        if chunk % self._every == 0:
            self._found.append((chunk, self._process.memory_info().rss))

    def found(self) -> Resident | None:
        """Return the slope after the first tenth, in which runtimes take their memory; None of a short stream."""
        from scipy.stats import theilslopes

        kept = self._found[len(self._found) // 10 :]
        if len(kept) < _FEWEST:
            return None
        slope, _, low, high = theilslopes([size for _, size in kept], [chunk for chunk, _ in kept], 0.95)
        return Resident(
            first_bytes=kept[0][1],
            last_bytes=kept[-1][1],
            bytes_per_chunk=float(slope),
            low=float(low),
            high=float(high),
            samples=len(kept),
        )


Progress = Callable[[int, int], None]
_LINES = 64
RECORDS: Final = "records.jsonl"
_RAN: Final = ("precision_ran", "tensorrt", "plan_sha256")
_FEWEST_FOR_FAULTS = 4
DONE: Final = "part/chunks.npz"
"""What is done, in the run directory of a comparison that has not ended."""
_EVERY_S = 10.0  # what is done is kept so often


class StreamEvaluation:
    """An evaluation with its sessions. A context manager.

    Attributes:
        contract: of the model.
        stream: what the model is fed.
        chunks: that the stream is cut into.
    """

    def __init__(self, opened: OpenedStream) -> None:
        """Take the sessions, and read the stream.

        Raises:
            UsageProblem: the stream cannot be read, does not fit, or has a chunk outside every profile.
        """
        self._opened, settings = opened, opened.settings
        self.contract: Contract = opened.contract
        self.notes: list[str] = []
        hops = [chunk.hop for chunk in self._cut(2**33, 2)]
        frames = hops[0] + (settings.chunks - 1) * hops[1]
        if opened.recorded:
            index = opened.recorded.index
            self.stream = StreamInput(opened.recorded.signal, {**index.input, "record": index.sha256})
            frames = min(frames, self._length(self.stream))
        else:
            source = settings.input or (CODE if opened.is_embedded else RANDOM)
            self.stream = open_stream(self.contract, source, frames, settings.seed)
        self.chunks = self._cut(self._length(self.stream), settings.chunks)
        if opened.recorded:
            self.chunks = self.chunks[: opened.recorded.index.chunks]
        if len(self.chunks) < settings.chunks:
            self.notes.append(
                f"The stream has {counted(len(self.chunks), 'chunk')}, fewer than --chunks {settings.chunks}."
            )
        if self._recurrent and len(self.chunks) < RECURRENT_CHUNKS:
            self.notes.append(
                f"The model's memory is infinite: its error is understated by {counted(len(self.chunks), 'chunk')}; "
                f"use --chunks {RECURRENT_CHUNKS} to see its plateau."
            )
        if settings.faults and len(self.chunks) < _FEWEST_FOR_FAULTS:
            raise UsageProblem(
                f"--faults needs at least {_FEWEST_FOR_FAULTS} chunks, to see what faults in the middle do; the stream "
                f"has {len(self.chunks)}."
            )
        if DEVICE in settings.mode and CLOSED_LOOP not in settings.mode:
            self.notes.append(
                "Mode device was not compared with closed-loop bit for bit, and its state was not compared; add "
                "closed-loop to --mode."
            )
        if opened.is_compared_with_itself:
            self.notes.append(
                "Target and reference are the same model on the same runtime: only the loop is compared. "
                "Name another with --backend or --reference."
            )
        if settings.streams and self._hop_seconds is None:
            raise UsageProblem(
                "--streams needs the duration of a hop, and the contract has no chunking.frame_seconds; add it, or "
                f"pass --hop-ms: {opened.contract_path}"
            )
        self._check_profiles()

    def run(
        self,
        folder: Path,
        progress: Progress,
        earlier: Callable[[Mapping[str, Any]], Sequence[Path]] = lambda _: (),
    ) -> StreamMetrics:
        """Evaluate, and write metrics.json, records.jsonl and, if requested, the record of the reference.

        Args:
            folder: an existing folder.
            progress: called with the chunks done and their total.
            earlier: returns the unfinished runs whose chunks are taken over, newest first, given what identifies them.
        """
        settings, opened = self._opened.settings, self._opened
        lanes = [self._lane(precision, mode) for precision in settings.precision for mode in settings.mode]
        single = len(self.chunks) * (2 if settings.faults else 1)
        hop_s = self._hop_seconds
        paced_chunks = sum(settings.streams) * rounds(settings.seconds, hop_s) if settings.streams and hop_s else 0
        total = single + paced_chunks * len(settings.precision)
        facts = opened.record_facts(self.stream) if settings.record else None
        recorder = None if facts is None else StreamRecorder(folder, self.stream.signal, **facts)
        watch = Watch(len(self.chunks))
        left = earlier(
            {
                **what_decides(settings, opened.target),
                "input": json_values(self.stream.record, str),
                "ran": json_values([{key: opened.record(one.session).get(key) for key in _RAN} for one in lanes], str),
            }
        )
        self._run(lanes, self.stream, folder, recorder, watch, lambda done: progress(done, total), left)
        judged = [self._judged(lane) for lane in lanes]
        tested = self._self_test(lambda done: progress(len(self.chunks) + done, total)) if settings.faults else None
        paced = self._paced(lambda done: progress(single + done, total))
        failures = _failures(judged, tested) + [
            f"{one.precision} streams in batches: {one.check.text}" for one in paced if not one.check.passed
        ]
        metrics = StreamMetrics(
            **opened.facts(settings, failures, self.notes),
            input={**self.stream.record, "frames": self._length(self.stream)},
            chunks=len(self.chunks),
            stream_seconds=self._seconds(sum(chunk.new for chunk in self.chunks)),
            hop_seconds=self._seconds(self.chunks[-1].hop),
            memory_chunks=self._memory if self.contract.chunking.memory else None,
            gate_set=settings.gates,
            lanes=judged,
            closed_over_functional=_ratios(judged),
            faults=tested,
            resident=watch.found(),
            streams=paced,
        )
        write_json(folder / "metrics.json", metrics)
        shutil.rmtree((folder / DONE).parent, ignore_errors=True)
        return metrics

    def _cut(self, frames: int, most: int) -> list[Chunk]:
        """Return the whole chunks of a stream; the rest at its end is dropped."""
        found: list[Chunk] = []
        try:
            for chunk in self.contract.chunks(frames, self._opened.settings.chunk):
                if chunk.new < chunk.hop or len(found) == most:
                    break
                found.append(chunk)
        except ValueError as error:
            raise UsageProblem(f"The stream cannot be cut: {error}.") from error
        if not found:
            raise UsageProblem(f"The stream has {counted(frames, 'frame')}, fewer than one chunk.")
        return found

    def _length(self, stream: StreamInput) -> int:
        return int(stream.signal.shape[self.contract.signal[1].time_axis])

    def _seconds(self, frames: int) -> float | None:
        seconds = self.contract.chunking.frame_seconds
        return None if seconds is None else frames * seconds

    @property
    def _hop_seconds(self) -> float | None:
        """Seconds between two chunks of a stream in real time; None where it is not known."""
        asked = self._opened.settings.hop_ms
        return self._seconds(self.chunks[-1].hop) if asked is None else asked / 1e3

    def _paced(self, progress: Callable[[int], None]) -> list[Paced]:
        """Run many streams in real time, if requested, in each precision."""
        settings, hop_s, done = self._opened.settings, self._hop_seconds, 0

        def count(chunks: int) -> None:
            nonlocal done
            done += chunks
            progress(done)

        if not settings.streams or hop_s is None:
            return []
        return [run_paced(self._opened, one, self.stream.signal, hop_s, count) for one in settings.precision]

    def _values(self, chunk: Chunk) -> dict[str, int]:
        try:
            return self.contract.chunk_values(chunk)
        except ValueError as error:
            raise UsageProblem(f"A chunk of {chunk.size} frames does not fit the contract: {error}.") from error

    @property
    def _recurrent(self) -> bool:
        memory = self.contract.chunking.memory
        return memory is not None and memory.kind == "infinite"

    @property
    def _memory(self) -> int | None:
        """Chunks until the state is filled, a tenth of them where the contract does not say; None where never."""
        if self._recurrent:
            return None
        memory = self.contract.chunking.memory
        if memory and memory.chunks is not None:
            if (chunks := int(memory.chunks.whole(self._values(self.chunks[-1])))) < 0:
                raise UsageProblem(f"The contract's chunking.memory.chunks is {chunks}; it must be a number from 0 on.")
            return chunks
        return len(self.chunks) // 10

    def _check_profiles(self) -> None:
        for chunk in (self.chunks[0], self.chunks[-1]):
            values = self._values(chunk)
            if not self.contract.profiles_for(values):
                free = ", ".join(f"{name}={values[name]}" for name in self.contract.free)
                raise UsageProblem(
                    f"A chunk of {chunk.size} frames ({free}) lies outside every profile of the contract "
                    f"({', '.join(profile.name for profile in self.contract.profiles)}): {self._opened.contract_path}"
                )

    def _initial(self) -> dict[str, NDArray[Any]]:
        return self.contract.initial_state(self._values(self.chunks[0]), self._opened.contract_path.parent)

    def _lane(self, precision: str, mode: str, **more: Any) -> Lane:
        session = self._opened.session(precision, on_device=mode == DEVICE)
        more["tie"] = tie(judged_as(self._opened.record(session).get("precision_ran"), precision, self.contract))
        return Lane(session, self.contract, precision, mode, self._initial(), len(self.chunks), **more)

    def _judged(self, lane: Lane) -> LaneMetrics:
        gates = CHECKLIST if self._opened.settings.gates == "checklist" else self.contract.gates
        return judge(lane, self.contract, gates, self._opened.record(lane.session), self._memory)

    def _run(
        self,
        lanes: Sequence[Lane],
        stream: StreamInput,
        folder: Path | None,
        recorder: StreamRecorder | None,
        watch: Watch | None,
        progress: Callable[[int], None],
        earlier: Sequence[Path] = (),
    ) -> None:
        """Run every lane and the reference over the stream, chunk by chunk, from where the first earlier run ended."""
        reference = self._opened.reference(self._initial())
        parts, waiting = Parts(self.contract), list[ChunkRecord]()
        pairs, saved = list(_device_pairs(lanes)), time.monotonic()
        # a state on a device cannot be read, and a record begins at the first chunk
        keeps = folder and not (recorder or DEVICE in self._opened.settings.mode)
        if folder and earlier:
            with taking(earlier):
                arrays = load_arrays(earlier[0] / DONE)
                for number, lane in enumerate(lanes):
                    lane.take(named_below(arrays, f"{number}/"))
                reference.state = named_below(arrays, "reference/")
                lines = read_lines(earlier[0] / RECORDS, ChunkRecord, growing=True)[: lanes[0].done * len(lanes)]
                if len(lines) < lanes[0].done * len(lanes):
                    raise ValueError(f"{RECORDS} has {counted(len(lines), 'line')}")
            append_lines(folder / RECORDS, lines)
        for chunk in self.chunks[lanes[0].done :]:
            values = self._values(chunk)
            begin = time.perf_counter()
            feed = self.contract.feed(chunk, stream.signal, values)
            feed_ms = (time.perf_counter() - begin) * 1e3
            state = reference.state
            with _naming(chunk):
                expected = reference.outputs(chunk.index, feed)
                slices = parts.slices(chunk, values, {**feed, **state}, expected)
            for lane in lanes:
                with _naming(chunk):
                    lane.step(feed, feed_ms, state)
                waiting.append(lane.compare(expected, slices))
            for device, closed in pairs:
                device.check_equal(closed)
            if recorder:
                recorder.add(expected)
            if watch:
                watch.sample(chunk.index)
            due = keeps and (chunk is self.chunks[-1] or time.monotonic() >= saved + _EVERY_S)
            if due or len(waiting) >= _LINES or chunk is self.chunks[-1]:
                if folder:
                    append_lines(folder / RECORDS, waiting)
                waiting.clear()
            if folder and due:
                with atomic_writer(folder / DONE) as file:
                    save_arrays(
                        file,
                        {
                            f"{number}/{name}": one
                            for number, lane in enumerate(lanes)
                            for name, one in lane.kept().items()
                        }
                        | {f"reference/{name}": one for name, one in reference.state.items()},
                    )
                saved = time.monotonic()
            progress(chunk.index + 1)
        if recorder:
            recorder.finish()

    def _self_test(self, progress: Callable[[int], None]) -> Faults:
        """Plant every fault in closed loop, in the first precision, on a stream that nothing was tuned on."""
        precision = self._opened.settings.precision[0]
        stream = (
            self.stream if self._opened.recorded else held_out(self.contract, self.stream, self._length(self.stream))
        )
        planted = faults(self.contract, len(self.chunks))
        healthy = self._lane(precision, CLOSED_LOOP, name="healthy")
        lanes = {
            fault.name: self._lane(precision, CLOSED_LOOP, alter=fault.alter, name=fault.name)
            for fault in planted
            if fault.alter
        }
        self._run([healthy, *lanes.values()], stream, None, None, None, progress)
        without_fault = self._judged(healthy)
        alarming = _failed(without_fault)  # what alarms without a fault, too, catches none
        found = []
        for fault in planted:
            judged = self._judged(lanes[fault.name]) if fault.alter else None
            caught = [gate for gate in _failed(judged) if gate not in alarming] if judged else []
            found.append(
                FaultMetrics(fault=fault.name, text=fault.text, reason=fault.reason, caught_by=caught, lane=judged)
            )
        # do not count a length one short as a fault where it changes nothing and the lengths are alive
        told = {one.fault: one.lane for one in found}
        if _changes_nothing(told[ONE_SHORT], without_fault) and not _changes_nothing(told[STUCK], without_fault):
            number = list(told).index(ONE_SHORT)
            reason = "it changes nothing: the model does not read the oldest valid entry"
            found[number] = found[number].model_copy(update={"reason": reason, "lane": None})
        missed = [one.fault for one in found if one.lane and not one.caught_by]
        return Faults(input=dict(stream.record), healthy=without_fault, planted=found, missed=missed)


@contextmanager
def _naming(chunk: Chunk) -> Iterator[None]:
    """Add the chunk to a problem's message: a model may end a stream, as one whose table of positions is used up."""
    try:
        yield
    except (UsageProblem, Uncomputable) as error:  # the latter of a contract that fits the model and not the stream
        raise UsageProblem(f"Chunk {chunk.index} of the stream: {error}") from error


def _changes_nothing(lane: LaneMetrics | None, healthy: LaneMetrics) -> bool:
    """Return whether a fault left every figure of every tensor unchanged."""
    return lane is not None and lane.tensors == healthy.tensors


def _device_pairs(lanes: Sequence[Lane]) -> Iterator[tuple[Lane, Lane]]:
    """Yield each lane with its state on the device, compared with the closed loop of the same precision."""
    for lane in lanes:
        for other in lanes:
            if lane.mode == DEVICE and other.mode == CLOSED_LOOP and lane.precision == other.precision:
                yield lane, other


def _failed(lane: LaneMetrics) -> list[str]:
    return list(dict.fromkeys(gate.gate for gate in lane.gates if gate.verdict == "failed"))


def _ratios(lanes: Sequence[LaneMetrics]) -> dict[str, float]:
    """Return by precision how much larger the median error is in closed loop than with the reference's state."""
    median = {(lane.precision, lane.mode): lane.rel_l2_p50 for lane in lanes}
    found = {}
    for precision in dict.fromkeys(lane.precision for lane in lanes):
        closed, functional = median.get((precision, CLOSED_LOOP)), median.get((precision, FUNCTIONAL))
        if closed is not None and functional:
            found[precision] = closed / functional
    return found


def _failures(lanes: Sequence[LaneMetrics], tested: Faults | None) -> list[str]:
    """Return what failed, one sentence each, with chunk, tensor and gate."""
    found = [
        f"{lane.name}: gate {gate.gate}: {gate.text}{'' if gate.limit is None else f' (limit {gate.limit:g})'}"
        for lane in lanes
        for gate in lane.gates
        if gate.verdict == "failed"
    ]
    if tested:
        found += [_missed(one, tested.healthy) for one in tested.planted if one.fault in tested.missed]
        found += [
            f"self-test: the stream without a fault fails gate {gate.gate}: {gate.text}"
            for gate in tested.healthy.gates
            if gate.verdict == "failed"
        ]
    return found


def _missed(fault: FaultMetrics, healthy: LaneMetrics) -> str:
    said = f"self-test: no gate catches the fault {fault.fault!r}"
    if _changes_nothing(fault.lane, healthy):
        return (
            f"{said}, which changes nothing: a state is dead but not declared dead, or this stream does not change it"
        )
    largest = fault.lane.rel_l2_max if fault.lane else None
    if largest is None:
        return said
    advice = "try more --chunks" if healthy.passed else "gates that fail without a fault do not count"
    return f"{said}, whose largest relative L2 is {largest:.2g}; {advice}"
