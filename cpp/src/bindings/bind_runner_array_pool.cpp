#include "bind_runner_array_pool.hpp"

#include "bind_device_array.hpp"

#include <algorithm>
#include <utility>

namespace py = pybind11;

namespace trtw::bindings {

namespace {

// What malloc keeps for itself anyhow.
constexpr std::size_t small = std::size_t{64} << 10U;
constexpr std::size_t most_spare_blocks = 4;
constexpr std::size_t most_spare_bytes = std::size_t{256} << 20U;

} // namespace

// What an array owns: its block, and the way back.
struct ArrayPool::Lent {
    std::shared_ptr<ArrayPool> home;
    Block block;
};

ArrayPool::ArrayPool() {
    spare_.reserve(most_spare_blocks);
}

py::array ArrayPool::make(const std::string& dtype, const engine::Shape& shape, std::size_t bytes) {
    if (bytes < small) {
        return new_array(dtype, shape);
    }
    const py::dtype type = numpy_dtype(dtype);
    auto lent = std::make_unique<Lent>(shared_from_this(), take(bytes));
    std::byte* data = lent->block.data.get();
    const py::capsule base(lent.get(), [](void* pointer) {
        const std::unique_ptr<Lent> returned{static_cast<Lent*>(pointer)};
        returned->home->give_back(std::move(returned->block));
    });
    static_cast<void>(lent.release()); // NOLINT(bugprone-unused-return-value): the capsule owns it now
    return {type, std::vector<py::ssize_t>(shape.begin(), shape.end()), data, base};
}

// The smallest spare block that is large enough and not twice as large as needed, else a new one.
ArrayPool::Block ArrayPool::take(std::size_t bytes) {
    auto best = spare_.end();
    for (auto block = spare_.begin(); block != spare_.end(); ++block) {
        const bool fits = block->bytes >= bytes && block->bytes / 2 < bytes;
        if (fits && (best == spare_.end() || block->bytes < best->bytes)) {
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

// The oldest spare block makes room.
void ArrayPool::give_back(Block block) noexcept {
    std::size_t bytes = block.bytes;
    for (const Block& other : spare_) {
        bytes += other.bytes;
    }
    while (!spare_.empty() && (spare_.size() >= most_spare_blocks || bytes > most_spare_bytes)) {
        bytes -= spare_.front().bytes;
        spare_.erase(spare_.begin());
    }
    if (bytes <= most_spare_bytes) {
        spare_.push_back(std::move(block)); // there is room: nothing throws
    }
}

} // namespace trtw::bindings
