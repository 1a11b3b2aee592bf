#include "run/lru.hpp"

#include <doctest/doctest.h>

#include <memory>

using trtw::CallKey;
using trtw::CallKeyHash;
using trtw::LruMap;

TEST_CASE("a key is found once it was added") {
    LruMap<int> map{2};
    CHECK(map.find({1, 2}) == nullptr);
    CHECK(map.add({1, 2}, 7) == 7);
    CHECK(*map.find({1, 2}) == 7);
    CHECK(map.size() == 1);
}

TEST_CASE("what was not used for longest goes first") {
    LruMap<int> map{2};
    map.add({1}, 1);
    map.add({2}, 2);
    CHECK(*map.find({1}) == 1); // now {2} is the oldest
    map.add({3}, 3);
    CHECK(map.size() == 2);
    CHECK(*map.find({1}) == 1);
    CHECK(map.find({2}) == nullptr);
    CHECK(*map.find({3}) == 3);
}

TEST_CASE("references stay valid while other entries come and go") {
    LruMap<int> map{3};
    const int& first = map.add({1}, 5);
    map.add({2}, 2);
    map.add({3}, 3);
    CHECK(map.find({1}) == &first);
    map.add({4}, 4); // {2} goes
    CHECK(first == 5);
    CHECK(map.find({1}) == &first);
}

TEST_CASE("values are destroyed when they are evicted or cleared") {
    const auto token = std::make_shared<int>(0);
    LruMap<std::shared_ptr<int>> map{2};
    map.add({1}, token);
    map.add({2}, token);
    map.add({3}, token);
    CHECK(token.use_count() == 3);
    map.clear();
    CHECK(token.use_count() == 1);
    CHECK(map.size() == 0);
}

TEST_CASE("a capacity of nothing holds one entry") {
    LruMap<int> map{0};
    map.add({1}, 1);
    CHECK(*map.find({1}) == 1);
}

TEST_CASE("keys of other lengths and orders differ") {
    const CallKeyHash hash;
    CHECK(hash({1, 2}) != hash({2, 1}));
    CHECK(hash({0}) != hash({0, 0}));
    CHECK(hash({}) != hash({0}));
    LruMap<int> map{8};
    map.add({1, 2}, 1);
    map.add({2, 1}, 2);
    map.add({1, 2, 0}, 3);
    CHECK(*map.find({1, 2}) == 1);
    CHECK(map.size() == 3);
}
