#include "device/check.hpp"

#include <string>

namespace trtw {

namespace {

// "cudaMalloc(&pointer, bytes)" -> "cudaMalloc"
std::string function_name(const char* call) {
    const std::string text{call};
    return text.substr(0, text.find('('));
}

std::string described(cudaError_t status) {
    return std::string{cudaGetErrorName(status)} + " (" + cudaGetErrorString(status) + ")";
}

} // namespace

bool poisons_process(cudaError_t status) noexcept {
    switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContextIsDestroyed:
        return true;
    default: {
        // Not in every toolkit's headers: cudaErrorContained, cudaErrorTensorMemoryLeak, cudaErrorMpsClientTerminated.
        const int number = static_cast<int>(status);
        return number == 226 || number == 721 || number == 810;
    }
    }
}

std::string lost_device(cudaError_t status) {
    return "CUDA reports " + described(status) +
           ". Every later call of this process will fail too; start a new process.";
}

void raise_cuda(cudaError_t status, const char* call) {
    // Otherwise the next, unrelated call would report this error again.
    static_cast<void>(cudaGetLastError());
    const std::string what = described(status);
    const std::string where = function_name(call);
    if (status == cudaErrorMemoryAllocation) {
        throw OutOfMemory("The GPU is out of memory: " + where + " failed with " + what +
                          ". Use smaller shapes or fewer slots, or free memory on the device.");
    }
    if (poisons_process(status)) {
        throw DeviceLost("The GPU failed: " + where + ". " + lost_device(status));
    }
    std::string message = "The GPU failed: " + where + " returned " + what + ".";
    if (status == cudaErrorInsufficientDriver || status == cudaErrorNoDevice) {
        message += " `trtw doctor` shows the driver and the devices.";
    }
    throw DeviceFailure(message);
}

} // namespace trtw
