// The parts of the extension module; each is defined in a file of its own.
#pragma once

#include <pybind11/pybind11.h>

namespace trtw::bindings {

void bind_library(pybind11::module_& m);
void bind_device(pybind11::module_& m);
void bind_vision(pybind11::module_& m);
// With TensorRT headers only:
void bind_options(pybind11::module_& m);
void bind_builder(pybind11::module_& m);
void bind_inspect(pybind11::module_& m);
void bind_runner(pybind11::module_& m);

} // namespace trtw::bindings
