#include "run/batch_sizes.hpp"

#include "run/profile_choice.hpp"
#include "trtw/error.hpp"

#include <algorithm>
#include <string>

namespace trtw {

BatchSizes::BatchSizes(std::span<const int> wanted, std::span<const TensorInfo> inputs,
                       std::vector<std::optional<std::size_t>> axes)
    : inputs_{inputs}, axes_{std::move(axes)} {
    for (const int size : wanted) {
        if (size < 1 || static_cast<std::size_t>(size) > most_batch_rows) {
            throw UsageProblem("A bucket has 1 to " + std::to_string(most_batch_rows) + " rows; got " +
                               std::to_string(size) + ".");
        }
        wanted_.push_back(static_cast<std::size_t>(size));
    }
    if (wanted_.empty()) {
        throw UsageProblem("A pool needs at least one bucket: a batch size to run.");
    }
    const std::size_t profiles = inputs_.empty() ? 1 : inputs_.front().profiles.size();
    for (std::size_t p = 0; p < profiles; ++p) {
        ranges_.push_back(range(p));
    }
}

BatchSizes::Range BatchSizes::range(std::size_t profile) const {
    Range range{1, most_batch_rows};
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
        if (axes_[i]) {
            const ProfileRange& told = inputs_[i].profiles[profile];
            range.least = std::max(range.least, static_cast<std::size_t>(told.min[*axes_[i]]));
            range.most = std::min(range.most, static_cast<std::size_t>(told.max[*axes_[i]]));
        }
    }
    if (range.least > range.most) {
        std::string told;
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            if (axes_[i]) {
                const ProfileRange& one = inputs_[i].profiles[profile];
                told += (told.empty() ? " " : ", ") + inputs_[i].name + " " + std::to_string(one.min[*axes_[i]]) +
                        " to " + std::to_string(one.max[*axes_[i]]);
            }
        }
        throw UsageProblem("Profile " + std::to_string(profile) +
                           " of the engine allows no common batch size for its inputs:" + told +
                           ". The batch axes may be wrong.");
    }
    return range;
}

void BatchSizes::add(std::set<std::size_t>& sizes, Range range) const {
    for (const std::size_t size : wanted_) {
        sizes.insert(std::clamp(size, range.least, range.most));
    }
}

void BatchSizes::set_rows(std::vector<Shape>& shapes, std::size_t rows) const {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        if (axes_[i]) {
            shapes[i] = with_rows(shapes[i], *axes_[i], rows);
        }
    }
}

std::set<std::size_t> BatchSizes::all() const {
    std::set<std::size_t> sizes;
    for (const Range& range : ranges_) {
        add(sizes, range);
    }
    return sizes;
}

std::set<std::size_t> BatchSizes::allowed(std::vector<Shape> shapes) const {
    CallShapes call{std::move(shapes), std::vector<Shape>(inputs_.size())};
    std::set<std::size_t> sizes;
    for (std::size_t p = 0; p < ranges_.size(); ++p) {
        set_rows(call.shapes, ranges_[p].least);
        if (profile_allows(inputs_, call, static_cast<int>(p))) {
            add(sizes, ranges_[p]);
        }
    }
    if (sizes.empty()) {
        set_rows(call.shapes, ranges_.front().least);
        static_cast<void>(choose_profile(inputs_, call, std::nullopt)); // says why not
        throw UsageProblem("No profile of the engine allows the shapes of this push.");
    }
    return sizes;
}

std::vector<BatchPart> split(std::size_t streams, const std::set<std::size_t>& sizes) {
    std::vector<BatchPart> parts;
    const std::size_t largest = *sizes.rbegin();
    for (std::size_t first = 0; first < streams; first += largest) {
        const std::size_t count = std::min(largest, streams - first);
        parts.push_back({{first, count}, *sizes.lower_bound(count)});
    }
    return parts;
}

} // namespace trtw
