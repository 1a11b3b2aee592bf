"""What `upgrade` can be asked for, as settings with their options. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from trt_workbench.core.settings import MORE, BackendOptions, BuildsOption, Seed, Setting, values
from trt_workbench.core.stack import HERE
from trt_workbench.quantize import Better, Score

_DATA = "Score"


@dataclass(frozen=True)
class UpgradeSettings:
    """What is asked for."""

    before: Annotated[
        str,
        Setting(
            "Stack in use: a Python environment, a TensorRT folder, a container command, the run directory of a "
            "--record, or `.` for this environment.",
            flags="--from",
        ),
    ] = HERE
    after: Annotated[str | None, Setting("Stack to compare with it, named as --from is.", flags="--to")] = None
    backend: Annotated[str, Setting("Runtime that both are compared by, such as trt or ort-cpu.")] = "trt"
    precision: Annotated[str, Setting("Precision requested from the backend.")] = "fp32"
    record: Annotated[bool, Setting("Keep the side of --from, for --from of a later run; there is no --to.")] = False
    inputs: Annotated[
        tuple[str, ...],
        Setting("FILE, FOLDER or images to verify with, as of `verify`; repeatable; random by default."),
    ] = ()
    data: Annotated[
        Path | None, Setting("Data on which models are scored in both: of vision, or what --score takes.", _DATA)
    ] = None
    annotations: Annotated[
        Path | None, Setting("COCO annotation file of the images of --data, or targets of --score.", _DATA)
    ] = None
    score: Score = None
    better: Better = None
    max_loss: Annotated[float, Setting("Loss of score that is tolerated.", _DATA, min=0)] = 0.005
    repetitions: Annotated[int, Setting("Times that each is timed, in turns; 0 for none.", min=0)] = 5
    tolerance: Annotated[float, Setting("Relative difference in latency that is tolerated.", MORE, min=0)] = 0.05
    quick: Annotated[bool, Setting("Fewer shapes, two sets of inputs.", MORE, "--quick/--full")] = False
    bisect_seconds: Annotated[
        float,
        Setting("Seconds to find the first wrong part of a model that is wrong after it; 0: no search.", MORE, min=0),
    ] = 300.0
    time_limit: Annotated[float, Setting("Seconds that one step of one model may take.", MORE, min=1)] = 7200.0
    options: BackendOptions = field(default_factory=dict)
    before_options: Annotated[
        Mapping[str, Any],
        Setting(
            "An option of the backend in the stack of --from alone; repeatable.",
            MORE,
            "--from-option",
            read=values,
            metavar="KEY=VALUE",
        ),
    ] = field(default_factory=dict)
    after_options: Annotated[
        Mapping[str, Any],
        Setting(
            "An option of the backend in the stack of --to alone; repeatable.",
            MORE,
            "--to-option",
            read=values,
            metavar="KEY=VALUE",
        ),
    ] = field(default_factory=dict)
    builds: BuildsOption = None
    seed: Seed = 0

    @property
    def data_files(self) -> tuple[Path, ...]:
        """The data set and its annotations, as far as they are given: a stack's current folder may be another."""
        return tuple(one.absolute() for one in (self.data, self.annotations) if one)

    @property
    def input_words(self) -> list[str]:
        """The options of `verify` for the inputs, with absolute paths behind their names."""
        return [word for name, path in self._named_inputs for word in ("--inputs", f"{name}{path}")]

    @property
    def input_files(self) -> list[Path]:
        """The files and folders of the inputs."""
        return [path for _, path in self._named_inputs]

    @property
    def _named_inputs(self) -> list[tuple[str, Path]]:
        from trt_workbench.backends.samples import split_source

        return [(name, path.absolute()) for name, path in map(split_source, self.inputs)]
