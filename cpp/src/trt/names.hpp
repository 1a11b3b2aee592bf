// Words for the values of one of TensorRT's enumerations. Numbers are never stored: they change between versions.
#pragma once

#include "trt/joined.hpp"
#include "trt/version.hpp"
#include "trtw/error.hpp"

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace trtw {

template <class Enum>
class Names {
public:
    struct Entry {
        std::string_view word;
        Enum value;
        int major = 0; ///< the version that brought it
        int minor = 0;
    };

    Names(std::initializer_list<Entry> entries) : entries_{entries} {}

    /// Throws UsageProblem that names the option, the version and the words that it has.
    [[nodiscard]] Enum at(std::string_view word, std::string_view option) const {
        for (const Entry& entry : entries_) {
            if (entry.word == word && has(entry.major, entry.minor)) {
                return entry.value;
            }
        }
        throw UsageProblem(std::string{option} + ": '" + std::string{word} + "' is not one of those of " +
                           version_in_words() + ": " + joined(all()) + ".");
    }

    /// "unknown" for a value that has none.
    [[nodiscard]] std::string of(Enum wanted) const {
        for (const Entry& entry : entries_) {
            if (entry.value == wanted) {
                return std::string{entry.word};
            }
        }
        return "unknown";
    }

    [[nodiscard]] std::vector<std::string> all() const {
        std::vector<std::string> words;
        for (const Entry& entry : entries_) {
            if (has(entry.major, entry.minor)) {
                words.emplace_back(entry.word);
            }
        }
        return words;
    }

private:
    std::vector<Entry> entries_;
};

} // namespace trtw
