#include "run/state_arena.hpp"

#include "device/check.hpp"
#include "run/host_array.hpp"
#include "run/state.hpp"

#include <algorithm>
#include <string>

namespace trtw {

namespace {

constexpr std::size_t alignment = 16; // of the widest word

// The one size that every profile has; -1 where there are several.
std::int64_t settled_size(const TensorInfo& tensor, std::size_t dimension) {
    const std::int64_t size = tensor.profiles.front().min[dimension];
    const bool settled = std::ranges::all_of(tensor.profiles, [&](const ProfileRange& range) {
        return range.min[dimension] == size && range.max[dimension] == size;
    });
    return settled ? size : -1;
}

Shape row_shape(const TensorInfo& input, const StreamState& state) {
    Shape shape = with_rows(input.shape, state.input_axis, 1);
    for (std::size_t d = 0; d < shape.size(); ++d) {
        if (shape[d] < 0 && state.initial && state.initial->shape.size() == shape.size()) {
            shape[d] = state.initial->shape[d];
        } else if (shape[d] < 0) {
            shape[d] = settled_size(input, d);
        }
    }
    if (is_dynamic(shape)) {
        throw UsageProblem("State input '" + input.name + "' has the shape " + bracketed(input.shape) +
                           ", whose dynamic dimensions the engine's profiles do not fix; give it an initial value.");
    }
    return shape;
}

void check_axis(const TensorInfo& tensor, std::size_t axis) {
    if (axis >= tensor.shape.size()) {
        throw UsageProblem("State '" + tensor.name + "' " + bracketed(tensor.shape) + " has no axis " +
                           std::to_string(axis) + ", counted from 0.");
    }
}

// What a runner asks of pairs, a pool asks, too.
void check_pairs(const Plan& plan, const std::vector<StreamState>& state) {
    std::map<std::string, std::string> pairs;
    for (const StreamState& one : state) {
        if (!pairs.emplace(one.output, one.input).second) {
            throw UsageProblem("State output '" + one.output + "' feeds two inputs.");
        }
    }
    static_cast<void>(StateStore{plan, pairs});
}

} // namespace

StateArena::StateArena(const Plan& plan, const std::vector<StreamState>& state, std::int32_t capacity,
                       std::size_t most_rows, cudaStream_t stream)
    : plan_{&plan}, spare_{capacity}, stream_{stream}, chosen_{most_rows * sizeof(std::int32_t)},
      rows_{most_rows * sizeof(std::int32_t)} {
    check_pairs(plan, state);
    std::vector<std::vector<std::byte>> first;
    for (const StreamState& one : state) {
        Tensor& tensor = tensors_.emplace_back(make(one));
        first.push_back(one.initial ? packed(tensor, *one.initial) : std::vector<std::byte>(tensor.row_bytes));
    }
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
        Tensor& tensor = tensors_[t];
        std::size_t bytes = 0;
        if (__builtin_mul_overflow(tensor.stride, static_cast<std::size_t>(capacity) + 1, &bytes)) {
            throw OutOfMemory("The state of " + std::to_string(capacity) + " streams is larger than any memory.");
        }
        tensor.arena = std::make_unique<Block::element_type>(bytes);
        tensor.batch = std::make_unique<Block::element_type>(tensor.row_bytes * most_rows);
        TRTW_CUDA(
            cudaMemcpyAsync(tensor.row(spare_), first[t].data(), tensor.row_bytes, cudaMemcpyHostToDevice, stream_));
    }
    TRTW_CUDA(cudaStreamSynchronize(stream_));
}

StateArena::Tensor StateArena::make(const StreamState& state) const {
    Tensor tensor;
    tensor.input = *index_of(plan_->inputs(), state.input);
    tensor.output = *index_of(plan_->outputs(), state.output);
    tensor.input_axis = state.input_axis;
    tensor.output_axis = state.output_axis;
    const TensorInfo& input = plan_->inputs()[tensor.input];
    check_axis(input, state.input_axis);
    check_axis(plan_->outputs()[tensor.output], state.output_axis);
    tensor.shape = row_shape(input, state);
    tensor.row_bytes = byte_size(input, tensor.shape);
    tensor.stride = (tensor.row_bytes + alignment - 1) / alignment * alignment;
    if (tensor.row_bytes > most_row_words) {
        throw UsageProblem("State '" + input.name + "' takes " + std::to_string(tensor.row_bytes) +
                           " bytes per stream; a pool takes less than 2 GiB.");
    }
    return tensor;
}

Shape StateArena::batch_shape(const Tensor& tensor, std::size_t axis, std::size_t rows) {
    Shape shape = tensor.shape;
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(tensor.input_axis));
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), static_cast<std::int64_t>(rows));
    return shape;
}

void StateArena::place(std::vector<Input>& inputs, std::size_t rows) const {
    for (const Tensor& tensor : tensors_) {
        Input& input = inputs[tensor.input];
        input.source = Source::device;
        input.data = tensor.batch->data();
        input.shape = batch_shape(tensor, tensor.input_axis, rows);
    }
}

void StateArena::check_outputs(const std::vector<Shape>& outputs, std::size_t rows) const {
    for (const Tensor& tensor : tensors_) {
        const Shape expected = batch_shape(tensor, tensor.output_axis, rows);
        if (outputs[tensor.output] != expected) {
            throw UsageProblem("State output '" + plan_->outputs()[tensor.output].name + "' has the shape " +
                               bracketed(outputs[tensor.output]) + " in a batch of " + std::to_string(rows) +
                               ", but input '" + plan_->inputs()[tensor.input].name + "' needs " + bracketed(expected) +
                               ". State keeps its shape; the batch axes may be wrong.");
        }
    }
}

void StateArena::choose(std::span<const std::int32_t> rows, std::size_t batch_rows) {
    auto* chosen = static_cast<std::int32_t*>(chosen_.data());
    std::fill(std::ranges::copy(rows, chosen).out, chosen + batch_rows, spare_);
}

void StateArena::copy(RowDirection direction, std::size_t batch_rows,
                      const std::function<void*(const Tensor&)>& batch_address, cudaStream_t stream) const {
    std::vector<RowCopy> copies;
    for (const Tensor& tensor : tensors_) {
        if (tensor.row_bytes > 0) {
            const bool in = direction == RowDirection::gather;
            const std::size_t axis = in ? tensor.input_axis : tensor.output_axis;
            const RowLayout layout =
                row_layout(plan_->inputs()[tensor.input], batch_shape(tensor, axis, batch_rows), axis);
            copies.push_back(
                row_copy(tensor.arena->data(), tensor.stride, batch_address(tensor), tensor.row_bytes, layout.inner));
        }
    }
    if (!copies.empty()) {
        launch_row_copies(copies.data(), copies.size(), direction, static_cast<const std::int32_t*>(rows_.data()),
                          static_cast<std::uint32_t>(batch_rows), spare_, stream);
    }
}

void StateArena::gather(std::size_t batch_rows, cudaStream_t stream) {
    TRTW_CUDA(cudaMemcpyAsync(rows_.data(), chosen_.data(), batch_rows * sizeof(std::int32_t), cudaMemcpyHostToDevice,
                              stream));
    copy(RowDirection::gather, batch_rows, [](const Tensor& tensor) { return tensor.batch->data(); }, stream);
}

void StateArena::scatter(std::size_t batch_rows, const std::function<void*(std::size_t)>& output_address,
                         cudaStream_t stream) const {
    copy(
        RowDirection::scatter, batch_rows, [&](const Tensor& tensor) { return output_address(tensor.output); }, stream);
}

void StateArena::reset(std::int32_t row) {
    for (const Tensor& tensor : tensors_) {
        TRTW_CUDA(
            cudaMemcpyAsync(tensor.row(row), tensor.row(spare_), tensor.row_bytes, cudaMemcpyDeviceToDevice, stream_));
    }
}

std::vector<StreamValue> StateArena::save(std::int32_t row) const {
    std::vector<StreamValue> values;
    for (const Tensor& tensor : tensors_) {
        StreamValue& value = values.emplace_back();
        value.input = &plan_->inputs()[tensor.input];
        value.shape = tensor.shape;
        value.bytes.resize(tensor.row_bytes);
        TRTW_CUDA(
            cudaMemcpyAsync(value.bytes.data(), tensor.row(row), tensor.row_bytes, cudaMemcpyDeviceToHost, stream_));
    }
    TRTW_CUDA(cudaStreamSynchronize(stream_));
    return values;
}

std::vector<std::byte> StateArena::packed(const Tensor& tensor, const Input& value) const {
    const TensorInfo& input = plan_->inputs()[tensor.input];
    check_input(input, value);
    if (value.source != Source::host || value.shape != tensor.shape) {
        throw UsageProblem("State '" + input.name + "' of one stream must be an array in host memory of the shape " +
                           bracketed(tensor.shape) + "; got " + bracketed(value.shape) + ".");
    }
    return trtw::packed(value.data, value.shape, value.strides, input.bits / 8);
}

void StateArena::restore(std::int32_t row, const std::vector<std::pair<std::size_t, Input>>& values) {
    std::vector<std::vector<std::byte>> bytes;
    for (const Tensor& tensor : tensors_) {
        const auto found = std::ranges::find(values, tensor.input, &std::pair<std::size_t, Input>::first);
        if (found == values.end()) {
            throw UsageProblem("The value of state '" + plan_->inputs()[tensor.input].name +
                               "' is missing; a stream takes all of its state at once.");
        }
        bytes.push_back(packed(tensor, found->second));
    }
    if (values.size() != tensors_.size()) {
        throw UsageProblem("A stream has " + std::to_string(tensors_.size()) + " state tensors; got " +
                           std::to_string(values.size()) + " values.");
    }
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
        TRTW_CUDA(
            cudaMemcpyAsync(tensors_[t].row(row), bytes[t].data(), bytes[t].size(), cudaMemcpyHostToDevice, stream_));
    }
    TRTW_CUDA(cudaStreamSynchronize(stream_));
}

std::size_t StateArena::arena_bytes() const noexcept {
    return row_bytes() * (static_cast<std::size_t>(spare_) + 1);
}

std::size_t StateArena::row_bytes() const noexcept {
    std::size_t total = 0;
    for (const Tensor& tensor : tensors_) {
        total += tensor.stride;
    }
    return total;
}

std::size_t StateArena::batch_bytes() const noexcept {
    std::size_t total = rows_.bytes();
    for (const Tensor& tensor : tensors_) {
        total += tensor.batch->bytes();
    }
    return total;
}

} // namespace trtw
