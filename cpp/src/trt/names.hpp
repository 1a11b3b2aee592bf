// Words for the values of one of TensorRT's enumerations. Numbers are never stored: they change between versions.
#pragma once

#include "trt/joined.hpp"
#include "trt/version.hpp"
#include "trtw/error.hpp"

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trtw {

template <class Enum>
class Names {
public:
    Names(std::initializer_list<std::pair<std::string_view, Enum>> entries) : entries_{entries} {}

    /// Throws UsageProblem that names the option, the version and the words that it has.
    [[nodiscard]] Enum at(std::string_view word, std::string_view option) const {
        for (const auto& [name, value] : entries_) {
            if (name == word) {
                return value;
            }
        }
        throw UsageProblem(std::string{option} + ": '" + std::string{word} +
                           "' is not one of those of TensorRT " TRTW_TRT_VERSION_TEXT ": " + joined(all()) + ".");
    }

    /// "unknown" for a value that has none.
    [[nodiscard]] std::string of(Enum wanted) const {
        for (const auto& [name, value] : entries_) {
            if (value == wanted) {
                return std::string{name};
            }
        }
        return "unknown";
    }

    [[nodiscard]] std::vector<std::string> all() const {
        std::vector<std::string> words;
        for (const auto& entry : entries_) {
            words.emplace_back(entry.first);
        }
        return words;
    }

private:
    std::vector<std::pair<std::string_view, Enum>> entries_;
};

} // namespace trtw
