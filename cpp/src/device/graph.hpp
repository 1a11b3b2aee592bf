// CUDA graphs: capture what a function enqueues on a stream, launch it again.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <utility>

namespace trtw {

class Graph {
public:
    Graph() = default;
    ~Graph();
    Graph(Graph&& other) noexcept : handle_{std::exchange(other.handle_, nullptr)} {}
    Graph& operator=(Graph&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;

    /// Captures what `enqueue` puts on `stream` (thread-local mode: other threads go on calling CUDA) and makes it
    /// launchable. Nothing runs. Throws DeviceFailure where capture fails; the stream is usable again then.
    static Graph capture(cudaStream_t stream, const std::function<void()>& enqueue);

    void launch(cudaStream_t stream) const;
    [[nodiscard]] explicit operator bool() const noexcept { return handle_ != nullptr; }

private:
    cudaGraphExec_t handle_ = nullptr;
};

/// Whether a graph is being captured from what the stream is given.
bool is_capturing(cudaStream_t stream);

} // namespace trtw
