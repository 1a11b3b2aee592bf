// Detector heads on the GPU: one kernel collects candidates, another sorts them, suppresses and writes what is kept.
#include "device/check.hpp"
#include "vision/head_kernel.hpp"
#include "vision/mask.hpp"

#include <algorithm>

namespace trtw::head {

namespace {

constexpr int collect_threads = 256;
constexpr int indices_per_thread = 4;
/// Up to here the second kernel collects, too: a launch takes longer.
constexpr std::int64_t few_indices = 8192;

constexpr int threads = 1024;
constexpr int sorted_at_once = 2048;
/// Best candidates that are taken first where there are more than can be sorted at once: few need more.
constexpr int chosen_at_once = 1024;
constexpr int chunk = 256; ///< candidates that are suppressed at once
constexpr int words = chunk / 32;
constexpr int buckets = 256;

__device__ std::uint64_t* keys_of(const Room& room, int image) {
    return room.keys + std::size_t{room.capacity} * image;
}

__device__ void collect_one(const Head& head, int image, std::uint32_t index, const Room& room) {
    const Candidate found = candidate(head, image, index);
    Counter* counter = &room.counters[image];
    if (found.is_odd) {
        counter->odd = 1;
    }
    if (found.is_one) {
        const std::uint32_t at = atomicAdd(&counter->candidates, 1U);
        if (at < room.capacity) {
            keys_of(room, image)[at] = found.key;
        }
    }
}

__global__ void __launch_bounds__(collect_threads) collect_kernel(const __grid_constant__ Head head, Room room) {
    const int image = static_cast<int>(blockIdx.y);
    const std::int64_t count = index_count(head);
    const std::int64_t first = std::int64_t{blockIdx.x} * collect_threads * indices_per_thread + threadIdx.x;
    for (int turn = 0; turn < indices_per_thread; ++turn) {
        const std::int64_t index = first + turn * collect_threads;
        if (index < count) {
            collect_one(head, image, static_cast<std::uint32_t>(index), room);
        }
    }
}

struct Shared {
    std::uint64_t keys[sorted_at_once];
    Box boxes[chunk];
    std::int32_t labels[chunk];
    std::uint32_t masks[chunk][words]; ///< better candidates of the chunk that drop this one
    std::uint32_t kept[words];
    std::uint32_t histogram[buckets];
    std::uint64_t bound;
    std::uint32_t taken;
    unsigned long long sum;
    std::uint8_t dropped[chunk];
};

// ---- the sum of a value over the block ------------------------------------------------------------------------------

using Sum = unsigned long long;

__device__ Sum block_sum(Shared& shared, Sum mine) {
    if (threadIdx.x == 0) {
        shared.sum = 0;
    }
    __syncthreads();
    for (int step = 16; step > 0; step /= 2) {
        mine += __shfl_xor_sync(0xFFFFFFFFU, mine, step);
    }
    if (threadIdx.x % 32 == 0 && mine > 0) {
        atomicAdd(&shared.sum, mine);
    }
    __syncthreads();
    const Sum sum = shared.sum;
    __syncthreads();
    return sum;
}

// ---- raw or decoded -------------------------------------------------------------------------------------------------

/// How many distances are at most `first`, and in the upper half of the bits, at most `second`.
__device__ Sum count_up_to(const Head& head, int image, bool from_cell, std::uint32_t first, std::uint32_t second,
                           Shared& shared) {
    constexpr Sum one = Sum{1} << 32U;
    Sum mine = 0;
    for (int sample = static_cast<int>(threadIdx.x); sample < sample_count(head); sample += threads) {
        const std::uint32_t here = distance(head, image, sample, from_cell);
        mine += (here <= first ? 1 : 0) + (here <= second ? one : 0);
    }
    return block_sum(shared, mine);
}

/// Between the two distances in the middle, each found bit by bit.
__device__ float median(const Head& head, int image, bool from_cell, Shared& shared) {
    const auto rank = static_cast<std::uint32_t>(sample_count(head) / 2);
    std::uint32_t below = 0x7FFFFFFFU;
    std::uint32_t above = 0x7FFFFFFFU;
    for (std::uint32_t bit = 1U << 30U; bit > 0; bit /= 2) {
        const Sum counts = count_up_to(head, image, from_cell, below - bit, above - bit, shared);
        below -= static_cast<std::uint32_t>(counts) >= rank ? bit : 0;
        above -= static_cast<std::uint32_t>(counts >> 32U) >= rank + 1 ? bit : 0;
    }
    return quotient(of_bits(below) + of_bits(above), 2.0F);
}

__device__ bool has_nan(const Head& head, int image, Shared& shared) {
    constexpr std::uint32_t infinity = 0x7F800000U;
    const Sum counts = count_up_to(head, image, false, infinity, infinity, shared);
    return static_cast<std::uint32_t>(counts) < static_cast<std::uint32_t>(sample_count(head));
}

__device__ bool is_raw(const Head& head, int image, Shared& shared) {
    if (head.kind != HeadKind::cells || head.sizes != HeadEncoding::by_value) {
        return head.kind == HeadKind::cells && head.sizes == HeadEncoding::raw;
    }
    return !has_nan(head, image, shared) && median(head, image, false, shared) < median(head, image, true, shared);
}

// ---- the best candidates in order -----------------------------------------------------------------------------------

/// By one warp: finds the bucket in which the rank lies, from 1, and how many lie before it.
__device__ void find_bucket(std::uint32_t rank, std::uint64_t prefix, Shared& shared) {
    constexpr int per_lane = buckets / 32;
    const int first = static_cast<int>(threadIdx.x) * per_lane;
    std::uint32_t mine = 0;
    for (int bucket = first; bucket < first + per_lane; ++bucket) {
        mine += shared.histogram[bucket];
    }
    std::uint32_t up_to = mine;
    for (int step = 1; step < 32; step *= 2) {
        const std::uint32_t other = __shfl_up_sync(0xFFFFFFFFU, up_to, step);
        up_to += threadIdx.x >= static_cast<unsigned>(step) ? other : 0;
    }
    std::uint32_t before = up_to - mine;
    if (before < rank && rank <= up_to) {
        int bucket = first;
        while (before + shared.histogram[bucket] < rank) {
            before += shared.histogram[bucket++];
        }
        shared.bound = prefix << 8U | static_cast<std::uint64_t>(bucket);
        shared.taken = before;
    }
}

/// The key of a rank, from 1, among those above `last`; all keys differ. At least `rank` keys are above it.
__device__ std::uint64_t key_of_rank(const std::uint64_t* keys, std::uint32_t count, bool is_first, std::uint64_t last,
                                     std::uint32_t rank, Shared& shared) {
    std::uint64_t prefix = 0;
    for (int shift = 56; shift >= 0; shift -= 8) {
        if (threadIdx.x < buckets) {
            shared.histogram[threadIdx.x] = 0;
        }
        __syncthreads();
        for (std::uint32_t at = threadIdx.x; at < count; at += threads) {
            const std::uint64_t key = keys[at];
            if ((is_first || key > last) && (shift == 56 || key >> (shift + 8) == prefix)) {
                atomicAdd(&shared.histogram[(key >> shift) & 0xFFU], 1U);
            }
        }
        __syncthreads();
        if (threadIdx.x < 32) {
            find_bucket(rank, prefix, shared);
        }
        __syncthreads();
        prefix = shared.bound;
        rank -= shared.taken;
        __syncthreads();
    }
    return prefix;
}

/// Moves the keys above `last` and up to `bound` to shared memory; returns how many.
__device__ std::uint32_t gather(const std::uint64_t* keys, std::uint32_t count, bool is_first, std::uint64_t last,
                                std::uint64_t bound, Shared& shared) {
    if (threadIdx.x == 0) {
        shared.taken = 0;
    }
    __syncthreads();
    for (std::uint32_t at = threadIdx.x; at < count; at += threads) {
        const std::uint64_t key = keys[at];
        if ((is_first || key > last) && key <= bound) {
            shared.keys[atomicAdd(&shared.taken, 1U)] = key;
        }
    }
    __syncthreads();
    return shared.taken;
}

__device__ void sort_keys(Shared& shared, std::uint32_t count) {
    std::uint32_t size = 2;
    while (size < count) {
        size *= 2;
    }
    for (std::uint32_t at = count + threadIdx.x; at < size; at += threads) {
        shared.keys[at] = ~std::uint64_t{0};
    }
    __syncthreads();
    for (std::uint32_t width = 2; width <= size; width *= 2) {
        for (std::uint32_t step = width / 2; step > 0; step /= 2) {
            for (std::uint32_t one = threadIdx.x; one < size / 2; one += threads) {
                const std::uint32_t low = 2 * one - (one & (step - 1));
                const bool ascends = (low & width) == 0;
                const std::uint64_t a = shared.keys[low];
                const std::uint64_t b = shared.keys[low + step];
                if ((a > b) == ascends) {
                    shared.keys[low] = b;
                    shared.keys[low + step] = a;
                }
            }
            __syncthreads();
        }
    }
}

// ---- suppression ----------------------------------------------------------------------------------------------------

/// Marks the candidates of the chunk that kept boxes drop.
__device__ void drop_by_kept(const Head& head, const Result& result, int kept, int count, Shared& shared) {
    const int mine = static_cast<int>(threadIdx.x) % chunk;
    if (mine >= count) {
        return;
    }
    for (int other = static_cast<int>(threadIdx.x) / chunk; other < kept; other += threads / chunk) {
        if (result.labels[other] == shared.labels[mine] && drops(head, result.boxes[other], shared.boxes[mine])) {
            shared.dropped[mine] = 1;
            return;
        }
    }
}

/// Fills the masks of the chunk: which better candidates drop each one.
__device__ void drop_each_other(const Head& head, int count, Shared& shared) {
    for (int one = static_cast<int>(threadIdx.x); one < chunk * words; one += threads) {
        const int mine = one / words;
        const int first = one % words * 32;
        std::uint32_t mask = 0;
        if (mine < count && shared.dropped[mine] == 0) {
            for (int other = first; other < min(first + 32, mine); ++other) {
                const bool is_dropped =
                    shared.labels[other] == shared.labels[mine] && drops(head, shared.boxes[other], shared.boxes[mine]);
                mask |= is_dropped ? 1U << (other - first) : 0U;
            }
        }
        shared.masks[mine][one % words] = mask;
    }
}

/// Greedily, best first, by one warp, 32 candidates at a time: each lane has one.
__device__ void choose(int count, Shared& shared) {
    const int lane = static_cast<int>(threadIdx.x);
    for (int word = 0; word < words; ++word) {
        const int mine = word * 32 + lane;
        bool is_left = mine < count && shared.dropped[mine] == 0;
        for (int other = 0; is_left && other < word; ++other) {
            is_left = (shared.masks[mine][other] & shared.kept[other]) == 0;
        }
        const std::uint32_t better = is_left ? shared.masks[mine][word] : 0;
        std::uint32_t left = __ballot_sync(0xFFFFFFFFU, is_left);
        std::uint32_t kept = 0;
        while (left != 0) {
            const std::uint32_t best = left & (0U - left); // its lowest bit
            kept |= best;
            left &= ~(best | __ballot_sync(0xFFFFFFFFU, (better & best) != 0));
        }
        if (lane == 0) {
            shared.kept[word] = kept;
        }
        __syncwarp();
    }
}

/// Appends the kept candidates of the chunk, whose keys begin at `first`; returns how many boxes there are then.
__device__ int append(const Head& head, const Result& result, int kept, int count, int first, const Shared& shared) {
    const int mine = static_cast<int>(threadIdx.x);
    int before = 0;
    int all = 0;
    for (int word = 0; word < words; ++word) {
        const std::uint32_t bits = shared.kept[word];
        all += __popc(bits);
        if (mine < chunk && word < mine / 32) {
            before += __popc(bits);
        }
    }
    if (mine < count && (shared.kept[mine / 32] >> (mine % 32) & 1U) != 0) {
        const int at = kept + before + __popc(shared.kept[mine / 32] & ((1U << (mine % 32)) - 1U));
        if (at < head.max_dets) {
            result.boxes[at] = shared.boxes[mine];
            result.scores[at] = score_of(shared.keys[first + mine]);
            result.labels[at] = shared.labels[mine];
            result.items[at] = item_of(head, shared.keys[first + mine]);
        }
    }
    return min(kept + all, head.max_dets);
}

__device__ int suppress(const Head& head, int image, bool raw, const Result& result, int kept, int count,
                        Shared& shared) {
    for (int first = 0; first < count && kept < head.max_dets; first += chunk) {
        const int some = min(chunk, count - first);
        const int mine = static_cast<int>(threadIdx.x);
        if (mine < chunk) {
            shared.dropped[mine] = 0;
        }
        if (mine < some) {
            const std::uint64_t key = shared.keys[first + mine];
            shared.boxes[mine] = box_of(head, image, item_of(head, key), raw);
            shared.labels[mine] = label_of(head, image, key);
        }
        __syncthreads();
        drop_by_kept(head, result, kept, some, shared);
        __syncthreads();
        drop_each_other(head, some, shared);
        __syncthreads();
        if (mine < 32) {
            choose(some, shared);
        }
        __syncthreads();
        kept = append(head, result, kept, some, first, shared);
        __syncthreads();
    }
    return kept;
}

__device__ int append_all(const Head& head, int image, bool raw, const Result& result, int kept, int count,
                          const Shared& shared) {
    const int some = min(count, head.max_dets - kept);
    for (int mine = static_cast<int>(threadIdx.x); mine < some; mine += threads) {
        const std::uint64_t key = shared.keys[mine];
        result.boxes[kept + mine] = box_of(head, image, item_of(head, key), raw);
        result.scores[kept + mine] = score_of(key);
        result.labels[kept + mine] = label_of(head, image, key);
        result.items[kept + mine] = item_of(head, key);
    }
    __syncthreads();
    return kept + some;
}

// ---- the whole ------------------------------------------------------------------------------------------------------

__device__ bool has_odd(const Head& head, int image, bool raw, const std::uint64_t* keys, std::uint32_t count,
                        bool is_odd, Shared& shared) {
    Sum odd = is_odd ? 1 : 0;
    for (std::uint32_t at = threadIdx.x; at < count; at += threads) {
        odd |= is_finite(box_of(head, image, item_of(head, keys[at]), raw)) ? 0 : 1;
    }
    const std::uint64_t further = std::uint64_t{count} * static_cast<std::uint32_t>(head.values);
    for (std::uint64_t at = threadIdx.x; at < further; at += threads) {
        const int item = item_of(head, keys[at / static_cast<std::uint32_t>(head.values)]);
        odd |= is_finite(value(head.more, image, item, static_cast<int>(at % head.values))) ? 0 : 1;
    }
    return block_sum(shared, odd) > 0;
}

__device__ bool are_of_the_last(const Head& head, int image, Shared& shared) {
    if (!head.logits || head.classes == 1) {
        return false;
    }
    Sum mine = 0;
    for (int item = static_cast<int>(threadIdx.x); item < head.items; item += threads) {
        mine += is_of_the_last(head, image, item) ? 1 : 0;
    }
    return 2 * block_sum(shared, mine) > static_cast<Sum>(head.items);
}

/// Writes the best boxes of an image; returns how many.
__device__ int find(const Head& head, int image, bool raw, const std::uint64_t* keys, std::uint32_t count,
                    const Result& result, Shared& shared) {
    std::uint32_t left = head.most > 0 ? min(count, static_cast<std::uint32_t>(head.most)) : count;
    std::uint32_t unseen = count;
    std::uint64_t last = 0;
    int kept = 0;
    while (left > 0 && kept < head.max_dets) {
        const bool is_first = unseen == count;
        const bool has_room = unseen <= sorted_at_once;
        std::uint32_t wanted = has_room ? unseen : min(left, static_cast<std::uint32_t>(chosen_at_once));
        std::uint64_t bound = ~std::uint64_t{0};
        if (!has_room) {
            if (!head.suppresses) {
                wanted = min(wanted, static_cast<std::uint32_t>(head.max_dets - kept));
            }
            bound = key_of_rank(keys, count, is_first, last, wanted, shared);
        }
        const std::uint32_t found = gather(keys, count, is_first, last, bound, shared);
        sort_keys(shared, found);
        const int some = static_cast<int>(min(found, left));
        kept = head.suppresses ? suppress(head, image, raw, result, kept, some, shared)
                               : append_all(head, image, raw, result, kept, some, shared);
        last = bound;
        left -= static_cast<std::uint32_t>(some);
        unseen -= found;
    }
    return kept;
}

__device__ void send(const Head& head, int image, const Result& from, const Result& to, int count) {
    for (int at = static_cast<int>(threadIdx.x); at < count; at += threads) {
        to.boxes[at] = from.boxes[at];
        to.scores[at] = from.scores[at];
        to.labels[at] = from.labels[at];
    }
    for (int at = static_cast<int>(threadIdx.x); at < count * head.values; at += threads) {
        to.more[at] = value(head.more, image, from.items[at / head.values], at % head.values);
    }
}

/// How many words the masks of the boxes take.
__device__ Sum mask_words(const Head& head, const Result& result, int count, Shared& shared) {
    if (head.planes.data == nullptr) {
        return 0;
    }
    Sum mine = 0;
    for (int at = static_cast<int>(threadIdx.x); at < count; at += threads) {
        mine += static_cast<Sum>(word_count(region_of(head, result.boxes[at])));
    }
    return block_sum(shared, mine);
}

__global__ void __launch_bounds__(threads)
    find_kernel(const __grid_constant__ Head head, Room room, bool collects, std::size_t bytes) {
    __shared__ Shared shared;
    const int image = static_cast<int>(blockIdx.x);
    Counter* counter = &room.counters[image];
    const std::uint64_t* keys = keys_of(room, image);
    if (collects) {
        const auto count = static_cast<std::uint32_t>(index_count(head));
        for (std::uint32_t index = threadIdx.x; index < count; index += threads) {
            collect_one(head, image, index, room);
        }
        __syncthreads();
    }
    const Counter counted = *counter;
    const std::uint32_t count = min(counted.candidates, room.capacity);
    const bool raw = is_raw(head, image, shared);
    const bool is_odd = counted.odd != 0 || counted.candidates > room.capacity;
    const bool odd = has_odd(head, image, raw, keys, count, is_odd, shared) || are_of_the_last(head, image, shared);
    const Result result = result_at(room.results, bytes, head.max_dets, image);
    const int found = odd ? 0 : find(head, image, raw, keys, count, result, shared);
    __syncthreads();
    const Sum words = mask_words(head, result, found, shared);
    const bool is_left = odd || words > static_cast<Sum>(room.mask_words);
    const ResultHeader header{is_left ? 0 : found, is_left ? 1 : 0, is_left ? 0U : static_cast<std::uint32_t>(words),
                              0};
    const Result target = result_at(room.host, bytes, head.max_dets, image);
    send(head, image, result, target, header.count);
    if (threadIdx.x == 0) {
        *result.header = header;
        *target.header = header;
        *counter = {0, 0};
    }
}

} // namespace

void launch_head(const Head& head, int images, const Room& room, cudaStream_t stream) {
    const std::int64_t count = index_count(head);
    const bool collects = count <= few_indices;
    if (!collects) {
        constexpr int per_block = collect_threads * indices_per_thread;
        const dim3 grid(static_cast<unsigned>((count + per_block - 1) / per_block), static_cast<unsigned>(images));
        collect_kernel<<<grid, collect_threads, 0, stream>>>(head, room);
        check_cuda(cudaGetLastError(), "collecting kernel of a detector's head");
    }
    if (head.planes.data != nullptr) {
        launch_check_of_planes(head, images, room, stream);
    }
    find_kernel<<<images, threads, 0, stream>>>(head, room, collects, result_bytes(head.max_dets, head.values));
    check_cuda(cudaGetLastError(), "kernel of a detector's head");
    if (head.planes.data != nullptr) {
        launch_masks(head, images, room, stream);
    }
}

} // namespace trtw::head
