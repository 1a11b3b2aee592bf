// What goes into one execution of an engine, what comes out, and how a runner is set up.
#pragma once

#include "trtw/detail/cuda_handles.hpp"
#include "trtw/letterbox.hpp"
#include "trtw/memory.hpp"
#include "trtw/tensor.hpp"

#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trtw {

class Event;

/// Where an input's values come from.
enum class Source : std::uint8_t {
    host,   ///< an array in host memory
    device, ///< an array in device memory, used in place; an output that is aliased to it is written there
    images, ///< decoded images, letterboxed into the runner's own device buffer
    state   ///< what an earlier call left on the device
};

/// Throws UsageProblem where a shape has another number of elements.
void check_volume(const Shape& shape, std::size_t elements);

struct Input {
    Source source = Source::host;
    const void* data = nullptr; ///< host or device address
    Shape shape = {};
    std::vector<std::int64_t> strides = {}; ///< host: in bytes; empty means row-major without gaps
    /// device: the stream whose work so far writes the array. Without it the call comes after Runner::intake(), or the
    /// stream that it is given.
    std::optional<cudaStream_t> producer = {};
    std::vector<ImageView> images = {};
    LetterboxSpec spec = {};
    std::string_view dtype = {}; ///< where told, it has to be the engine's
};

/// An array of the host's, row-major, as an input. Throws UsageProblem where the shape has another number of elements.
template <std::ranges::contiguous_range Values>
Input view(const Values& values, const Shape& shape) {
    check_volume(shape, std::ranges::size(values));
    return {.data = std::ranges::data(values), .shape = shape, .dtype = dtype_of<std::ranges::range_value_t<Values>>()};
}

/// One execution: the inputs in the engine's order. Host arrays, and images in ordinary memory, are read before submit
/// returns; device arrays, and images on the device and in page-locked memory, must stay as they are until the call is
/// waited for.
struct Call {
    std::vector<Input> inputs = {};
    std::optional<std::vector<bool>> to_host = {}; ///< per output; without it the runner's choice
    /// Per output: whether the caller takes `Output::device`, which spares copies of those that it does not. Without it
    /// all.
    std::optional<std::vector<bool>> to_device = {};
    /// Per output that goes to the host: the one index of its second dimension to copy. Empty: every output whole.
    std::vector<std::optional<std::int64_t>> at = {};
    /// Per output that goes to the host: the shape that there is room for, after `at`. A call whose output has another
    /// one is refused. Empty: any.
    std::vector<std::optional<Shape>> room = {};
    /// Per output that goes to the host: memory of the caller's for it, as large as `room` says, or null. Only what is
    /// page-locked is used; Output::in_place tells. Empty: none.
    std::vector<void*> into = {};
    /// Whether host arrays stay as they are until the call is waited for. Those in page-locked memory are then read
    /// where they lie.
    bool arrays_stay = false;
    std::optional<bool> timing = {}; ///< without it the runner's choice
};

/// Throws UsageProblem for tensors that no call can move: neither row-major nor an input with
/// the channels last, or of less than a byte an element.
void check_tensors(const std::vector<TensorInfo>& tensors);

/// What can be told without the engine's profiles: that nothing lacks, and that sizes agree. Throws UsageProblem, or
/// ComponentMissing for images where the core was built without CUDA kernels.
void check_input(const TensorInfo& tensor, const Input& input);
void check_inputs(const std::vector<TensorInfo>& tensors, const std::vector<Input>& inputs);
void check_call(const std::vector<TensorInfo>& inputs, std::size_t outputs, const Call& call);

/// Milliseconds of one call. A stage that did not happen takes 0; all but the host's clocks need options.timing.
struct Timing {
    float enqueue_ms = 0;    ///< host time of the launch alone (graph launch or enqueueV3)
    float h2d_ms = 0;        ///< device time: copying inputs, letterbox included
    float compute_ms = 0;    ///< device time: the engine, and what brings its inputs into their format
    float d2h_ms = 0;        ///< device time: copying outputs
    float end_to_end_ms = 0; ///< host time from the start of submit to the end of wait
};

/// Its fields stand in runner_options.def.
struct RunnerOptions {
#define TRTW_OPTION(name, value, doc, ...) __VA_ARGS__ name = value;
#include "trtw/runner_options.def"
#undef TRTW_OPTION
};

/// Whether `RunnerOptions::state` feeds the input.
bool feeds(const std::map<std::string, std::string>& state, const std::string& input);

/// Bytes of memory, by what for.
struct MemoryUse {
    std::size_t device_scratch = 0;
    std::size_t device_inputs = 0;
    std::size_t device_outputs = 0;
    std::size_t device_state = 0;
    std::size_t device_images = 0;
    std::size_t pinned_inputs = 0;
    std::size_t pinned_outputs = 0;
    std::size_t pinned_images = 0;
};

/// What a slot tells while it works.
struct SlotStatus {
    int graphs = 0;
    std::string graph_fallback; ///< why some call runs without a graph; empty where none does
    MemoryUse memory;
    std::uint64_t strided_copies = 0;
    std::uint64_t in_place_inputs = 0;
    std::uint64_t page_locked_images = 0;
};

/// One line: "on: 2 graphs captured", "not yet: …", "off: …".
std::string graph_text(const SlotStatus& status);

/// One output of a call. Host memory is the slot's: its values stay until the slot's next call. Device memory
/// is left alone by later calls as long as somebody holds it beside the slot.
struct Output {
    const TensorInfo* tensor = nullptr;
    Shape shape;           ///< with Call::at, of what was copied
    std::size_t bytes = 0; ///< likewise
    bool on_host = false;  ///< whether this call's values are on the host
    bool in_place = false; ///< and in Call::into, not in `host`
    std::shared_ptr<PinnedMemory> host;
    /// Null for outputs that the call does not take, or that TensorRT writes to host memory or to a device array of the
    /// caller's (aliased outputs).
    std::shared_ptr<DeviceMemory> device;

    /// Throws UsageProblem where the values are not in the slot's host memory, or of another type.
    template <class T>
    [[nodiscard]] std::span<const T> values() const {
        return {static_cast<const T*>(host_values(dtype_of<T>())), bytes / sizeof(T)};
    }
    [[nodiscard]] const void* host_values(std::string_view dtype) const;
};

/// A call that was put on a stream of the caller's: what comes later on that stream finds its outputs complete.
struct Enqueued {
    std::vector<Output> outputs; ///< on the device
    /// For other streams. Null for a call within a graph that is being captured.
    std::shared_ptr<const Event> done;
};

} // namespace trtw
