// IEEE half precision on the host.
#pragma once

#include <bit>
#include <cstdint>

namespace trtw {

/// Rounds to nearest, ties to even, as the GPU does; overflow gives infinity, NaN stays NaN.
constexpr std::uint16_t float_to_half(float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 16U) & 0x8000U;
    const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
    if (magnitude > 0x7F800000U) {
        return static_cast<std::uint16_t>(sign | 0x7E00U);
    }
    if (magnitude >= 0x477FF000U) { // rounds to 65536 or more
        return static_cast<std::uint16_t>(sign | 0x7C00U);
    }
    if (magnitude < 0x33000001U) { // half of the smallest subnormal, or less
        return static_cast<std::uint16_t>(sign);
    }
    std::uint32_t mantissa = (magnitude & 0x007FFFFFU) | 0x00800000U;
    const std::uint32_t exponent = magnitude >> 23U;
    // Normal halves drop 13 bits of the mantissa, subnormal ones more.
    const std::uint32_t shift = exponent >= 113U ? 13U : 126U - exponent;
    const std::uint32_t base = exponent >= 113U ? (exponent - 113U) << 10U : 0U;
    const std::uint32_t half_unit = 1U << (shift - 1U);
    const std::uint32_t odd = (mantissa >> shift) & 1U;
    mantissa = (mantissa + half_unit - 1U + odd) >> shift;
    // The implicit one of a normal number adds one to the exponent field.
    return static_cast<std::uint16_t>(sign | (base + mantissa));
}

} // namespace trtw
