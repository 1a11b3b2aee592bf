// The host's clock.
#pragma once

#include <chrono>

namespace trtw {

using Clock = std::chrono::steady_clock;

template <class Number>
Number milliseconds(Clock::duration duration) {
    return std::chrono::duration<Number, std::milli>(duration).count();
}

} // namespace trtw
