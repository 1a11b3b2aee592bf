// Options that Python gives as words.
#pragma once

#include "bind_options.hpp"
#include "trt/joined.hpp"
#include "trtw/error.hpp"

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace trtw::bindings {

template <class Enum>
using Words = std::vector<std::pair<std::string, Enum>>;

/// Specialised for an enumeration: `words`, each with its value.
template <class Enum>
struct Spoken;

template <class Enum>
    requires std::is_enum_v<Enum>
struct Argument<Enum> {
    using Given = std::string;
    static Enum of(const std::string& given, const char* name) {
        for (const auto& [word, value] : Spoken<Enum>::words) {
            if (word == given) {
                return value;
            }
        }
        throw UsageProblem("There is no " + std::string{name} + " '" + given + "'; there are: " +
                           trtw::joined(Spoken<Enum>::words, ", ", [](const auto& entry) { return entry.first; }) +
                           ".");
    }
    static std::string shown(Enum wanted) {
        for (const auto& [word, value] : Spoken<Enum>::words) {
            if (value == wanted) {
                return word;
            }
        }
        return {};
    }
};

} // namespace trtw::bindings
