#include "run/device_blocks.hpp"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace trtw {

namespace {

constexpr std::size_t most_spare_blocks = 16;

} // namespace

struct DeviceBlocks::Spare {
    Spare() { blocks.reserve(most_spare_blocks); }

    std::unique_ptr<DeviceMemory> find(std::size_t bytes) {
        const std::scoped_lock lock{mutex};
        const auto fits = [&](const auto& block) { return block->bytes() >= bytes && block->bytes() / 2 <= bytes; };
        const auto found = std::ranges::find_if(blocks, fits);
        if (found == blocks.end()) {
            return nullptr;
        }
        std::unique_ptr<DeviceMemory> block = std::move(*found);
        blocks.erase(found);
        return block;
    }

    void give_back(std::unique_ptr<DeviceMemory> block) noexcept {
        const std::scoped_lock lock{mutex};
        if (blocks.size() < most_spare_blocks) {
            blocks.push_back(std::move(block)); // there is room: nothing throws
        }
    }

    std::mutex mutex;
    std::vector<std::unique_ptr<DeviceMemory>> blocks;
};

std::shared_ptr<DeviceMemory> DeviceBlocks::take(std::size_t bytes) {
    if (!spare_) {
        spare_ = std::make_shared<Spare>();
    }
    std::unique_ptr<DeviceMemory> block = spare_->find(bytes);
    if (!block) {
        block = std::make_unique<DeviceMemory>(bytes);
    }
    const auto give_back = [home = spare_](DeviceMemory* back) noexcept {
        home->give_back(std::unique_ptr<DeviceMemory>{back});
    };
    return {block.release(), give_back};
}

} // namespace trtw
