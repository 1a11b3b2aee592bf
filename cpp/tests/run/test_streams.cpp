// Streams that are given back are used again, so that engines which run one after the other share one.
#include "fake_cuda.hpp"
#include "trtw/detail/stream.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <utility>

using trtw::Stream;
using trtw::StreamUse;

TEST_CASE("a stream that is given back is the next one of the same use") {
    std::optional<Stream> first{StreamUse::compute};
    std::optional<Stream> copy{StreamUse::copy};
    const cudaStream_t handle = first->get();
    const cudaStream_t copy_handle = copy->get();
    CHECK(handle != copy_handle);
    first.reset();
    copy.reset();
    const Stream again{StreamUse::compute};
    const Stream another{StreamUse::compute};
    const Stream copy_again{StreamUse::copy};
    CHECK(again.get() == handle);
    CHECK(another.get() != handle);
    CHECK(copy_again.get() == copy_handle);
}

TEST_CASE("streams belong to their device") {
    std::optional<Stream> first{StreamUse::compute};
    const cudaStream_t handle = first->get();
    first.reset();
    CHECK(cudaSetDevice(1) == cudaSuccess);
    {
        const Stream elsewhere{StreamUse::compute};
        CHECK(elsewhere.get() != handle);
    }
    CHECK(cudaSetDevice(0) == cudaSuccess);
    CHECK(Stream{StreamUse::compute}.get() == handle);
}

TEST_CASE("a stream in capture is not used again") {
    std::optional<Stream> first{StreamUse::compute};
    const cudaStream_t handle = first->get();
    CHECK(cudaStreamBeginCapture(handle, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    const std::size_t destroyed = fake::destroyed_streams();
    first.reset();
    CHECK(fake::destroyed_streams() == destroyed + 1);
}

TEST_CASE("a moved stream is given back once") {
    Stream first{StreamUse::compute};
    const cudaStream_t handle = first.get();
    {
        const Stream second{std::move(first)};
        CHECK(second.get() == handle);
    }
    const Stream again{StreamUse::compute};
    const Stream other{StreamUse::compute};
    CHECK(again.get() == handle);
    CHECK(other.get() != handle);
}
