#include "run/block_pool.hpp"

#include <utility>

namespace trtw {

BlockPool::Block BlockPool::take(std::size_t bytes) {
    auto best = spare_.end();
    for (auto block = spare_.begin(); block != spare_.end(); ++block) {
        const bool fits = block->bytes >= bytes && block->bytes / 2 < bytes;
        if (fits && (best == spare_.end() || block->bytes <= best->bytes)) {
            best = block;
        }
    }
    if (best == spare_.end()) {
        return {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
    }
    Block found = std::move(*best);
    spare_.erase(best);
    return found;
}

void BlockPool::give_back(Block block) noexcept {
    if (block.bytes > most_spare_bytes) {
        return;
    }
    std::size_t bytes = block.bytes;
    for (const Block& other : spare_) {
        bytes += other.bytes;
    }
    while (spare_.size() >= most_spare_blocks || bytes > most_spare_bytes) {
        bytes -= spare_.front().bytes;
        spare_.erase(spare_.begin());
    }
    spare_.push_back(std::move(block)); // there is room: nothing throws
}

} // namespace trtw
