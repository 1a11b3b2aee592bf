// Device memory that is used again.
#pragma once

#include "trtw/memory.hpp"

#include <cstddef>
#include <memory>

namespace trtw {

/// Keeps blocks that were given back for whoever takes the next: to allocate and to free one makes the host wait for
/// the device. Blocks come back from any thread, also after this has gone.
class DeviceBlocks {
public:
    /// At least `bytes`, and what others still read there is not waited for yet. Throws OutOfMemory.
    [[nodiscard]] std::shared_ptr<DeviceMemory> take(std::size_t bytes);

private:
    struct Spare;

    std::shared_ptr<Spare> spare_;
};

} // namespace trtw
