#include "run/block_pool.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <utility>

using trtw::BlockPool;

namespace {

// Gives a new block of `bytes` back and tells where it lies.
const std::byte* spare(BlockPool& pool, std::size_t bytes) {
    BlockPool::Block block{std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
    const std::byte* address = block.data.get();
    pool.give_back(std::move(block));
    return address;
}

} // namespace

TEST_CASE("blocks that are out are apart, and hold what was asked for") {
    BlockPool pool;
    const BlockPool::Block one = pool.take(1000);
    const BlockPool::Block other = pool.take(1000);
    CHECK(one.bytes == 1000);
    CHECK(one.data.get() != other.data.get());
    std::memset(one.data.get(), 1, one.bytes);
    std::memset(other.data.get(), 2, other.bytes);
    CHECK(one.data[999] == std::byte{1});
}

TEST_CASE("the block that was given back last is taken first") {
    BlockPool pool;
    const std::byte* older = spare(pool, 100);
    const std::byte* newer = spare(pool, 100);
    const BlockPool::Block first = pool.take(100);
    const BlockPool::Block second = pool.take(100);
    CHECK(first.data.get() == newer);
    CHECK(second.data.get() == older);
}

TEST_CASE("of spare blocks the smallest that fits is taken, but none that is twice as large") {
    BlockPool pool;
    const std::byte* large = spare(pool, 200);
    const std::byte* middle = spare(pool, 150);
    static_cast<void>(spare(pool, 90));
    const BlockPool::Block found = pool.take(100);
    CHECK(found.data.get() == middle);
    CHECK(found.bytes == 150);
    const BlockPool::Block next = pool.take(101);
    CHECK(next.data.get() == large);
    CHECK(pool.take(45).bytes == 45); // 90 is twice as large
    CHECK(pool.take(46).bytes == 90);
}

TEST_CASE("few blocks are kept, and the oldest go first") {
    BlockPool pool;
    for (std::size_t bytes = 100; bytes <= 500; bytes += 100) {
        static_cast<void>(spare(pool, bytes));
    }
    CHECK(pool.take(99).bytes == 99); // the block of 100 bytes has gone
    for (std::size_t bytes = 200; bytes <= 500; bytes += 100) {
        CHECK(pool.take(bytes - 1).bytes == bytes);
    }
}

TEST_CASE("large blocks push others out, and larger ones than the pool may hold are not kept") {
    BlockPool pool;
    static_cast<void>(spare(pool, 100));
    static_cast<void>(spare(pool, BlockPool::most_spare_bytes - 50));
    CHECK(pool.take(99).bytes == 99);
    static_cast<void>(spare(pool, BlockPool::most_spare_bytes + 1));
    CHECK(pool.take(BlockPool::most_spare_bytes - 60).bytes == BlockPool::most_spare_bytes - 50);
}

TEST_CASE("a cleared pool has nothing to spare") {
    BlockPool pool;
    static_cast<void>(spare(pool, 100));
    pool.clear();
    CHECK(pool.take(99).bytes == 99);
}
