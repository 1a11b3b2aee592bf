// Which batch sizes a pool runs.
#pragma once

#include "run/batch_rows.hpp"

#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace trtw {

/// One run of a push: some of its streams, in a batch that may have more rows.
struct BatchPart {
    RowRange range;
    std::size_t rows = 0;
};

/// The sizes that were asked for, clipped to what each profile of the engine allows. `inputs` are kept by reference.
class BatchSizes {
public:
    /// `axes`: batch axis by input; nullopt for inputs that are the same for all rows. Throws UsageProblem for sizes
    /// that cannot be run, and where a profile allows its inputs no common size.
    BatchSizes(std::span<const int> wanted, std::span<const TensorInfo> inputs,
               std::vector<std::optional<std::size_t>> axes);

    /// Of all profiles together.
    [[nodiscard]] std::set<std::size_t> all() const;
    /// Of the profiles that allow these shapes of the inputs, whose batch extents do not matter. Throws UsageProblem
    /// with the input and every profile's range where none does.
    [[nodiscard]] std::set<std::size_t> allowed(std::vector<Shape> shapes) const;

private:
    struct Range {
        std::size_t least = 1;
        std::size_t most = 1;
    };
    [[nodiscard]] Range range(std::size_t profile) const;
    void add(std::set<std::size_t>& sizes, Range range) const;
    void set_rows(std::vector<Shape>& shapes, std::size_t rows) const;

    std::vector<std::size_t> wanted_;
    std::span<const TensorInfo> inputs_;
    std::vector<std::optional<std::size_t>> axes_;
    std::vector<Range> ranges_; ///< by profile
};

/// Splits so many streams: as many of the largest size as there are, then the smallest that takes the rest.
std::vector<BatchPart> split(std::size_t streams, const std::set<std::size_t>& sizes);

} // namespace trtw
