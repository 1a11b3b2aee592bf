"""What the two PyTorch backends share: devices, precision, TF32, threads, errors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from trt_workbench.backends.base import Availability, SessionOptions
from trt_workbench.backends.tf32 import check_tf32_allowed
from trt_workbench.core.device_errors import device_error, device_message
from trt_workbench.core.environment import available_processors
from trt_workbench.core.errors import ComponentMissing, UsageProblem, WorkbenchError, reason_of
from trt_workbench.core.launcher import package, task
from trt_workbench.core.precision import FORMATS

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

# Below: reading a crafted file with weights_only=True corrupts memory (CVE-2026-24747).
MINIMUM_VERSION = (2, 10)
PRECISIONS = {one.name: one.torch for one in reversed(FORMATS) if one.torch and one.modes}
"""What a model can be run in, with PyTorch's names of the types."""


def torch_availability() -> Availability:
    """Say whether PyTorch can be imported here, is new enough, and which device it has."""
    try:
        import torch
    except Exception as error:  # a broken install fails in many ways; each is reported here
        return Availability(ok=False, reason=f"torch cannot be imported ({reason_of(error)}).", fix=package("torch"))
    versions = {"torch": str(torch.__version__), "cuda_of_torch": str(torch.version.cuda or "none")}
    numbers = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if numbers < MINIMUM_VERSION:
        reason = f"torch {torch.__version__} is older than {'.'.join(map(str, MINIMUM_VERSION))}."
        return Availability(ok=False, reason=reason, fix=package("torch"), versions=versions)
    versions["device"] = "cuda" if torch.cuda.is_available() else "cpu"
    return Availability(ok=True, versions=versions)


def chosen_device(name: str | None) -> torch.device:
    """Return the device called `name`; for None the GPU if there is one, else the CPU.

    Raises:
        UsageProblem: there is no such kind of device, or no device of this number.
        ComponentMissing: a GPU was asked for and PyTorch has none.
    """
    import torch

    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageProblem(f"The device must be cpu, cuda or cuda:N, not {name!r}.") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        built = f"CUDA {torch.version.cuda}" if torch.version.cuda else "only the CPU"
        raise ComponentMissing(
            f"PyTorch {torch.__version__}, built for {built}, has no CUDA device here; "
            f"choose cpu, or see what {task('doctor')} says of the driver."
        )
    if device.type not in ("cpu", "cuda") or (device.index or 0) >= max(torch.cuda.device_count(), 1):
        count = torch.cuda.device_count()
        gpus = f" or cuda:N with N below {count}" if count else ""
        raise UsageProblem(f"The device must be cpu{gpus} here, not {name!r}.")
    return device


def set_tf32(allowed: bool) -> None:
    """Allow or forbid TF32 in matrix products and convolutions; a switch of the process, so set before each run."""
    import torch

    # the older switches: PyTorch 2.13 itself asks them (torch.export does), and they raise once the newer
    # fp32_precision has been set
    if torch.backends.cuda.matmul.allow_tf32 != allowed:
        torch.backends.cuda.matmul.allow_tf32 = allowed
    if torch.backends.cudnn.allow_tf32 != allowed:
        torch.backends.cudnn.allow_tf32 = allowed


def plain_strides(array: NDArray[Any]) -> NDArray[Any]:
    """Return a row-major array whose strides follow only from its shape; a view of `array` if that is row-major.

    numpy calls an array row-major whatever the strides of its dimensions of 1 are, such as those of the last token of a
    text that grows. torch.compile recompiles for each of them.
    """
    row_major = array if array.flags.c_contiguous else array.copy()
    return row_major.reshape(-1).reshape(row_major.shape)


def common_record(options: SessionOptions, device: torch.device, extra_device: str | None) -> dict[str, Any]:
    """Apply what is process-wide (threads) and return the record of the session.

    Raises:
        UsageProblem: TF32 was asked for and the process forbids it.
    """
    import torch

    if options.tf32:
        check_tf32_allowed()
    if options.threads is not None:
        torch.set_num_threads(max(1, options.threads // options.concurrency))
    record: dict[str, Any] = {
        "torch": str(torch.__version__),
        "device": str(device),
        "device_chosen_by": "option" if extra_device else "default: the GPU if there is one",
        "precision": options.precision,
        "tf32": options.tf32,
        "concurrency": options.concurrency,
        "threads": torch.get_num_threads(),
        "processors": available_processors(),
    }
    if device.type == "cuda":
        record["device_name"] = torch.cuda.get_device_name(device)
        record["cuda"] = str(torch.version.cuda)
        record["cudnn"] = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    return record


def not_compiled(error: Exception) -> str | None:
    """Return why torch.compile did not compile, as part of a sentence; None for an error of another origin."""
    if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
        return None
    if type(error).__name__ == "FailOnRecompileLimitHit":
        from torch._dynamo import config

        return (
            f"it was compiled for {config.recompile_limit} kinds of inputs, such as lengths, PyTorch's limit "
            "(recompile_limit), and would run uncompiled for any other"
        )
    return f"it cannot be compiled ({_shortened(error)})"


def translated(error: Exception, what: str, model: Path) -> WorkbenchError | None:
    """Return the error to raise instead of one of PyTorch's; None for one of ours.

    A graph that is not sound fails inside PyTorch in any way: an absent input is None, whose attributes are asked for.
    """
    if isinstance(error, WorkbenchError):
        return None
    text = _shortened(error)
    if kind := device_error(error):
        return kind(f"{device_message(kind, what, text)}: {model}")
    if why := not_compiled(error):
        return UsageProblem(f"{what}: {why}. The backend torch runs it uncompiled: {model}")
    return UsageProblem(f"{what} ({text or type(error).__name__}): {model}")


def _shortened(error: Exception) -> str:
    return " ".join(str(error).split())[:600]
