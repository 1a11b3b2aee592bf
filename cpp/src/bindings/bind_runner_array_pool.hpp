// Memory for the arrays that calls return.
#pragma once

#include "run/block_pool.hpp"
#include "trtw/tensor.hpp"

#include <pybind11/numpy.h>

#include <cstddef>
#include <memory>
#include <string>

namespace trtw::bindings {

/// Makes the arrays of outputs. Memory of large ones is used again once Python has let go of them. Used with the GIL
/// held; arrays may outlive whoever had them made.
class ArrayPool : public std::enable_shared_from_this<ArrayPool> {
public:
    /// An array of `bytes` unset bytes. Throws UsageProblem for a type that numpy lacks.
    pybind11::array make(const std::string& dtype, const Shape& shape, std::size_t bytes);

    /// Gives spare memory back to the system.
    void clear() noexcept { blocks_.clear(); }

private:
    struct Lent;

    BlockPool blocks_;
};

} // namespace trtw::bindings
