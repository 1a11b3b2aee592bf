// Ordinary host memory that is used again.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace trtw {

/// Keeps a few blocks that were given back for whoever takes the next: the system hands out new memory page by page,
/// which takes longer than to fill it. Not thread-safe.
class BlockPool {
public:
    static constexpr std::size_t most_spare_blocks = 4;
    static constexpr std::size_t most_spare_bytes = std::size_t{256} << 20U;

    struct Block {
        std::unique_ptr<std::byte[]> data;
        std::size_t bytes = 0;
    };

    BlockPool() { spare_.reserve(most_spare_blocks); }

    /// A block of at least `bytes` unset bytes: the smallest spare one, if it is not twice as large, and among equals
    /// that which was given back last, else a new one.
    [[nodiscard]] Block take(std::size_t bytes);

    /// The oldest spare blocks make room.
    void give_back(Block block) noexcept;

    void clear() noexcept { spare_.clear(); }

private:
    std::vector<Block> spare_;
};

} // namespace trtw
