#include "device/graph.hpp"

#include "device/check.hpp"

namespace trtw {

namespace {

// Ends the capture whatever happened inside, so that the stream leaves capture mode.
cudaGraph_t end_capture(cudaStream_t stream) noexcept {
    cudaGraph_t graph = nullptr;
    if (cudaStreamEndCapture(stream, &graph) != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
        return nullptr;
    }
    return graph;
}

} // namespace

Graph::~Graph() {
    if (handle_ != nullptr) {
        static_cast<void>(cudaGraphExecDestroy(handle_));
    }
}

Graph Graph::capture(cudaStream_t stream, const std::function<void()>& enqueue) {
    TRTW_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    try {
        enqueue();
    } catch (...) {
        cudaGraph_t abandoned = end_capture(stream);
        if (abandoned != nullptr) {
            static_cast<void>(cudaGraphDestroy(abandoned));
        }
        throw;
    }
    cudaGraph_t graph = nullptr;
    TRTW_CUDA(cudaStreamEndCapture(stream, &graph));
    std::size_t nodes = 0;
    Graph result;
    const cudaError_t counted = cudaGraphGetNodes(graph, nullptr, &nodes);
    const cudaError_t made = cudaGraphInstantiate(&result.handle_, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    check_cuda(counted, "cudaGraphGetNodes");
    check_cuda(made, "cudaGraphInstantiate");
    if (nodes == 0) {
        // A replay would leave the outputs of an earlier call in place.
        throw DeviceFailure("The captured CUDA graph is empty.");
    }
    // First launch pays for the upload otherwise.
    TRTW_CUDA(cudaGraphUpload(result.handle_, stream));
    // The graph may be dropped before its first launch, but not while it is on its way.
    TRTW_CUDA(cudaStreamSynchronize(stream));
    return result;
}

void Graph::launch(cudaStream_t stream) const {
    TRTW_CUDA(cudaGraphLaunch(handle_, stream));
}

bool is_capturing(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    TRTW_CUDA(cudaStreamIsCapturing(stream, &status));
    return status != cudaStreamCaptureStatusNone;
}

} // namespace trtw
