// Selects a CUDA device for a scope, and gives the caller's back.
#pragma once

#include "device/check.hpp"

#include <new>
#include <utility>

namespace trtw {

/// Whatever the core does on a device happens inside one of these, so that the thread's selection stays the caller's.
class DeviceScope {
public:
    /// A negative `device` stands for the one that is selected. Throws DeviceFailure where it cannot be selected.
    explicit DeviceScope(int device) {
        TRTW_CUDA(cudaGetDevice(&device_));
        if (device >= 0 && device != device_) {
            TRTW_CUDA(cudaSetDevice(device));
            previous_ = std::exchange(device_, device);
        }
    }
    /// For destructors: leaves the selection where the device is lost.
    DeviceScope(int device, std::nothrow_t /*unused*/) noexcept {
        if (cudaGetDevice(&device_) == cudaSuccess && device != device_ && cudaSetDevice(device) == cudaSuccess) {
            previous_ = std::exchange(device_, device);
        }
    }
    ~DeviceScope() {
        if (previous_ >= 0) {
            static_cast<void>(cudaSetDevice(previous_));
        }
    }
    DeviceScope(const DeviceScope&) = delete;
    DeviceScope& operator=(const DeviceScope&) = delete;

    [[nodiscard]] int device() const noexcept { return device_; }

private:
    int device_ = 0;
    int previous_ = -1; ///< -1: nothing to give back
};

} // namespace trtw
