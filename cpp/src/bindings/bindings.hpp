// The parts of the extension module: each registers itself by one function, defined in the file of its name.
#pragma once

#include <pybind11/pybind11.h>

#include <string_view>

namespace trtw::bindings {

// In every build. What needs CUDA is left out of them where TRTW_WITH_CUDA is not defined.
void bind_library(pybind11::module_& m);
void bind_device(pybind11::module_& m);
void bind_vision(pybind11::module_& m);

// With TensorRT's headers only. bind_builder uses the class that bind_runner registers for plans.
void bind_runner(pybind11::module_& m);
void bind_builder(pybind11::module_& m);

// With TensorRT's headers and CUDA kernels only.
void bind_stream_pool(pybind11::module_& m);
void bind_detector(pybind11::module_& m);

/// A str, or None for an empty text.
inline pybind11::object text_or_none(std::string_view text) {
    if (text.empty()) {
        return pybind11::none();
    }
    return pybind11::str(text.data(), text.size());
}

} // namespace trtw::bindings
