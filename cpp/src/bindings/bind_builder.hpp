// The parts of bind_builder.
#pragma once

#include <pybind11/pybind11.h>

namespace trtw::bindings {

void bind_builder_options(pybind11::module_& m);
void bind_builder_engine(pybind11::module_& m);

} // namespace trtw::bindings
