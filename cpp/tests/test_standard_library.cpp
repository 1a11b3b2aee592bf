#include "trtw/engine/standard_library.hpp"

#include "trtw/engine/library.hpp"
#include "trtw/error.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace trtw::engine;

TEST_CASE("what this program needs is read from its own headers") {
    static const char inside = 0;
    const std::vector<std::string> needed = needed_libraries(&inside);
    CHECK(std::find(needed.begin(), needed.end(), "libc.so.6") != needed.end());
    CHECK(std::find(needed.begin(), needed.end(), "") == needed.end());
}

TEST_CASE("what lies in no library is told as nothing") {
    CHECK(needed_libraries(nullptr).empty());
    const auto heap = std::make_unique<char>();
    CHECK(needed_libraries(heap.get()).empty());
}

// Compiled twice (see CMakeLists.txt): as part of the tests, and into a program with a libstdc++ of its own.
#ifdef TRTW_TEST_STATIC
TEST_CASE("a static libstdc++ is noticed, and TensorRT refused before it is opened") {
    CHECK(has_static_libstdcxx());
    const LibraryStatus status = library_status();
    CHECK_FALSE(status.available);
    CHECK(status.error.find("libstdc++") != std::string::npos);
    CHECK(status.error.find("build-native") != std::string::npos);
    CHECK_THROWS_AS(load_library(), trtw::ComponentMissing);
    CHECK(mapped_tensorrt().empty());
}
#else
TEST_CASE("the tests share the process's libstdc++") {
    CHECK_FALSE(has_static_libstdcxx());
}
#endif
