// Memory for the arrays that calls return.
#pragma once

#include "trtw/engine/tensor.hpp"

#include <pybind11/numpy.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace trtw::bindings {

/// Makes the arrays of outputs. Memory of large ones is used again once Python has let go of them: the system hands out
/// new memory page by page, which takes longer than to fill it. Used with the GIL held.
class ArrayPool : public std::enable_shared_from_this<ArrayPool> {
public:
    ArrayPool();

    /// An array of `bytes` unset bytes. Throws UsageProblem for a type that numpy lacks.
    pybind11::array make(const std::string& dtype, const engine::Shape& shape, std::size_t bytes);

    /// Gives spare memory back to the system.
    void clear() noexcept { spare_.clear(); }

private:
    struct Block {
        std::unique_ptr<std::byte[]> data;
        std::size_t bytes = 0;
    };
    struct Lent;

    Block take(std::size_t bytes);
    void give_back(Block block) noexcept;

    std::vector<Block> spare_;
};

} // namespace trtw::bindings
