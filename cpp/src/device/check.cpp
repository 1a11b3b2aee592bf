#include "device/check.hpp"

#include <string>

namespace trtw::device {

namespace {

// "cudaMalloc(&pointer, bytes)" -> "cudaMalloc"
std::string function_name(const char* call) {
    const std::string text{call};
    return text.substr(0, text.find('('));
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
        return true;
    default:
        return false;
    }
}

void raise(cudaError_t status, const char* call) {
    // Otherwise the next, unrelated call would report this error again.
    static_cast<void>(cudaGetLastError());
    const std::string what = std::string{cudaGetErrorName(status)} + " (" + cudaGetErrorString(status) + ")";
    const std::string where = function_name(call);
    if (status == cudaErrorMemoryAllocation) {
        throw OutOfMemory("The GPU is out of memory: " + where + " failed with " + what +
                          ". Use smaller shapes or fewer slots, or free memory on the device.");
    }
    std::string message = "The GPU failed: " + where + " returned " + what + ".";
    if (poisons_process(status)) {
        message += " Every later call of this process will fail too; start it again.";
    } else if (status == cudaErrorInsufficientDriver || status == cudaErrorNoDevice) {
        message += " `trtw doctor` shows the driver and the devices.";
    }
    throw DeviceFailure(message);
}

} // namespace trtw::device
