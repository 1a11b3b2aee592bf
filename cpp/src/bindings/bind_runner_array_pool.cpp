#include "bind_runner_array_pool.hpp"

#include "bind_device_array.hpp"

#include <utility>
#include <vector>

namespace py = pybind11;

namespace trtw::bindings {

namespace {

constexpr std::size_t small = std::size_t{64} << 10U; // malloc keeps such memory anyhow

} // namespace

// What an array owns: its block, and the way back.
struct ArrayPool::Lent {
    std::shared_ptr<ArrayPool> home;
    engine::BlockPool::Block block;
};

py::array ArrayPool::make(const std::string& dtype, const engine::Shape& shape, std::size_t bytes) {
    if (bytes < small) {
        return new_array(dtype, shape);
    }
    const py::dtype type = numpy_dtype(dtype);
    auto lent = std::make_unique<Lent>(shared_from_this(), blocks_.take(bytes));
    std::byte* data = lent->block.data.get();
    const py::capsule base(lent.get(), [](void* pointer) {
        const std::unique_ptr<Lent> returned{static_cast<Lent*>(pointer)};
        returned->home->blocks_.give_back(std::move(returned->block));
    });
    static_cast<void>(lent.release()); // NOLINT(bugprone-unused-return-value): the capsule owns it now
    return {type, std::vector<py::ssize_t>(shape.begin(), shape.end()), data, base};
}

} // namespace trtw::bindings
