#include "run/stream_table.hpp"

#include "trtw/error.hpp"

#include <string>

namespace trtw {

StreamTable::StreamTable(std::int32_t capacity) : capacity_{capacity} {
    close_all();
}

std::int64_t StreamTable::open() {
    if (free_.empty()) {
        throw UsageProblem("The pool holds " + std::to_string(capacity_) +
                           " streams, and all are open. Close one first, or create a pool with a larger capacity.");
    }
    rows_.emplace(last_ + 1, free_.back());
    free_.pop_back();
    return ++last_;
}

void StreamTable::close(std::int64_t stream) {
    free_.push_back(row(stream));
    rows_.erase(stream);
}

void StreamTable::close_all() {
    rows_.clear();
    free_.clear();
    for (std::int32_t row = capacity_; row > 0; --row) {
        free_.push_back(row - 1);
    }
}

std::int32_t StreamTable::row(std::int64_t stream) const {
    const auto found = rows_.find(stream);
    if (found == rows_.end()) {
        throw UsageProblem("Stream " + std::to_string(stream) +
                           (stream > 0 && stream <= last_ ? " is closed." : " was never opened."));
    }
    return found->second;
}

std::vector<std::int32_t> StreamTable::rows(std::span<const std::int64_t> streams) const {
    if (streams.empty()) {
        throw UsageProblem("A push must name at least one stream.");
    }
    std::vector<std::int32_t> rows;
    std::vector<bool> named(static_cast<std::size_t>(capacity_), false);
    for (const std::int64_t stream : streams) {
        rows.push_back(row(stream));
        if (named[static_cast<std::size_t>(rows.back())]) {
            throw UsageProblem("Stream " + std::to_string(stream) +
                               " is named twice; its second chunk needs the state after its first. Push them one "
                               "after the other.");
        }
        named[static_cast<std::size_t>(rows.back())] = true;
    }
    return rows;
}

} // namespace trtw
