// Options as Python classes with keyword arguments and attributes, from their tables (trtw/*.def).
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <optional>
#include <utility>

namespace trtw::bindings {

template <class Options, class Type>
struct Field {
    const char* name;
    Type Options::* member;
    const char* doc;
};

/// What a constructor takes for a field: None is an empty mapping.
template <class Type>
struct Argument {
    using Given = Type;
    static Type of(Given given) { return given; }
    static Given by_default(Type value) { return value; }
};

template <class Key, class Value>
struct Argument<std::map<Key, Value>> {
    using Given = std::optional<std::map<Key, Value>>;
    static std::map<Key, Value> of(Given given) { return std::move(given).value_or(std::map<Key, Value>{}); }
    static Given by_default(const std::map<Key, Value>& /*value*/) { return std::nullopt; }
};

template <class Options, class... Types>
void bind_options(pybind11::module_& m, const char* name, const char* doc, const Field<Options, Types>&... fields) {
    const Options defaults;
    pybind11::class_<Options> bound(m, name, doc);
    bound.def(pybind11::init([fields...](typename Argument<Types>::Given... given) {
                  Options made;
                  ((made.*fields.member = Argument<Types>::of(std::move(given))), ...);
                  return made;
              }),
              pybind11::kw_only(),
              (pybind11::arg(fields.name) = Argument<Types>::by_default(defaults.*fields.member))...);
    (bound.def_readwrite(fields.name, fields.member, fields.doc), ...);
}

} // namespace trtw::bindings
