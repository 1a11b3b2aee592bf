"""The user's own inputs: samples from array files, whose rows are put together to batches of any size."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.errors import UsageProblem
from trt_workbench.measure.arrays import Sample, read_samples
from trt_workbench.verify.settings import Range
from trt_workbench.verify.space import Case, Space

Arrays = dict[str, NDArray[Any]]


class Data:
    """Samples that fit a model, all read. Those whose shapes differ in more than the batch stand beside each other."""

    def __init__(self, sources: Sequence[str], specs: Sequence[TensorSpec]) -> None:
        """Read the samples, as `infer-engine --input` does.

        Raises:
            UsageProblem: a file is absent or does not fit the model.
        """
        self._samples: list[Sample] = list(read_samples(sources, specs))

    def spaces(self, space: Space) -> list[tuple[Space, list[Arrays]]]:
        """Return the shapes of a space that the samples have, with every size of the batch, and the samples of each.

        Raises:
            UsageProblem: no sample fits the space.
        """
        found: dict[tuple[tuple[str, int], ...], list[Arrays]] = {}
        for sample in self._samples:
            sizes = space.sizes_of({k: v.shape for k, v in sample.inputs.items()}, with_batch=False)
            if sizes is not None:
                found.setdefault(tuple(sorted(sizes.items())), []).append(sample.inputs)
        if not found:
            shapes = "; ".join(f"{name} {list(array.shape)}" for name, array in self._samples[0].inputs.items())
            raise UsageProblem(f"No sample of --inputs has shapes that are offered; the first one has {shapes}.")
        fixed = []
        for key, samples in found.items():
            here = {name: Range(size, size, size) for name, size in key}
            ranges = {name: here.get(name, around) for name, around in space.ranges.items()}
            fixed.append((dataclasses.replace(space, ranges=ranges), samples))
        return fixed


def at(samples: Sequence[Arrays], space: Space, case: Case, first: int) -> Arrays:
    """Return the inputs of a case, made of the samples' rows from number `first` on, over and over again.

    Args:
        samples: of the case's shapes, but for the batch.
        space: that the case is of.
        case: its shapes.
        first: number of the first row; inputs without a batch are those of the sample with that number.
    """
    inputs: Arrays = {}
    for name, array in samples[first % len(samples)].items():
        if space.is_batched(name) and case.batch is not None:
            rows = np.concatenate([sample[name] for sample in samples])
            inputs[name] = np.ascontiguousarray(rows[np.arange(first, first + case.batch) % len(rows)])
        else:
            inputs[name] = array
    return inputs
