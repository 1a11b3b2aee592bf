// Options as Python's keyword arguments and attributes, from their tables (trtw/*.def).
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <optional>
#include <utility>

namespace trtw::bindings {

/// What Python gives for a field's value and what it is shown; the value itself, unless specialised.
template <class Type>
struct Argument {
    using Given = Type;
    static Type of(Given given, const char* /*name*/) { return given; }
    static Type shown(Type value) { return value; }
};

/// None is an empty mapping.
template <class Key, class Value>
struct Argument<std::map<Key, Value>> {
    using Map = std::map<Key, Value>;
    using Given = std::optional<Map>;
    static Map of(Given given, const char* /*name*/) { return std::move(given).value_or(Map{}); }
    static Given shown(const Map& /*value*/) { return std::nullopt; }
};

/// A row of the table of Options.
template <class Options, class Type>
struct Field {
    const char* name;
    Type Options::* member;
    const char* doc;

    [[nodiscard]] auto shown(const Options& options) const { return Argument<Type>::shown(options.*member); }
    [[nodiscard]] auto argument() const { return pybind11::arg(name) = shown(Options{}); }
};

/// Calls `define` with what makes Options of Python's arguments and hands them to `use`, and with the fields.
template <class Options, class... Types, class Result, class... Leading, class Define>
void pass_options(Result (*use)(Options, Leading...), Define define, const Field<Options, Types>&... fields) {
    define(
        [use, fields...](Leading... leading, typename Argument<Types>::Given... given) {
            Options made;
            ((made.*fields.member = Argument<Types>::of(std::move(given), fields.name)), ...);
            return use(std::move(made), std::forward<Leading>(leading)...);
        },
        fields...);
}

template <class Options, class... Types>
void bind_options(pybind11::module_& m, const char* name, const char* doc, const Field<Options, Types>&... fields) {
    pybind11::class_<Options> bound(m, name, doc);
    const auto define = [&](const auto& make, const auto&... field) {
        bound.def(pybind11::init(make), pybind11::kw_only(), field.argument()...);
        (bound.def_readwrite(field.name, field.member, field.doc), ...);
    };
    pass_options(+[](Options options) { return options; }, define, fields...);
}

} // namespace trtw::bindings
