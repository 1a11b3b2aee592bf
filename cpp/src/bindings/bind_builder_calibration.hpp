// Calibration batches from a Python iterable.
#pragma once

#include "trtw/build_options.hpp"

#include <pybind11/pybind11.h>

#include <functional>

namespace trtw::bindings {

/// What Calibration::open is to be: it calls `batches` and reads its iterable. The interpreter lock is taken where
/// Python is touched, so the result may be called and destroyed without it.
std::function<BatchSource()> python_batches(pybind11::function batches);

} // namespace trtw::bindings
