// Bytes that TensorRT made: a plan, a timing cache.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace trtw {

/// Read-only bytes that all copies share; a range, so that it is taken as std::span<const std::byte>.
class SharedBytes {
public:
    SharedBytes() = default;
    SharedBytes(std::shared_ptr<const void> owner, std::span<const std::byte> bytes)
        : owner_{std::move(owner)}, bytes_{bytes} {}

    [[nodiscard]] const std::byte* data() const noexcept { return bytes_.data(); }
    [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }
    [[nodiscard]] const std::byte* begin() const noexcept { return data(); }
    [[nodiscard]] const std::byte* end() const noexcept { return data() + size(); }
    /// Whether there are any.
    explicit operator bool() const noexcept { return !bytes_.empty(); }

private:
    std::shared_ptr<const void> owner_;
    std::span<const std::byte> bytes_;
};

} // namespace trtw
