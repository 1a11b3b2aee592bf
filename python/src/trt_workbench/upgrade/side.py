"""One side of an upgrade: our commands in processes of its stack, and what they left, read back."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from trt_workbench.backends.kept_reference import KeptRecord
from trt_workbench.bench import built_group
from trt_workbench.core.artefacts import read_bench_run
from trt_workbench.core.builds import BUILD, Builds, BuiltGroup
from trt_workbench.core.documents import read_document, write_json
from trt_workbench.core.errors import INTERRUPTED, CheckFailed, UsageProblem, WorkbenchError
from trt_workbench.core.files import write_text
from trt_workbench.core.records import Record
from trt_workbench.core.stack import Stack
from trt_workbench.core.workers import ended_how, last_words, run_to_end
from trt_workbench.model.opened import Model
from trt_workbench.quantize import metric_of
from trt_workbench.upgrade.document import FILE, Checked, Reduced, StackSide, Upgrade, Upgraded
from trt_workbench.upgrade.settings import UpgradeSettings
from trt_workbench.verify import BisectFindings, CallRecordIndex, VerifyFindings, largest_error

_SIDE, _VERIFY, SCORE = "side.json", "verify", "score"
_PROGRAM = "import sys; sys.argv[0] = 'trtw'; from trt_workbench.main import main; main()"
# What a process or a container ends with that was killed, and what is said where no disk space is left.
_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
_FULL = tuple(os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT))
# Of one turn: turns count, not the samples within one.
_MEASURE = {"warmup_ms": 100.0, "duration_s": 0.3, "min_iterations": 10}


@dataclass(frozen=True)
class CommandEnd:
    """How a command of ours ended.

    Attributes:
        code: exit code; None where the time was over.
        error: its message without the marker, else how it ended.
        started: whether the stack started at all.
    """

    code: int | None
    error: str
    started: bool = True

    @property
    def ran(self) -> bool:
        """Whether it did its work, whatever it found: a failed check is a result."""
        return self.code in (0, CheckFailed.exit_code)


class RunningSide:
    """A side whose stack can run, or whose run was recorded: then nothing of it can be run again."""

    def __init__(self, settings: UpgradeSettings, stack: Stack | None, folder: Path, side: StackSide) -> None:
        """Keep what it is; `folder` has, or gets, a folder for each model."""
        self.stack, self.folder, self.side = stack, folder, side
        self.kept: dict[str, Checked] = {}  # by model, of a record
        self._settings = settings

    @classmethod
    def start(
        cls, settings: UpgradeSettings, text: str, folder: Path, options: Mapping[str, Any], models: Mapping[str, Path]
    ) -> RunningSide:
        """Start a stack and note in a new folder what it is; `options` of the backend are of this side alone.

        Raises:
            UsageProblem: there is no such stack, or it does not see the models or the folder.
            ComponentMissing: it does not start, or has no such backend.
        """
        stack = Stack.open(text)
        folder.mkdir(parents=True)
        found = stack.ask(settings.backend, (*models.values(), *settings.data_files, folder))
        side = StackSide(
            stack=text,
            kind=stack.kind,
            python=tuple(found["python"]),
            versions=found["versions"],
            gpus=tuple(found["gpus"]),
            backend=settings.backend,
            precision=settings.precision,
            options={**settings.options, **options},
            builds=settings.builds,
        )
        write_json(folder / _SIDE, side)
        return cls(settings, stack, folder, side)

    @classmethod
    def recorded(cls, settings: UpgradeSettings, kept: Path, folder: Path, models: Mapping[str, Path]) -> RunningSide:
        """Read the side that an earlier run recorded, and copy it into this one.

        Raises:
            UsageProblem: it is damaged, of another backend, precision or option, or of other models.
        """
        side = read_document(kept / _SIDE, StackSide)
        options = {**settings.options, **settings.before_options}
        if (side.backend, side.precision, side.options) != (settings.backend, settings.precision, options):
            raise UsageProblem(
                f"The record was made with --backend {side.backend} --precision {side.precision} and options "
                f"{side.options}; pass the same, or record again: {kept}"
            )
        if side.builds != settings.builds:
            number = f"--builds {side.builds}" if side.builds else "no --builds"
            raise UsageProblem(f"The record was made with {number}; pass the same, or record again: {kept}")
        found = {one.name: one for one in read_document(kept.with_name(FILE), Upgrade).models}
        for name, model in models.items():
            _require_recorded(kept / name / _VERIFY, found.get(name), model)
        shutil.copytree(kept, folder, symlinks=True)
        made = cls(settings, None, folder, side)
        made.kept = {name: found[name].before for name in models}
        return made

    @property
    def numbers(self) -> Sequence[int | None]:
        """The builds of each engine: None alone where there is one."""
        return range(1, self.side.builds + 1) if self.side.builds else (None,)

    def label(self, name: str) -> str:
        """Return what the builds of a model are called."""
        return f"{name}, {self.folder.name}"

    def of(self, name: str, part: str, number: int | None = None) -> Path:
        """Return the folder of a part of a model's work, in one of several builds from the second on."""
        return self.folder / name / (part if number in (None, 1) else f"{part}-{number}")

    def verify(
        self,
        name: str,
        model: Path,
        record: Path | None = None,
        by: Stack | None = None,
        number: int | None = None,
    ) -> CommandEnd:
        """Verify a model: alone, with its reference kept, or against the record of another side.

        Args:
            name: of the model.
            model: its file.
            record: run directory of the other side's verification.
            by: the stack that computes what is true while only the model runs in this one; None for this one.
            number: of the build.
        """
        settings = self._settings
        chosen = ["--record", *settings.input_words]
        if record:  # which has the inputs
            chosen = ["--reference", str(record)]
        if by and self.stack and (seen := self.stack.seen_from(by)):
            chosen += ["--stack", seen]
        first = number in (None, 1)
        if record and settings.bisect_seconds and first:
            chosen += ["--bisect", "--bisect-seconds", str(settings.bisect_seconds)]
        chosen += ["--quick"] if settings.quick or not first else []
        chosen += ["--seed", str(settings.seed), "--output", str(self.of(name, _VERIFY, number))]
        return self._run("verify", model, *chosen, by=by, number=number)

    def checked(self, name: str, ended: CommandEnd, number: int | None = None) -> Checked:
        """Return what a verification found, and how it ended."""
        file = self.of(name, _VERIFY, number) / "verify.json"
        if not file.is_file():
            return Checked(verdict=None, reason=ended.error, started=ended.started)
        found = read_document(file, VerifyFindings)
        first = next(iter([*found["failures"], *found["unproven"]]), "")
        return Checked(
            verdict=found["verdict"],
            reason=first,
            shapes=found["cases_tried"],
            relative_l2=largest_error(found),
        )

    def reduced(self, name: str) -> Reduced | None:
        """Return the smallest wrong part that a verification found; None where none was sought."""
        folder = self.of(name, _VERIFY) / "bisect"
        if not (folder / "bisect.json").is_file():
            return None
        found = read_document(folder / "bisect.json", BisectFindings)
        nodes = [(one["name"], one["operator"]) for one in found["nodes"]]
        return Reduced(
            nodes=tuple(name for name, _ in nodes),
            operators=tuple(operator for _, operator in nodes),
            folder=str(folder.relative_to(self.folder.parent)) if nodes else None,
            reason=found["reason"],
        )

    def record_of(self, name: str) -> Path | None:
        """Return the run directory of a verification that kept its reference; None where the first call failed."""
        folder = self.of(name, _VERIFY)
        return folder if (folder / "reference" / "record.json").is_file() and self.call_record(folder).calls else None

    @staticmethod
    def call_record(record: Path) -> CallRecordIndex:
        """Return the index of what a verification recorded, given its run directory."""
        return read_document(record / "reference" / "record.json", CallRecordIndex)

    def time(self, name: str, model: Path, turn: int, dims: dict[str, int]) -> CommandEnd:
        """Time a model once, in a process of its own, at sizes of its dimensions but the batch."""
        settings, number = self._settings, self.numbers[turn % len(self.numbers)]
        # one value each, which may be a list: the bench sweeps a list
        options = {key: [value] for key, value in self._options(number).items()}
        runtime = {"backend": settings.backend, "precision": settings.precision, "options": options}
        config = {
            "title": name,
            "seed": settings.seed,
            "repetitions": 1,
            "measure": _MEASURE,
            "models": {"model": {"path": str(model.absolute())}},
            "runtimes": [{**runtime, "name": settings.backend}],
            "scenarios": {"upgrade": {"kind": "arrays", "dims": dims}},
        }
        file = self.of(name, f"turn-{turn}.yaml")
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, json.dumps(config, indent=1))  # which is YAML, too
        ended = self._run("bench", file, "--output", self.of(name, f"turn-{turn}"), asked=False)
        records = self._of_turn(name, turn)
        if ended.ran and not records:
            return CommandEnd(None, f"it left no latencies ({ended.error})")
        errors = [one.error for one in records if one.error]
        return CommandEnd(ended.code, errors[0]) if errors else ended

    def records(self, name: str) -> list[Record]:
        """Return the records of all turns, each as a repetition of its own."""
        turns = len(list(self.of(name, "").glob("turn-*/records.jsonl")))
        return [
            one.model_copy(update={"repetition": turn, "group": ""})
            for turn in range(turns)
            for one in self._of_turn(name, turn)
        ]

    def builds(self, name: str, scores: Mapping[int, float]) -> BuiltGroup | None:
        """Return what turns, verifications and scores say of several builds; None where there is one."""
        if (count := self.side.builds) is None:
            return None
        turns = self.records(name)
        records = {
            number: [one for one in turns if one.repetition % count == number - 1] for number in range(1, count + 1)
        }
        group = built_group(self.label(name), records, scores)
        checked = [self.checked(name, CommandEnd(None, ""), one.number) for one in group.builds.builds]
        builds = [
            one.model_copy(update={"verdict": found.verdict, "relative_l2": found.relative_l2})
            for one, found in zip(group.builds.builds, checked, strict=True)
        ]
        return group.model_copy(update={"builds": Builds.chosen(builds)})

    def _options(self, number: int | None) -> dict[str, Any]:
        return {**self.side.options, **({} if number is None else {BUILD: number})}

    def _option_words(self, number: int | None) -> list[str]:
        given = {
            key: value if isinstance(value, str) else TypeAdapter(Any).dump_json(value).decode()
            for key, value in self._options(number).items()
        }
        return [word for key, value in given.items() for word in ("--option", f"{key}={value}")]

    def _of_turn(self, name: str, turn: int) -> list[Record]:
        folder = self.of(name, f"turn-{turn}")
        return read_bench_run(folder).records if (folder / "records.jsonl").is_file() else []

    def sizes(self, name: str, model: Model) -> dict[str, int]:
        """Return the best-tuned sizes of a model's dimensions but the batch, as its verification found them."""
        record = self.record_of(name)
        if record is None:
            return {}
        ranges = self.call_record(record).ranges
        shapes = [tensor.shape for tensor in model.facts.inputs if tensor.shape]
        free = {dim for shape in shapes for dim in shape if isinstance(dim, str)} - {shape[0] for shape in shapes}
        return {dim: best for dim, (_, best, _) in ranges.items() if dim in free}

    def score(self, name: str, model: Path, number: int | None) -> CommandEnd:
        """Score a model on the data: one of vision, or any by `--score`."""
        settings, metric = self._settings, metric_of(self._settings.score, self._settings.better)
        place, _, function = metric.kind.rpartition(":")
        score = f"{Path(place).absolute()}:{function}" if place.endswith(".py") else metric.kind
        data = zip(("--data", "--annotations"), settings.data_files, strict=False)
        given = {**dict(data), "--score": score, "--better": settings.better, "--output": self.of(name, SCORE, number)}
        words = (word for pair in given.items() if pair[1] for word in pair)
        return self._run("eval-vision", model, *metric.flags, *words, number=number)

    def _run(
        self,
        command: str,
        target: Path,
        *rest: Any,
        asked: bool = True,
        by: Stack | None = None,
        number: int | None = None,
    ) -> CommandEnd:
        stack = by or self.stack
        assert stack is not None, "a recorded side cannot run"
        settings, words = self._settings, [str(one) for one in rest]
        if asked:
            words += ["--backend", settings.backend, "--precision", settings.precision, *self._option_words(number)]
        line = stack.python("-c", _PROGRAM, command, str(target.absolute()), *words)
        ended = run_to_end(line, settings.time_limit, stack.variables)
        if ended.code is None:
            return CommandEnd(None, f"it took longer than {settings.time_limit:g} s")
        if ended.code == INTERRUPTED:  # as all processes of a job are, when it has to end
            raise KeyboardInterrupt
        if ended.code in _KILLED:  # which says nothing of the model
            return CommandEnd(ended.code, f"the process {ended_how(-signal.SIGKILL)}", started=False)
        if full := next((text for text in _FULL if ended.code and text in ended.stderr), None):
            raise UsageProblem(f"{full}; make room, or choose another place with --output: {self.folder.parent}")
        said = [one for one in ended.stderr.splitlines() if one.strip()]
        start = next((place for place, one in enumerate(said) if one.startswith("error: ")), None)
        if start is not None:
            return CommandEnd(ended.code, " ".join(said[start:]).removeprefix("error: "))
        if any(one.startswith("Usage: ") for one in said):
            return CommandEnd(
                ended.code,
                f"The trt-workbench of the stack {stack.text} does not know the command as this one gives it "
                f"({said[-1].removeprefix('Error: ')}); install the same version there.",
                started=False,
            )
        if ended.code:  # a crash of the command, or it never ran
            try:
                stack.ask(settings.backend)
            except WorkbenchError as error:
                return CommandEnd(ended.code, str(error), started=False)
        return CommandEnd(ended.code, last_words(ended.code, ended.stderr))


def _require_recorded(folder: Path, recorded: Upgraded | None, model: Path) -> None:
    """Raise UsageProblem unless a model was recorded, as it is now, and the record of its verification is whole."""
    if recorded is None:
        raise UsageProblem(f"The record of --from lacks the model; record it, too: {model}")
    if (sha256 := recorded.model_sha256) != Model.open(model).sha256:
        raise UsageProblem(
            f"The record of --from is of another model of this name ({sha256[:12]}); record this one, too: {model}"
        )
    if recorded.before.verdict is not None:
        KeptRecord(folder, CallRecordIndex)


def recorded_side(text: str) -> Path | None:
    """Return the folder that a `--record` left, where a text names its run directory; else None."""
    folder = Path(text) / "before"
    return folder if (folder / _SIDE).is_file() else None


def names_of(models: Sequence[Path]) -> dict[str, Path]:
    """Return the models by short names that differ. Raises UsageProblem where a model is missing or named twice."""
    found: dict[str, Path] = {}
    for model in models:
        if model.suffix != ".onnx":
            raise UsageProblem(f"upgrade takes ONNX files, NAME.onnx, not this one: {model}")
        Model.open(model)  # what is wrong with a file is said before a stack starts
        if model.resolve() in {one.resolve() for one in found.values()}:
            raise UsageProblem(f"The model is named twice: {model}")
        name, number = model.stem, 2
        while name in found:
            name, number = f"{model.stem}-{number}", number + 1
        found[name] = model
    return found
