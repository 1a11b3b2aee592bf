#include "bind_runner_array_pool.hpp"

#include "bind_device_array.hpp"

#include <memory>
#include <utility>

namespace py = pybind11;

namespace trtw::bindings {

namespace {

constexpr std::size_t small = std::size_t{64} << 10U; // malloc keeps such memory anyhow

} // namespace

// What an array owns: its block, and the way back.
struct ArrayPool::Lent {
    Lent(std::shared_ptr<ArrayPool> pool, std::size_t bytes)
        : home{std::move(pool)}, block{home->blocks_.take(bytes)} {}
    ~Lent() { home->blocks_.give_back(std::move(block)); }
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;

    std::shared_ptr<ArrayPool> home;
    BlockPool::Block block;
};

py::array ArrayPool::make(const std::string& dtype, const Shape& shape, std::size_t bytes) {
    if (bytes < small) {
        return new_array(dtype, shape);
    }
    const py::dtype type = numpy_dtype(dtype);
    auto lent = std::make_unique<Lent>(shared_from_this(), bytes);
    std::byte* data = lent->block.data.get();
    return array_over(type, shape, data, std::move(lent));
}

} // namespace trtw::bindings
