#include "device/status.hpp"

#include "device/check.hpp"
#include "device/scope.hpp"

#include <cuda_profiler_api.h>

#include <array>
#include <cstdio>

namespace trtw {

namespace {

std::string uuid_text(const cudaUUID_t& uuid) {
    std::string text = "GPU-";
    for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) {
            text += '-';
        }
        std::array<char, 3> hex{};
        std::snprintf(hex.data(), hex.size(), "%02x", static_cast<unsigned>(static_cast<unsigned char>(uuid.bytes[i])));
        text += hex.data();
    }
    return text;
}

DeviceInfo describe(int index) {
    cudaDeviceProp properties{};
    TRTW_CUDA(cudaGetDeviceProperties(&properties, index));
    std::array<char, 32> pci{};
    TRTW_CUDA(cudaDeviceGetPCIBusId(pci.data(), static_cast<int>(pci.size()), index));
    DeviceInfo info;
    info.index = index;
    info.name = properties.name;
    info.major = properties.major;
    info.minor = properties.minor;
    info.multiprocessors = properties.multiProcessorCount;
    info.l2_bytes = static_cast<std::size_t>(properties.l2CacheSize);
    info.uuid = uuid_text(properties.uuid);
    info.pci_id = pci.data();
    const DeviceScope scope{index};
    TRTW_CUDA(cudaMemGetInfo(&info.memory_free_bytes, &info.memory_total_bytes));
    return info;
}

} // namespace

DeviceStatus device_status() noexcept {
    DeviceStatus result;
    static_cast<void>(cudaDriverGetVersion(&result.driver_version));
    static_cast<void>(cudaRuntimeGetVersion(&result.runtime_version));
    const cudaError_t counted = cudaGetDeviceCount(&result.device_count);
    result.ok = counted == cudaSuccess && result.device_count > 0;
    if (!result.ok) {
        static_cast<void>(cudaGetLastError());
        result.device_count = 0;
        const cudaError_t reason = counted == cudaSuccess ? cudaErrorNoDevice : counted;
        result.error = std::string{cudaGetErrorName(reason)} + ": " + cudaGetErrorString(reason);
    }
    return result;
}

std::vector<DeviceInfo> devices(std::optional<int> only) {
    int count = 0;
    TRTW_CUDA(cudaGetDeviceCount(&count));
    std::vector<DeviceInfo> found;
    for (int index = 0; index < count; ++index) {
        if (!only || index == *only) {
            found.push_back(describe(index));
        }
    }
    return found;
}

void profiler_start() {
    TRTW_CUDA(cudaProfilerStart());
}

void profiler_stop() {
    TRTW_CUDA(cudaProfilerStop());
}

} // namespace trtw
