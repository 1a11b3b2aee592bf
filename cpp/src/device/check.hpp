// Turns failed CUDA calls into exceptions that name the call and the error.
#pragma once

#include "trtw/error.hpp"

#include <cuda_runtime_api.h>

#include <string>

namespace trtw {

/// True for errors after which every later call of this process fails (an illegal address, say).
bool poisons_process(cudaError_t status) noexcept;

/// What to say of such an error: its name, and what is left to do.
std::string lost_device(cudaError_t status);

/// Throws OutOfMemory, DeviceLost or DeviceFailure that names `call`; clears the runtime's last error first.
[[noreturn]] void raise_cuda(cudaError_t status, const char* call);

inline void check_cuda(cudaError_t status, const char* call) {
    if (status != cudaSuccess) [[unlikely]] {
        raise_cuda(status, call);
    }
}

} // namespace trtw

/// Calls a function of the CUDA runtime and throws where it fails.
#define TRTW_CUDA(call) ::trtw::check_cuda((call), #call)
