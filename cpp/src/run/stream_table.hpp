// The open streams of a pool, and the rows that they have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace trtw {

/// Not thread-safe.
class StreamTable {
public:
    /// For rows 0 to `capacity - 1`.
    explicit StreamTable(std::int32_t capacity);

    /// Opens a stream with a number that no stream had before. Throws UsageProblem where every row is taken.
    std::int64_t open();
    /// Throws UsageProblem for a stream that is not open, as all below.
    void close(std::int64_t stream);
    void close_all();

    std::int32_t row(std::int64_t stream) const;
    /// Throws UsageProblem also for none, and for one that is named twice.
    [[nodiscard]] std::vector<std::int32_t> rows(std::span<const std::int64_t> streams) const;
    [[nodiscard]] std::size_t size() const noexcept { return rows_.size(); }
    [[nodiscard]] std::int32_t capacity() const noexcept { return capacity_; }

private:
    std::int32_t capacity_;
    std::int64_t last_ = 0;
    std::vector<std::int32_t> free_;
    std::unordered_map<std::int64_t, std::int32_t> rows_;
};

} // namespace trtw
