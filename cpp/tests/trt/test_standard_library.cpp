#include "trt/standard_library.hpp"

#include "trt/entry_points.hpp"
#include "trtw/error.hpp"
#include "trtw/library.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <dlfcn.h>
#include <memory>
#include <string>

using namespace trtw;

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
namespace {

// What the core says of TensorRT in a module as CMakeLists.txt links it; empty if it would open it.
std::string refusal_in(const char* module) {
    void* handle = dlopen(module, RTLD_NOW | RTLD_LOCAL);
    REQUIRE_MESSAGE(handle != nullptr, dlerror());
    const auto refusal = reinterpret_cast<const char* (*)()>(dlsym(handle, "trtw_refusal"));
    const bool is_there = refusal != nullptr;
    REQUIRE(is_there);
    return refusal(); // the module stays open, as Python's do
}

} // namespace

#ifdef TRTW_TEST_MODULES
TEST_CASE("a module that holds libstdc++ is refused, whatever it names as needed") {
    CHECK(refusal_in(TRTW_TEST_MODULES "/trtw_module_shared.so").empty());
    for (const char* module : {TRTW_TEST_MODULES "/trtw_module_static.so", TRTW_TEST_MODULES "/trtw_module_mixed.so"}) {
        CAPTURE(module);
        const std::string refusal = refusal_in(module);
        CHECK(refusal.find("two copies of it in one process crash") != std::string::npos);
        CHECK(refusal.find(module) != std::string::npos);
    }
}
#endif

TEST_CASE("the tests share the process's libstdc++") {
    CHECK_FALSE(has_static_libstdcxx());
}
#endif
