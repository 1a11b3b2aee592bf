#include "fake_cuda.hpp"

#include "device/status.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace {

struct Marks {
    std::size_t recorded = 0;
    std::size_t reached = 0;
};

struct Task {
    std::function<bool()> ready;
    std::function<void()> work;
};

} // namespace

struct CUstream_st {
    std::deque<Task> tasks;
    bool held = false;
    FakeGraph* capture = nullptr;
};
struct CUevent_st {
    std::shared_ptr<Marks> marks = std::make_shared<Marks>();
};
struct FakeGraph {
    std::vector<std::function<void()>> nodes;
};

namespace {

CUstream_st legacy;
CUstream_st per_thread;
std::mutex mutex;
std::condition_variable changed;
std::set<CUstream_st*> streams{&legacy, &per_thread};
using Blocks = std::map<const std::byte*, std::pair<std::size_t, int>>; ///< bytes and device by address
Blocks device_blocks;
Blocks locked_blocks;
std::vector<std::pair<const std::byte*, const std::byte*>> copies; ///< to and from
bool all_held = false;
std::atomic<std::size_t> most_bytes = std::numeric_limits<std::size_t>::max();
std::atomic<std::size_t> allocation_count = 0;
std::atomic<std::size_t> graph_count = 0;
std::atomic<std::size_t> wait_count = 0;
std::atomic<std::size_t> destroyed_count = 0;
thread_local int current_device = 0;

// Whatever can be done is, stream after stream.
void pump() {
    bool progress = true;
    while (progress) {
        progress = false;
        for (CUstream_st* stream : streams) {
            while (!stream->held && !all_held && !stream->tasks.empty() && stream->tasks.front().ready()) {
                const Task task = std::move(stream->tasks.front());
                stream->tasks.pop_front();
                task.work();
                progress = true;
            }
        }
    }
    changed.notify_all();
}

bool always() {
    return true;
}

void put(CUstream_st* stream, Task task) {
    if (stream->capture != nullptr) {
        stream->capture->nodes.push_back(std::move(task.work));
        return;
    }
    stream->tasks.push_back(std::move(task));
    pump();
}

cudaError_t allocate(void** pointer, std::size_t bytes) {
    const std::size_t rounded = (bytes + 255) / 256 * 256;
    *pointer = std::aligned_alloc(256, rounded);
    std::memset(*pointer, 0x5A, rounded); // nobody may count on zeros
    return cudaSuccess;
}

// The device of what is at this address; none where nothing is.
std::optional<int> device_of(const Blocks& blocks, const std::byte* address) {
    const auto after = blocks.upper_bound(address);
    if (after == blocks.begin()) {
        return std::nullopt;
    }
    const auto& [begin, block] = *std::prev(after);
    return address < begin + block.first ? std::optional{block.second} : std::nullopt;
}

void note_copy(const void* to, const void* from) {
    const std::scoped_lock lock{mutex};
    copies.emplace_back(static_cast<const std::byte*>(to), static_cast<const std::byte*>(from));
}

std::size_t count_copies(const void* data, std::size_t bytes, auto end) {
    const std::scoped_lock lock{mutex};
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    return static_cast<std::size_t>(std::ranges::count_if(
        copies, [&](const auto& copy) { return reinterpret_cast<std::uintptr_t>(copy.*end) - begin < bytes; }));
}

void record(cudaEvent_t event, cudaStream_t stream) {
    if (stream->capture != nullptr) {
        return;
    }
    const std::size_t mark = ++event->marks->recorded;
    put(stream, {always, [marks = event->marks, mark] { marks->reached = std::max(marks->reached, mark); }});
}

} // namespace

namespace fake {

void enqueue(cudaStream_t stream, std::function<void()> work) {
    const std::scoped_lock lock{mutex};
    put(stream, {always, std::move(work)});
}

void hold(cudaStream_t stream) {
    const std::scoped_lock lock{mutex};
    stream->held = true;
}

void release(cudaStream_t stream) {
    const std::scoped_lock lock{mutex};
    stream->held = false;
    pump();
}

HeldDevice::HeldDevice() {
    const std::scoped_lock lock{mutex};
    all_held = true;
}

HeldDevice::~HeldDevice() {
    const std::scoped_lock lock{mutex};
    all_held = false;
    pump();
}

FullDevice::FullDevice(std::size_t most) {
    most_bytes = most;
}

FullDevice::~FullDevice() {
    most_bytes = std::numeric_limits<std::size_t>::max();
}

PageLocked::PageLocked(const void* data, std::size_t bytes) : data_{data} {
    const std::scoped_lock lock{mutex};
    locked_blocks[static_cast<const std::byte*>(data)] = {bytes, 0};
}

PageLocked::~PageLocked() {
    const std::scoped_lock lock{mutex};
    locked_blocks.erase(static_cast<const std::byte*>(data_));
}

std::size_t copies_from(const void* data, std::size_t bytes) {
    return count_copies(data, bytes, &decltype(copies)::value_type::second);
}

std::size_t copies_to(const void* data, std::size_t bytes) {
    return count_copies(data, bytes, &decltype(copies)::value_type::first);
}

int device() {
    return current_device;
}

std::size_t allocations() {
    return allocation_count;
}

std::size_t launched_graphs() {
    return graph_count;
}

std::size_t waits() {
    return wait_count;
}
std::size_t destroyed_streams() {
    return destroyed_count;
}

} // namespace fake

const cudaStream_t cudaStreamLegacy = &legacy;
const cudaStream_t cudaStreamPerThread = &per_thread;

const char* cudaGetErrorName(cudaError_t /*error*/) {
    return "cudaErrorOfTheDouble";
}
const char* cudaGetErrorString(cudaError_t /*error*/) {
    return "an error of the double";
}
cudaError_t cudaGetLastError() {
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
    *device = current_device;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    if (device < 0 || device > 1) {
        return cudaErrorInvalidDevice;
    }
    current_device = device;
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
    std::unique_lock lock{mutex};
    changed.wait(lock, [] {
        return std::all_of(streams.begin(), streams.end(), [](const CUstream_st* s) { return s->tasks.empty(); });
    });
    return cudaSuccess;
}
cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
    if (bytes > most_bytes) {
        return cudaErrorMemoryAllocation;
    }
    ++allocation_count;
    const cudaError_t status = allocate(pointer, bytes);
    const std::scoped_lock lock{mutex};
    device_blocks[static_cast<std::byte*>(*pointer)] = {bytes, current_device};
    return status;
}
cudaError_t cudaFree(void* pointer) {
    const std::scoped_lock lock{mutex};
    device_blocks.erase(static_cast<std::byte*>(pointer));
    std::free(pointer);
    return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned /*flags*/) {
    const cudaError_t status = allocate(pointer, bytes);
    const std::scoped_lock lock{mutex};
    locked_blocks[static_cast<std::byte*>(*pointer)] = {bytes, 0};
    return status;
}
cudaError_t cudaFreeHost(void* pointer) {
    const std::scoped_lock lock{mutex};
    locked_blocks.erase(static_cast<std::byte*>(pointer));
    std::free(pointer);
    return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
    const std::scoped_lock lock{mutex};
    const auto* address = static_cast<const std::byte*>(pointer);
    auto* pointed = const_cast<std::byte*>(address);
    if (const auto device = device_of(device_blocks, address)) {
        *attributes = {cudaMemoryTypeDevice, pointed, *device};
    } else if (device_of(locked_blocks, address)) {
        *attributes = {cudaMemoryTypeHost, pointed, 0};
    } else {
        *attributes = {cudaMemoryTypeUnregistered, nullptr, 0};
    }
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    cudaMemcpyAsync(to, from, bytes, kind, cudaStreamLegacy);
    return cudaStreamSynchronize(cudaStreamLegacy);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
    note_copy(to, from);
    fake::enqueue(stream, [=] { std::memcpy(to, from, bytes); });
    return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind /*kind*/, cudaStream_t stream) {
    note_copy(to, from);
    fake::enqueue(stream, [=] {
        for (std::size_t row = 0; row < height; ++row) {
            std::memcpy(static_cast<std::byte*>(to) + row * to_pitch,
                        static_cast<const std::byte*>(from) + row * from_pitch, width);
        }
    });
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
    fake::enqueue(stream, [=] { std::memset(to, value, bytes); });
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
    const std::scoped_lock lock{mutex};
    *stream = new CUstream_st; // NOLINT(cppcoreguidelines-owning-memory)
    streams.insert(*stream);
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    const std::scoped_lock lock{mutex};
    streams.erase(stream);
    ++destroyed_count;
    delete stream->capture; // NOLINT(cppcoreguidelines-owning-memory): a capture that was left open
    delete stream;          // NOLINT(cppcoreguidelines-owning-memory)
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    std::unique_lock lock{mutex};
    changed.wait(lock, [&] { return stream->tasks.empty(); });
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
    const std::scoped_lock lock{mutex};
    ++wait_count;
    const std::size_t mark = event->marks->recorded;
    put(stream, {[marks = event->marks, mark] { return marks->reached >= mark; }, [] {}});
    return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
    stream->capture = new FakeGraph; // NOLINT(cppcoreguidelines-owning-memory)
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    *graph = std::exchange(stream->capture, nullptr);
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    *status = stream->capture != nullptr ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* /*mode*/) {
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
    *event = new CUevent_st; // NOLINT(cppcoreguidelines-owning-memory)
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete event; // NOLINT(cppcoreguidelines-owning-memory)
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    const std::scoped_lock lock{mutex};
    record(event, stream);
    return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned /*flags*/) {
    return cudaEventRecord(event, stream);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
    const std::scoped_lock lock{mutex};
    return event->marks->reached >= event->marks->recorded ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    std::unique_lock lock{mutex};
    const std::size_t mark = event->marks->recorded;
    changed.wait(lock, [&] { return event->marks->reached >= mark; });
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t /*begin*/, cudaEvent_t /*end*/) {
    *milliseconds = 1;
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph; // NOLINT(cppcoreguidelines-owning-memory)
    return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* /*nodes*/, std::size_t* count) {
    *count = graph->nodes.size();
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long /*flags*/) {
    *executable = new FakeGraph{*graph}; // NOLINT(cppcoreguidelines-owning-memory)
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    return cudaGraphDestroy(executable);
}
cudaError_t cudaGraphUpload(cudaGraphExec_t /*executable*/, cudaStream_t /*stream*/) {
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    const std::scoped_lock lock{mutex};
    ++graph_count;
    for (const auto& node : executable->nodes) {
        put(stream, {always, node});
    }
    return cudaSuccess;
}

namespace trtw {

DeviceStatus device_status() noexcept {
    return {.ok = true, .device_count = 2, .driver_version = 13000, .runtime_version = 13000, .error = ""};
}
std::vector<DeviceInfo> devices(std::optional<int> only) {
    return std::vector<DeviceInfo>(only ? 1 : 2);
}
void profiler_start() {}
void profiler_stop() {}

} // namespace trtw
