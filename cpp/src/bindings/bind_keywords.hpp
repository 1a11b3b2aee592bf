// Arguments by name. pybind11 makes a string of each parameter's name at every call that passes some by name, which
// takes as long as the rest of a call of an engine; here the names are made once.
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <cstddef>
#include <string>

namespace trtw::bindings {

/// The parameters of a function that is bound with pybind11::args and pybind11::kwargs. The first one is required, and
/// alone may be passed by place. Never destroyed, as its names outlive the interpreter.
template <std::size_t count>
class Keywords {
public:
    template <class... Names>
    explicit Keywords(const char* function, Names... names)
        : function_{function}, names_{PyUnicode_InternFromString(names)...} {}

    /// Values in the order of the names; null for those that were not passed.
    using Values = std::array<pybind11::handle, count>;

    /// Throws TypeError, as Python does, for arguments that do not fit.
    [[nodiscard]] Values values(const pybind11::args& placed, const pybind11::kwargs& named) const {
        Values found{};
        if (placed.size() > 1) {
            refuse("takes 1 positional argument but " + std::to_string(placed.size()) + " were given");
        }
        if (placed.size() == 1) {
            found[0] = PyTuple_GET_ITEM(placed.ptr(), 0);
        }
        for (const auto& [name, value] : named) {
            const std::size_t place = place_of(name);
            if (found[place]) {
                refuse("got multiple values for argument " + quoted(name));
            }
            found[place] = value;
        }
        if (!found[0]) {
            refuse("missing 1 required positional argument: " + quoted(names_[0]));
        }
        return found;
    }

    /// The value of a parameter; of one that was not passed, `fallback`.
    template <class Value>
    [[nodiscard]] Value get(const Values& values, std::size_t place, Value fallback) const {
        if (!values[place]) {
            return fallback;
        }
        try {
            return values[place].template cast<Value>();
        } catch (const pybind11::cast_error&) {
            refuse("takes no " +
                   pybind11::str(pybind11::type::of(values[place]).attr("__name__")).template cast<std::string>() +
                   " for argument " + quoted(names_[place]));
        }
    }

private:
    // Names in a program's text are Python's one object of that name.
    [[nodiscard]] std::size_t place_of(pybind11::handle name) const {
        for (std::size_t i = 0; i < count; ++i) {
            if (name.is(names_[i])) {
                return i;
            }
        }
        for (std::size_t i = 0; i < count; ++i) {
            if (name.equal(names_[i])) {
                return i;
            }
        }
        refuse("got an unexpected keyword argument " + quoted(name));
    }

    [[noreturn]] void refuse(const std::string& why) const {
        throw pybind11::type_error(std::string{function_} + "() " + why);
    }

    static std::string quoted(pybind11::handle name) { return "'" + pybind11::str(name).cast<std::string>() + "'"; }

    const char* function_;
    std::array<pybind11::handle, count> names_;
};

} // namespace trtw::bindings
