// Words as a list for a message.
#pragma once

#include <functional>
#include <string>

namespace trtw {

template <class Items, class Projection = std::identity>
std::string joined(const Items& items, const char* separator = ", ", Projection word = {}) {
    std::string text;
    for (const auto& item : items) {
        text += text.empty() ? "" : separator;
        text += std::invoke(word, item);
    }
    return text;
}

} // namespace trtw
