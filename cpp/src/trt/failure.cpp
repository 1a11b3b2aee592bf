#include "trt/failure.hpp"

#include "device/check.hpp"
#include "trt/log_buffer.hpp"

namespace trtw {

void raise_if_device(const std::string& what, const std::string& log, const std::string& hint) {
    const std::string said = log.empty() ? std::string{} : " TensorRT says: " + log;
    cudaError_t last = cudaGetLastError();
    if (last == cudaSuccess && speaks_of_device(log) && !speaks_of_memory(log)) {
        last = cudaDeviceSynchronize(); // TensorRT took the error; after one for good every call has it again
    }
    if (last == cudaErrorMemoryAllocation || speaks_of_memory(log)) {
        throw OutOfMemory("The GPU is out of memory while " + what + "." + said + hint);
    }
    if (poisons_process(last)) {
        throw DeviceLost("The GPU failed while " + what + ". " + lost_device(last) + said);
    }
}

void raise_device(const std::string& what, const std::string& log) {
    raise_if_device(what, log);
    throw DeviceFailure("TensorRT failed while " + what + "." + (log.empty() ? "" : " TensorRT says: " + log));
}

} // namespace trtw
