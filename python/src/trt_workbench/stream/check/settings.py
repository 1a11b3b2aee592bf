"""How `check-contract` checks, as settings with their options. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from trt_workbench.core.settings import BackendOptions, Device, Precision, Runtime, Seed, Setting, Target, Trust

FEWEST_CHUNKS = 4


@dataclass(frozen=True)
class ContractSettings:
    """What is asked for."""

    contract: Annotated[Path, Setting("Contract of the model, a JSON file.", argument=True, metavar="CONTRACT")]
    target: Target
    static: Annotated[bool, Setting("Compare only the documents and run nothing.")] = False
    backend: Runtime = "auto"
    precision: Precision = "fp32"
    chunks: Annotated[int, Setting("Number of chunks per stream.", min=FEWEST_CHUNKS, max=4096)] = 12
    input: Annotated[
        Path | None, Setting("Signal, .npy or .npz with one array; random by default.", metavar="FILE")
    ] = None
    options: BackendOptions = field(default_factory=dict)
    trust: Trust = False
    device: Device = 0
    seed: Seed = 0
