// The stream pool.
#include "bind_closable.hpp"
#include "bind_device_array.hpp"
#include "bind_options.hpp"
#include "bind_runner_call.hpp"
#include "bindings.hpp"
#include "trtw/error.hpp"
#include "trtw/stream_pool.hpp"

#include <pybind11/stl.h>

#include <cstring>
#include <limits>
#include <utility>

namespace py = pybind11;

namespace trtw::bindings {

namespace {

/// As Python gives it.
struct PyStreamState : StreamState {
    py::object array;
};

// A model's int64 is int32 in engines of TensorRT before 10.
py::object narrowed(const TensorInfo& tensor, const py::handle& value) {
    const py::array array = host_array(value, "State", tensor.name);
    if (tensor.dtype != "int32" || array.dtype().kind() != 'i' || array.dtype().itemsize() != sizeof(std::int64_t)) {
        return array;
    }
    using Limits = std::numeric_limits<std::int32_t>;
    if (array.size() > 0 && (array.attr("min")().cast<std::int64_t>() < Limits::min() ||
                             array.attr("max")().cast<std::int64_t>() > Limits::max())) {
        throw UsageProblem("State '" + tensor.name +
                           "' has values that do not fit into int32, which the engine takes.");
    }
    return array.attr("astype")("int32");
}

Input state_value(const Plan& plan, const std::string& name, const py::handle& value, std::vector<py::object>& keep) {
    const auto index = trtw::index_of(plan.inputs(), name);
    if (!index) {
        throw UsageProblem("The engine has no input '" + name + "'.");
    }
    const TensorInfo& tensor = plan.inputs()[*index];
    Input state;
    set_input(state, plan, tensor, narrowed(tensor, value), cudaStreamLegacy, keep);
    return state;
}

/// A pool as Python holds it. Its own members are touched with the GIL held only.
class PyStreamPool {
public:
    PyStreamPool(StreamPoolOptions options, std::shared_ptr<Plan> plan, const std::vector<PyStreamState>& state)
        : plan_{std::move(plan)},
          pool_{make_pool(plan_, state, std::move(options)), "The stream pool was released; make a new one."},
          state_{by_output(state)}, inputs_{plan_, state_} {}
    ~PyStreamPool() {
        try {
            release();
        } catch (py::error_already_set& interrupted) {
            interrupted.discard_as_unraisable("the end of a StreamPool");
        }
    }
    PyStreamPool(const PyStreamPool&) = delete;
    PyStreamPool& operator=(const PyStreamPool&) = delete;

    static std::unique_ptr<PyStreamPool> on(StreamPoolOptions options, std::shared_ptr<Plan> plan,
                                            const std::vector<PyStreamState>& state,
                                            std::map<std::string, std::size_t> batch_axes, int device) {
        if (device >= 0 && device != plan->device()) {
            throw UsageProblem("The engine is on GPU " + std::to_string(plan->device()) + ", not on GPU " +
                               std::to_string(device) + ".");
        }
        options.batch_axes = std::move(batch_axes);
        return std::make_unique<PyStreamPool>(std::move(options), std::move(plan), state);
    }

    [[nodiscard]] std::shared_ptr<StreamPool> usable() const { return pool_.get(); }

    py::dict push(const std::vector<std::int64_t>& streams, const py::object& inputs) {
        const std::shared_ptr<StreamPool> pool = usable();
        const auto request = inputs_.request(inputs, cudaStreamLegacy);
        py::dict results;
        const auto make = [&](std::size_t output, const Shape& shape) {
            const py::gil_scoped_acquire locked;
            const TensorInfo& tensor = plan_->outputs()[output];
            py::array array = arrays_->make(tensor.dtype, shape, trtw::byte_size(tensor, shape));
            results[tensor.name.c_str()] = array;
            return array.mutable_data();
        };
        {
            const py::gil_scoped_release unlocked;
            pool->push(streams, request->call.inputs, make);
        }
        return results;
    }

    void warm_up(const py::object& inputs) {
        const std::shared_ptr<StreamPool> pool = usable();
        const auto request = inputs_.request(inputs, cudaStreamLegacy);
        const py::gil_scoped_release unlocked;
        pool->warm_up(request->call.inputs);
    }

    py::dict save(std::int64_t stream) {
        const std::shared_ptr<StreamPool> pool = usable();
        const std::vector<StreamValue> values = [&] {
            const py::gil_scoped_release unlocked;
            return pool->save(stream);
        }();
        py::dict state;
        for (const StreamValue& value : values) {
            py::array array = new_array(value.input->dtype, value.shape);
            if (!value.bytes.empty()) {
                std::memcpy(array.mutable_data(), value.bytes.data(), value.bytes.size());
            }
            state[value.input->name.c_str()] = array;
        }
        return state;
    }

    void restore(std::int64_t stream, const py::dict& state) {
        const std::shared_ptr<StreamPool> pool = usable();
        std::vector<py::object> keep;
        std::vector<std::pair<std::size_t, Input>> values;
        for (const auto& item : state) {
            const std::string name = py::str(item.first);
            if (!trtw::feeds(state_, name)) {
                throw UsageProblem("The pool has no state '" + name + "'.");
            }
            values.emplace_back(*trtw::index_of(plan_->inputs(), name), state_value(*plan_, name, item.second, keep));
        }
        const py::gil_scoped_release unlocked;
        pool->restore(stream, values);
    }

    void release() {
        pool_.close([] {});
        arrays_->clear();
    }

private:
    static std::map<std::string, std::string> by_output(const std::vector<PyStreamState>& state) {
        std::map<std::string, std::string> pairs;
        for (const PyStreamState& one : state) {
            pairs[one.output] = one.input;
        }
        return pairs;
    }

    static std::unique_ptr<StreamPool> make_pool(const std::shared_ptr<Plan>& plan,
                                                 const std::vector<PyStreamState>& state, StreamPoolOptions options) {
        std::vector<py::object> keep;
        for (const PyStreamState& one : state) {
            options.state.push_back(one);
            if (!one.array.is_none()) {
                options.state.back().initial = state_value(*plan, one.input, one.array, keep);
            }
        }
        const py::gil_scoped_release unlocked;
        return std::make_unique<StreamPool>(plan, std::move(options));
    }

    std::shared_ptr<Plan> plan_;
    Closable<StreamPool> pool_;
    std::map<std::string, std::string> state_; ///< by output
    Inputs inputs_;
    std::shared_ptr<ArrayPool> arrays_ = std::make_shared<ArrayPool>();
};

py::dict memory_bytes(const PyStreamPool& pool) {
    const StreamPoolMemory memory = pool.usable()->memory();
    py::dict result;
    result["arena"] = memory.arena;
    result["buffers"] = memory.buffers;
    result["contexts"] = memory.contexts;
    result["pinned"] = memory.pinned;
    result["per_stream"] = memory.per_stream;
    return result;
}

py::dict timing(const PyStreamPool& pool) {
    const Timing times = pool.usable()->timing();
    py::dict result;
    result["h2d"] = static_cast<double>(times.h2d_ms);
    result["compute"] = static_cast<double>(times.compute_ms);
    result["d2h"] = static_cast<double>(times.d2h_ms);
    result["total"] = static_cast<double>(times.end_to_end_ms);
    return result;
}

} // namespace

void bind_stream_pool(py::module_& m) {
    py::class_<PyStreamState>(m, "StreamState", "A state tensor of a stream pool.")
        .def(py::init([](std::string input, std::string output, std::size_t input_axis, std::size_t output_axis,
                         py::object initial) {
                 return PyStreamState{{std::move(input), std::move(output), input_axis, output_axis},
                                      std::move(initial)};
             }),
             py::arg("input"), py::arg("output"), py::kw_only(), py::arg("input_axis") = 0, py::arg("output_axis") = 0,
             py::arg("initial") = py::none())
        .def_readwrite("input", &PyStreamState::input)
        .def_readwrite("output", &PyStreamState::output)
        .def_readwrite("input_axis", &PyStreamState::input_axis)
        .def_readwrite("output_axis", &PyStreamState::output_axis)
        .def_readwrite("initial", &PyStreamState::array);
    py::class_<PyStreamPool> bound(m, "StreamPool", "Runs streams that come and go in batches. One thread at a time.");
    const auto define = [&](const auto& make, const auto&... options) {
        bound.def(py::init(make), py::arg("engine").none(false), py::kw_only(), py::arg("state"), py::arg("batch_axes"),
                  py::arg("device") = -1, options.argument()...);
    };
    pass_options(&PyStreamPool::on, define
#define TRTW_OPTION(name, value, doc, ...) , Field<StreamPoolOptions, __VA_ARGS__>{#name, &StreamPoolOptions::name, doc}
#include "trtw/stream_pool_options.def"
#undef TRTW_OPTION
    );
    bound
        .def_property_readonly("buckets",
                               [](const PyStreamPool& pool) { return py::tuple(py::cast(pool.usable()->buckets())); })
        .def_property_readonly("capacity", [](const PyStreamPool& pool) { return pool.usable()->options().capacity; })
        .def("open", [](const PyStreamPool& pool) { return pool.usable()->open(); })
        .def(
            "close", [](const PyStreamPool& pool, std::int64_t stream) { pool.usable()->close(stream); },
            py::arg("stream"))
        .def("close_all", [](const PyStreamPool& pool) { pool.usable()->close_all(); })
        .def("open_streams", [](const PyStreamPool& pool) { return pool.usable()->open_streams(); })
        .def("push", &PyStreamPool::push, py::arg("streams"), py::arg("inputs"), "Runs one chunk of each stream.")
        .def("warm_up", &PyStreamPool::warm_up, py::arg("inputs"), "Runs every bucket until its graph is captured.")
        .def("save", &PyStreamPool::save, py::arg("stream"), "Returns a stream's state by the names of its inputs.")
        .def("restore", &PyStreamPool::restore, py::arg("stream"), py::arg("state"), "Sets a stream's state.")
        .def("memory_bytes", &memory_bytes, "Returns the memory of the pool, without graphs and weights.")
        .def("graph_status", [](const PyStreamPool& pool) { return pool.usable()->graph_status(); })
        .def("timing", &timing, "Milliseconds of the last push.")
        .def("release", &PyStreamPool::release, "Closes every stream and frees all memory; safe to call twice.")
        .def("__enter__", [](py::object self) { return self; })
        .def("__exit__", [](PyStreamPool& pool, const py::args&) { pool.release(); });
}

} // namespace trtw::bindings
