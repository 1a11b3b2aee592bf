"""What part each operation or kernel has in the whole."""

from __future__ import annotations

from collections.abc import Sequence

from trt_workbench.backends.profiling import Operation
from trt_workbench.profile.document import Kernel


def with_shares(operations: Sequence[Operation]) -> list[Operation]:
    """Return the operations with `share` set where they have a time."""
    total = sum(operation.mean_ms or 0.0 for operation in operations)
    return [
        operation.model_copy(update={"share": operation.mean_ms / total if total else 0.0})
        if operation.mean_ms is not None
        else operation
        for operation in operations
    ]


def kernels_with_shares(kernels: Sequence[Kernel]) -> list[Kernel]:
    """Return the kernels with `share` set, the longest first."""
    total = sum(kernel.total_ms for kernel in kernels)
    shared = [kernel.model_copy(update={"share": kernel.total_ms / total if total else 0.0}) for kernel in kernels]
    return sorted(shared, key=lambda kernel: -kernel.total_ms)
