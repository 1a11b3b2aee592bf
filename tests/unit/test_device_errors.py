"""Which class of error a runtime's failure is."""

from typing import Any

import pytest

from trt_workbench.core.device_errors import cuda_error, device_error
from trt_workbench.core.errors import BackendFailure, DeviceFailure, DeviceLost, OutOfMemory, UsageProblem, error_kind


class OutOfMemoryError(RuntimeError):
    """PyTorch's has this name."""


def accelerator_error(code: Any) -> RuntimeError:
    error = RuntimeError("CUDA error: said in words")
    error.error_code = code  # type: ignore[attr-defined]  # as torch.AcceleratorError's
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MemoryError(), OutOfMemory),
        (OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), OutOfMemory),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"), OutOfMemory),
        (RuntimeError("[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : std::bad_alloc"), OutOfMemory),
        (RuntimeError("env.cc:327 PosixThread::PosixThread pthread_create failed, error code: 11"), OutOfMemory),
        (RuntimeError("can't start new thread"), OutOfMemory),
        (RuntimeError("CUDA failure 2: out of memory ; GPU=0 ; hostname=h"), OutOfMemory),
        (RuntimeError("CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED"), OutOfMemory),
        (accelerator_error(2), OutOfMemory),
        (accelerator_error(700), DeviceLost),
        (accelerator_error(1), DeviceFailure),
        (accelerator_error(None), DeviceFailure),
        (RuntimeError("CUDA failure 700: an illegal memory access was encountered ; GPU=0"), DeviceLost),
        (RuntimeError("CUDA failure 719: unspecified launch failure"), DeviceLost),
        (RuntimeError("CUDA failure 98: invalid device function"), DeviceFailure),
        (RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), DeviceFailure),
        (RuntimeError("Error Code 1: Cuda Runtime (cudaError 700)"), DeviceLost),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), None),
        (ValueError("no memory of that name"), None),
    ],
)
def test_a_runtimes_error_by_number_then_class_then_words(error: Exception, kind: type[DeviceFailure] | None) -> None:
    assert device_error(error) is kind


def test_numbers_of_cuda() -> None:
    assert [cuda_error(code) for code in (1, 2, 214, 700, 719, 999)] == [
        DeviceFailure, OutOfMemory, DeviceLost, DeviceLost, DeviceLost, DeviceFailure,
    ]  # fmt: skip


def test_classes_by_the_name_that_another_process_sends() -> None:
    for kind in (UsageProblem, DeviceFailure, OutOfMemory, DeviceLost, BackendFailure):
        assert error_kind(kind.__name__) is kind
    assert error_kind("Defect") is None
    assert {kind.exit_code for kind in (DeviceFailure, OutOfMemory, DeviceLost, BackendFailure)} == {4}
    assert issubclass(OutOfMemory, MemoryError)
