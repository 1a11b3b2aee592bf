// What the CUDA runtime says about this machine, and the profiler's switch.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace trtw {

/// Whether this process can use a GPU, and why not.
struct DeviceStatus {
    bool ok = false;
    int device_count = 0;
    int driver_version = 0;  ///< newest CUDA the driver serves, 1000*major + 10*minor; 0 without a driver
    int runtime_version = 0; ///< CUDA runtime linked into this module
    std::string error;       ///< CUDA's error name and text, empty when ok
};

struct DeviceInfo {
    int index = 0;
    std::string name;
    int major = 0; ///< compute capability
    int minor = 0;
    std::size_t memory_total_bytes = 0;
    std::size_t memory_free_bytes = 0;
    int multiprocessors = 0;
    std::size_t l2_bytes = 0;
    std::string uuid;   ///< "GPU-xxxxxxxx-…", as nvidia-smi prints it
    std::string pci_id; ///< "0000:65:00.0"
};

/// Never throws; makes no CUDA context.
DeviceStatus device_status() noexcept;

/// Every visible device, or this one alone, if there is such. Makes a context on each, which memory_free_bytes needs.
/// Throws DeviceFailure.
std::vector<DeviceInfo> devices(std::optional<int> only = {});

/// Bound the range that nsys and ncu record with `--capture-range=cudaProfilerApi`.
void profiler_start();
void profiler_stop();

} // namespace trtw
