// Conversions between Python values and the core's types for building; containers are handed out read-only.
#pragma once

#include "trtw/shared_bytes.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace trtw::bindings {

/// A plain file path of a str or os.PathLike; TypeError for anything else.
inline std::string path_text(const pybind11::object& path) {
    const auto text = pybind11::reinterpret_steal<pybind11::object>(PyOS_FSPath(path.ptr())); // NULL with TypeError set
    if (!text) {
        throw pybind11::error_already_set();
    }
    return text.cast<std::string>();
}

/// A dict as types.MappingProxyType: to write into a copy of an option would be lost without a word.
inline pybind11::object read_only(const pybind11::dict& values) {
    return pybind11::reinterpret_steal<pybind11::object>(PyDictProxy_New(values.ptr()));
}

template <class Map>
pybind11::object mapping_of(const Map& values) {
    pybind11::dict copy;
    for (const auto& [name, value] : values) {
        copy[pybind11::str(name)] = pybind11::cast(value);
    }
    return read_only(copy);
}

template <class Sequence>
pybind11::tuple tuple_of(const Sequence& values) {
    pybind11::tuple copy(values.size());
    std::size_t i = 0;
    for (const auto& value : values) {
        copy[i++] = pybind11::cast(value);
    }
    return copy;
}

/// Text that TensorRT wrote, which need not be UTF-8.
inline pybind11::object decoded(std::string_view text) {
    return pybind11::reinterpret_steal<pybind11::object>(
        PyUnicode_DecodeUTF8(text.data(), static_cast<pybind11::ssize_t>(text.size()), "replace"));
}

inline pybind11::bytes bytes_of(const SharedBytes& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

} // namespace trtw::bindings
