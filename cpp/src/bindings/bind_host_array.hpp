// Arrays in host memory, as Python hands them over.
#pragma once

#include "trtw/error.hpp"

#include <pybind11/numpy.h>

#include <string>
#include <string_view>

namespace trtw::bindings {

/// The one way in for an array in host memory: numpy's, or what numpy makes of another; `kind` and `name` begin the
/// sentence of a refusal. Throws UsageProblem for what is no array, foreign byte order and masked values.
inline pybind11::array host_array(const pybind11::handle& value, const char* kind, std::string_view name = {},
                                  bool row_major = false) {
    const auto what = [&] { return name.empty() ? std::string{kind} : kind + (" '" + std::string{name} + "'"); };
    const bool is_plain = Py_TYPE(value.ptr()) == pybind11::detail::npy_api::get().PyArray_Type_;
    auto array = pybind11::reinterpret_borrow<pybind11::array>(value);
    if (!is_plain) {
        const auto numpy = pybind11::module_::import("numpy");
        if (pybind11::isinstance(value, numpy.attr("ma").attr("MaskedArray")) &&
            numpy.attr("ma").attr("is_masked")(value).cast<bool>()) {
            throw UsageProblem(what() + " has masked values; pass .filled() with what they stand for.");
        }
        try {
            array = numpy.attr("asarray")(value);
        } catch (const pybind11::error_already_set& refused) {
            if (!refused.matches(PyExc_Exception)) {
                throw;
            }
            throw UsageProblem(what() + " is a " +
                               pybind11::str(pybind11::type::of(value).attr("__name__")).cast<std::string>() +
                               " that numpy cannot read: " + pybind11::str(refused.value()).cast<std::string>());
        }
    }
    const pybind11::dtype dtype = array.dtype();
    if (!is_plain && dtype.kind() == 'O') {
        throw UsageProblem(what() + " is not an array but " +
                           pybind11::str(pybind11::type::of(value)).cast<std::string>() + ".");
    }
    if (dtype.byteorder() == '>') {
        throw UsageProblem(what() + " is in foreign byte order (" +
                           pybind11::str(dtype.attr("str")).cast<std::string>() + "); use .astype('" +
                           pybind11::str(dtype.attr("name")).cast<std::string>() + "').");
    }
    return row_major ? pybind11::array::ensure(array, pybind11::array::c_style) : array;
}

} // namespace trtw::bindings
