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
#include <random>
#include <utility>
#include <vector>

struct CUstream_st;

namespace {

/// A place in a stream's work.
struct Place {
    std::shared_ptr<CUstream_st> stream;
    std::size_t count = 0;

    [[nodiscard]] bool is_reached() const;
};

struct Task {
    std::function<void()> work;
    std::vector<Place> after;
};

} // namespace

struct CUstream_st {
    std::deque<Task> tasks;
    std::size_t put = 0;
    std::size_t done = 0;
    bool held = false;
    bool blocking = false; ///< the legacy default stream and this wait for one another
    bool destroyed = false;
    FakeGraph* capture = nullptr;
};
struct CUevent_st {
    Place place;
    FakeGraph* capture = nullptr; ///< in which it was recorded
};
struct FakeGraph {
    std::vector<std::function<void()>> nodes;
    Place last;                                 ///< a graph is not launched beside itself
    std::vector<std::shared_ptr<void>> objects; ///< go with the graph, and what was made of it
};

namespace {

bool Place::is_reached() const {
    return !stream || stream->done >= count;
}

using Streams = std::map<cudaStream_t, std::shared_ptr<CUstream_st>>;
using Blocks = std::map<const std::byte*, std::pair<std::size_t, int>>; ///< bytes and device by address

CUstream_st legacy_handle;
CUstream_st per_thread_handle;
std::mutex mutex;
std::condition_variable changed;
const auto legacy = std::make_shared<CUstream_st>();
Streams streams{{&legacy_handle, legacy}};
Blocks device_blocks;
Blocks locked_blocks;
std::vector<void*> freed;                                          ///< for which the device has to be done
std::vector<std::pair<const std::byte*, const std::byte*>> copies; ///< to and from
bool all_held = false;
std::minstd_rand lot;
std::atomic<std::size_t> most_bytes = std::numeric_limits<std::size_t>::max();
std::atomic<std::size_t> allocation_count = 0;
std::atomic<std::size_t> graph_count = 0;
std::atomic<std::size_t> wait_count = 0;
std::atomic<std::size_t> destroyed_count = 0;
thread_local int current_device = 0;

std::size_t draw(std::size_t count) {
    return lot() % count;
}

std::shared_ptr<CUstream_st> resolve(cudaStream_t stream) {
    if (stream == nullptr) {
        return legacy;
    }
    if (stream != &per_thread_handle) {
        return streams.at(stream);
    }
    thread_local std::shared_ptr<CUstream_st> own;
    if (!own) {
        own = std::make_shared<CUstream_st>();
        own->blocking = true;
        own->held = per_thread_handle.held;
        streams[own.get()] = own;
    }
    return own;
}

bool may_go(const CUstream_st& stream) {
    return !all_held && !stream.held && !stream.tasks.empty() &&
           std::ranges::all_of(stream.tasks.front().after, &Place::is_reached);
}

void step(CUstream_st& stream) {
    const Task task = std::move(stream.tasks.front());
    stream.tasks.pop_front();
    task.work();
    ++stream.done;
    std::erase_if(streams, [](const auto& one) { return one.second->destroyed && one.second->tasks.empty(); });
    if (!freed.empty() && std::ranges::all_of(streams, [](const auto& one) { return one.second->tasks.empty(); })) {
        std::ranges::for_each(std::exchange(freed, {}), &std::free);
    }
    changed.notify_all();
}

// One thing on any stream; false where nothing can be done.
bool wander() {
    std::vector<std::shared_ptr<CUstream_st>> some;
    for (const auto& [handle, stream] : streams) {
        if (may_go(*stream)) {
            some.push_back(stream);
        }
    }
    if (!some.empty()) {
        step(*some[draw(some.size())]);
    }
    return !some.empty();
}

void catch_up_locked() {
    while (wander()) {
    }
}

// One thing that has to be done for the place to be reached; false where a stream is held.
bool approach(std::shared_ptr<CUstream_st> stream) {
    while (!may_go(*stream)) {
        if (all_held || stream->held) {
            return false;
        }
        const auto& after = stream->tasks.front().after;
        stream = std::ranges::find_if_not(after, &Place::is_reached)->stream;
    }
    step(*stream);
    return true;
}

// What is waited for is done as late as can be; now and then something else comes before it.
void reach(std::unique_lock<std::mutex>& lock, const Place& place) {
    while (!place.is_reached()) {
        if ((draw(4) != 0 || !wander()) && !approach(place.stream)) {
            changed.wait(lock);
        }
    }
}

Place put(const std::shared_ptr<CUstream_st>& stream, std::function<void()> work, std::vector<Place> after = {}) {
    if (stream->capture != nullptr) {
        stream->capture->nodes.push_back(std::move(work));
        return {};
    }
    for (const auto& [handle, other] : streams) {
        if (other != stream && ((stream == legacy && other->blocking) || (stream->blocking && other == legacy))) {
            after.push_back({other, other->put});
        }
    }
    stream->tasks.push_back({std::move(work), std::move(after)});
    const Place place{stream, ++stream->put};
    for (std::size_t steps = draw(8) == 0 ? draw(6) : 0; steps > 0; --steps) {
        wander();
    }
    changed.notify_all();
    return place;
}

Place end_of(const std::shared_ptr<CUstream_st>& stream) {
    return put(stream, [] {});
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

bool is_pageable(const void* data) {
    const auto* address = static_cast<const std::byte*>(data);
    return !device_of(device_blocks, address) && !device_of(locked_blocks, address);
}

// Rows from one place to another: out of ordinary memory at once, into it before this returns.
cudaError_t copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                      std::size_t height, cudaStream_t handle) {
    auto* target = static_cast<std::byte*>(to);
    const auto* source = static_cast<const std::byte*>(from);
    std::unique_lock lock{mutex};
    copies.emplace_back(target, source);
    const std::shared_ptr<CUstream_st> stream = resolve(handle);
    std::function<void()> work = [=] {
        for (std::size_t row = 0; row < height; ++row) {
            std::memcpy(target + row * to_pitch, source + row * from_pitch, width);
        }
    };
    if (stream->capture == nullptr && is_pageable(from) && width * height > 0) {
        std::vector<std::byte> staged(width * height);
        for (std::size_t row = 0; row < height; ++row) {
            std::memcpy(staged.data() + row * width, source + row * from_pitch, width);
        }
        work = [=, staged = std::move(staged)] {
            for (std::size_t row = 0; row < height; ++row) {
                std::memcpy(target + row * to_pitch, staged.data() + row * width, width);
            }
        };
    }
    const Place place = put(stream, std::move(work));
    if (is_pageable(to)) {
        reach(lock, place);
    }
    return cudaSuccess;
}

cudaError_t allocate(void** pointer, std::size_t bytes) {
    const std::size_t rounded = (bytes + 255) / 256 * 256;
    *pointer = std::aligned_alloc(256, rounded);
    std::memset(*pointer, 0x5A, rounded); // nobody may count on zeros
    return cudaSuccess;
}

// Once the device is done, as CUDA does it; without waiting for streams that a test holds.
cudaError_t release_block(Blocks& blocks, void* pointer) {
    const std::scoped_lock lock{mutex};
    blocks.erase(static_cast<std::byte*>(pointer));
    freed.push_back(pointer);
    catch_up_locked();
    if (std::ranges::all_of(streams, [](const auto& one) { return one.second->tasks.empty(); })) {
        std::ranges::for_each(std::exchange(freed, {}), &std::free);
    }
    return cudaSuccess;
}

std::size_t count_copies(const void* data, std::size_t bytes, auto end) {
    const std::scoped_lock lock{mutex};
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    return static_cast<std::size_t>(std::ranges::count_if(
        copies, [&](const auto& copy) { return reinterpret_cast<std::uintptr_t>(copy.*end) - begin < bytes; }));
}

} // namespace

namespace fake {

void seed(unsigned number) {
    const std::scoped_lock lock{mutex};
    lot.seed(number + 1);
}

void enqueue(cudaStream_t stream, std::function<void()> work) {
    const std::scoped_lock lock{mutex};
    put(resolve(stream), std::move(work));
}

void catch_up() {
    const std::scoped_lock lock{mutex};
    catch_up_locked();
}

void hold(cudaStream_t stream) {
    const std::scoped_lock lock{mutex};
    resolve(stream)->held = true;
}

void release(cudaStream_t stream) {
    const std::scoped_lock lock{mutex};
    resolve(stream)->held = false;
    catch_up_locked();
    changed.notify_all();
}

HeldDevice::HeldDevice() {
    const std::scoped_lock lock{mutex};
    all_held = true;
}

HeldDevice::~HeldDevice() {
    const std::scoped_lock lock{mutex};
    all_held = false;
    catch_up_locked();
    changed.notify_all();
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

const cudaStream_t cudaStreamLegacy = &legacy_handle;
const cudaStream_t cudaStreamPerThread = &per_thread_handle;

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
    for (const auto& [handle, stream] : Streams{streams}) {
        reach(lock, {stream, stream->put});
    }
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
    return release_block(device_blocks, pointer);
}
cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned /*flags*/) {
    const cudaError_t status = allocate(pointer, bytes);
    const std::scoped_lock lock{mutex};
    locked_blocks[static_cast<std::byte*>(*pointer)] = {bytes, 0};
    return status;
}
cudaError_t cudaFreeHost(void* pointer) {
    return release_block(locked_blocks, pointer);
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
    return copy_rows(to, bytes, from, bytes, bytes, 1, stream);
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind /*kind*/, cudaStream_t stream) {
    return copy_rows(to, to_pitch, from, from_pitch, width, height, stream);
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
    fake::enqueue(stream, [=] { std::memset(to, value, bytes); });
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
    const std::scoped_lock lock{mutex};
    const auto made = std::make_shared<CUstream_st>();
    *stream = made.get();
    streams[*stream] = made;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    const std::scoped_lock lock{mutex};
    ++destroyed_count;
    delete std::exchange(stream->capture, nullptr); // NOLINT(cppcoreguidelines-owning-memory): it was left open
    stream->destroyed = true;                       // what is under way ends
    if (stream->tasks.empty()) {
        streams.erase(stream);
    }
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    std::unique_lock lock{mutex};
    const std::shared_ptr<CUstream_st> awaited = resolve(stream);
    if (awaited->capture != nullptr) {
        return cudaErrorStreamCaptureIsolation;
    }
    reach(lock, awaited == legacy ? end_of(awaited) : Place{awaited, awaited->put});
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
    const std::scoped_lock lock{mutex};
    const std::shared_ptr<CUstream_st> waiting = resolve(stream);
    if (waiting->capture != event->capture) {
        return cudaErrorStreamCaptureIsolation;
    }
    if (waiting->capture == nullptr) {
        ++wait_count;
        put(waiting, [] {}, {event->place});
    }
    return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
    const std::scoped_lock lock{mutex};
    resolve(stream)->capture = new FakeGraph; // NOLINT(cppcoreguidelines-owning-memory)
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    const std::scoped_lock lock{mutex};
    *graph = std::exchange(resolve(stream)->capture, nullptr);
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    const std::scoped_lock lock{mutex};
    *status = resolve(stream)->capture != nullptr ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph) {
    const std::scoped_lock lock{mutex};
    *graph = resolve(stream)->capture;
    *status = *graph != nullptr ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    *id = reinterpret_cast<std::uintptr_t>(*graph);
    return cudaSuccess;
}
cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* pointer, cudaHostFn_t destroy, unsigned /*count*/,
                                 unsigned /*flags*/) {
    *object = new std::shared_ptr<void>{pointer, destroy}; // NOLINT(cppcoreguidelines-owning-memory)
    return cudaSuccess;
}
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned /*count*/,
                                      unsigned /*flags*/) {
    graph->objects.push_back(*object);
    delete object; // NOLINT(cppcoreguidelines-owning-memory)
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
    const std::shared_ptr<CUstream_st> recorded = resolve(stream);
    event->capture = recorded->capture;
    if (recorded->capture == nullptr) {
        event->place = end_of(recorded);
    }
    return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned /*flags*/) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaStreamIsCapturing(stream, &status);
    return status != cudaStreamCaptureStatusNone ? cudaSuccess
                                                 : cudaEventRecord(event, stream); // nobody reads the node
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
    const std::scoped_lock lock{mutex};
    for (std::size_t steps = draw(4); steps > 0; --steps) { // time goes by
        wander();
    }
    return event->place.is_reached() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    std::unique_lock lock{mutex};
    reach(lock, Place{event->place});
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
    const std::shared_ptr<CUstream_st> on = resolve(stream);
    put(on, [] {}, {executable->last});
    for (const auto& node : executable->nodes) {
        put(on, node);
    }
    executable->last = end_of(on);
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
