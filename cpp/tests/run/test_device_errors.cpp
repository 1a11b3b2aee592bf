// Which class of error a CUDA call's is.
#include "device/check.hpp"

#include <doctest/doctest.h>

using namespace trtw;

TEST_CASE("an error's class says whether less at once may work, and whether any later call can") {
    CHECK_THROWS_AS(raise_cuda(cudaErrorMemoryAllocation, "cudaMalloc(&p, n)"), OutOfMemory);
    for (const cudaError_t lost : {cudaErrorIllegalAddress, cudaErrorLaunchFailure, cudaErrorMisalignedAddress,
                                   cudaErrorAssert, cudaErrorECCUncorrectable, cudaErrorContextIsDestroyed}) {
        CHECK_THROWS_AS(raise_cuda(lost, "cudaMalloc(&p, n)"), DeviceLost);
    }
    for (const cudaError_t other : {cudaErrorInvalidValue, cudaErrorNoDevice, cudaErrorNotReady}) {
        try {
            raise_cuda(other, "cudaMalloc(&p, n)");
        } catch (const OutOfMemory&) {
            FAIL("it is not memory");
        } catch (const DeviceLost&) {
            FAIL("it is not for good");
        } catch (const DeviceFailure& error) {
            CHECK(std::string{error.what()}.starts_with("The GPU failed: cudaMalloc returned "));
        }
    }
}
