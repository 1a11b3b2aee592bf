// The runner, and the parts that belong to running.
#include "bindings.hpp"

#include "bind_closable.hpp"
#include "bind_device_array.hpp"
#include "bind_keywords.hpp"
#include "bind_options.hpp"
#include "bind_runner_call.hpp"
#include "bind_runner_ticket.hpp"
#include "bind_vision.hpp"
#include "run/host_array.hpp"
#include "run/host_outputs.hpp"
#include "trtw/bench.hpp"
#include "trtw/error.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <iterator>
#include <thread>
#include <vector>

namespace py = pybind11;

namespace trtw::bindings {

namespace {

using Names = std::optional<std::vector<std::string>>;

/// A runner as Python holds it. Its own members are touched with the GIL held only.
class PyRunner {
public:
    PyRunner(std::shared_ptr<Plan> plan, const std::optional<RunnerOptions>& options)
        : plan_{std::move(plan)}, options_{options.value_or(RunnerOptions{})},
          runner_{make_runner(plan_, options_), "The runner is closed; make a new one."},
          inputs_{plan_, options_.state} {
        default_.to_host = trtw::default_outputs(*plan_, options_);
        default_.to_device.assign(plan_->outputs().size(), false);
    }
    ~PyRunner() {
        try {
            close();
        } catch (py::error_already_set& interrupted) {
            interrupted.discard_as_unraisable("the end of a Runner");
        }
    }
    PyRunner(const PyRunner&) = delete;
    PyRunner& operator=(const PyRunner&) = delete;

    py::dict run(const py::args& placed, const py::kwargs& named) {
        static const auto& parameters =
            *new Keywords<7>("Runner.run", "inputs", "outputs", "device_outputs", "at", "copy", "out", "stream");
        const auto given = parameters.values(placed, named);
        const bool copy = parameters.get(given, 4, true);
        const auto out = parameters.get(given, 5, OutputArrays{});
        const auto runner = runner_.get();
        const std::optional<cudaStream_t> on = given[6] ? stream_of(given[6]) : std::nullopt;
        const auto request = make(parameters, given, on.value_or(runner->intake()));
        const Selection& selection = request->selection;
        Call& call = request->call;
        if (on && !out && !wants_host(*plan_, selection)) {
            const Enqueued enqueued = [&] {
                const py::gil_scoped_release unlocked;
                return runner->enqueue(call, *on);
            }();
            return collect(*plan_, enqueued, selection, *on);
        }
        if (out) {
            call.room = room_of(*plan_, selection, out);
            call.into = addresses_of(*plan_, out);
            std::ranges::transform(*out, std::back_inserter(request->keep), [](const auto& one) { return one.second; });
        }
        call.arrays_stay = true;
        const Runner::Finished finished = unlocked(*left_, request->keep, [&] { return runner->run(call, on); });
        (*timings_)[std::this_thread::get_id()] = finished.timing();
        return collect(*plan_, finished, selection, copy, out, *arrays_);
    }

    std::shared_ptr<PyTicket> submit(const py::args& placed, const py::kwargs& named) {
        static const auto& parameters = *new Keywords<4>("Runner.submit", "inputs", "outputs", "device_outputs", "at");
        const auto given = parameters.values(placed, named);
        const auto runner = runner_.get();
        const auto request = make(parameters, given, runner->intake());
        auto call = [&] {
            const py::gil_scoped_release unlocked;
            return std::make_shared<Runner::Ticket>(runner->submit(request->call));
        }();
        request->is_default = false; // what is taken from it leaves nothing
        auto ticket =
            std::make_shared<PyTicket>(plan_, runner, std::move(call), std::move(*request), arrays_, timings_, left_);
        std::erase_if(tickets_, [](const std::weak_ptr<PyTicket>& other) {
            const std::shared_ptr<PyTicket> alive = other.lock();
            return !alive || !alive->is_open();
        });
        tickets_.push_back(ticket);
        if (!runner_.is_open()) { // meanwhile, by another thread
            ticket->close(closed_with_ticket);
        }
        return ticket;
    }

    Timing timing() const {
        const auto found = timings_->find(std::this_thread::get_id());
        if (found == timings_->end()) {
            throw UsageProblem("This thread has not finished a call of the runner yet.");
        }
        return found->second;
    }

    BenchResult measure(const py::object& inputs, const std::optional<BenchOptions>& options) {
        const auto runner = runner_.get();
        const auto request = inputs_.host_request(inputs);
        request->call.arrays_stay = true;
        return unlocked(*left_, request->keep, [&] {
            return trtw::bench_latency(*runner, request->call, options.value_or(BenchOptions{}), &serve_signals);
        });
    }

    py::array input_buffer(const std::string& name, const std::optional<Shape>& shape, int slot) {
        const std::shared_ptr<Runner> runner = runner_.get();
        const std::size_t index = input_index(name);
        const TensorInfo& tensor = plan_->inputs()[index];
        const Shape& wanted = shape ? *shape : tensor.shape;
        if (trtw::is_dynamic(wanted)) {
            throw UsageProblem("Input '" + name + "' has the shape " + trtw::bracketed(wanted) +
                               "; pass the shape that the buffer is for.");
        }
        using Owner = std::shared_ptr<PinnedMemory>;
        auto owner = std::make_unique<Owner>();
        {
            const py::gil_scoped_release unlocked;
            *owner = runner->input_block(slot, index, trtw::byte_size(tensor, wanted));
        }
        void* data = (*owner)->data();
        return array_over(numpy_dtype(tensor.dtype), wanted, data, std::move(owner));
    }

    void reset_state(const py::object& values) {
        const std::shared_ptr<Runner> runner = open_with_state();
        std::vector<py::object> keep;
        std::vector<std::pair<std::size_t, Input>> inputs;
        const py::dict named = values.is_none() ? py::dict() : by_name(values);
        for (const auto& item : named) {
            inputs.push_back(state_value(py::str(item.first), item.second, runner->intake(), keep));
        }
        const py::gil_scoped_release unlocked;
        runner->reset_state(inputs);
    }

    void take_state(const PyRunner& other) {
        const std::shared_ptr<Runner> runner = open_with_state();
        const std::shared_ptr<Runner> source = other.runner_.get();
        const py::gil_scoped_release unlocked;
        runner->take_state(*source);
    }

    [[nodiscard]] SlotStatus status() const { return runner_.get()->status(); }
    [[nodiscard]] std::string graph_text() const { return runner_.get()->graph_status(); }
    [[nodiscard]] const RunnerOptions& options() const { return options_; }
    [[nodiscard]] const std::shared_ptr<Plan>& plan() const { return plan_; }

    void close() {
        runner_.close([this] {
            for (const std::weak_ptr<PyTicket>& open : std::exchange(tickets_, {})) {
                if (const std::shared_ptr<PyTicket> ticket = open.lock()) {
                    ticket->close(closed_with_ticket);
                }
            }
        });
        arrays_->clear();
        if (objects_in_call.empty()) { // else something may be under way
            left_->clear();
        }
    }

private:
    static constexpr const char* closed_with_ticket =
        "The runner was closed before the result of this ticket was taken.";

    static std::unique_ptr<Runner> make_runner(const std::shared_ptr<Plan>& plan, const RunnerOptions& options) {
        const py::gil_scoped_release unlocked;
        return std::make_unique<Runner>(plan, options, &serve_signals);
    }

    [[nodiscard]] std::shared_ptr<Runner> open_with_state() const {
        if (options_.state.empty()) {
            throw UsageProblem("The runner has no state; name its pairs in RunnerOptions.state.");
        }
        return runner_.get();
    }

    // `given` begins with inputs, outputs, device_outputs and at.
    template <std::size_t count>
    Inputs::OwnedRequest make(const Keywords<count>& parameters, const typename Keywords<count>::Values& given,
                              cudaStream_t consumer) const {
        Inputs::OwnedRequest request = inputs_.request(given[0], consumer);
        Call& call = request->call;
        Selection& selection = request->selection;
        const bool is_default = !given[1] && !given[2] && !given[3];
        if (is_default && request->is_default) { // as the last such call left it
            return request;
        }
        request->is_default = is_default;
        if (is_default) {
            selection = default_;
        } else {
            selection = select_outputs(*plan_, default_.to_host, parameters.get(given, 1, Names{}),
                                       parameters.get(given, 2, OnDevice{false}), parameters.get(given, 3, Indices{}));
            call.to_host = selection.to_host;
            call.at = selection.at;
        }
        call.to_device = selection.to_device;
        for (std::size_t o = 0; o < plan_->outputs().size(); ++o) {
            if (!selection.to_device[o]) {
                continue;
            }
            const auto aliased = plan_->aliased_input(o);
            if (aliased && call.inputs[*aliased].source == Source::device) {
                throw UsageProblem("Output '" + plan_->outputs()[o].name +
                                   "' is written in the array that was given "
                                   "for input '" +
                                   plan_->outputs()[o].aliased_input + "': use that array.");
            }
        }
        return request;
    }

    [[nodiscard]] std::size_t input_index(const std::string& name) const {
        const auto input = trtw::index_of(plan_->inputs(), name);
        if (!input) {
            throw UsageProblem("The engine has no input '" + name + "'.");
        }
        return *input;
    }

    std::pair<std::size_t, Input> state_value(const std::string& name, const py::handle& value, cudaStream_t consumer,
                                              std::vector<py::object>& keep) const {
        const std::size_t index = input_index(name);
        if (!trtw::feeds(options_.state, name)) {
            throw UsageProblem("Input '" + name + "' is not a state of this runner.");
        }
        std::pair<std::size_t, Input> state{index, {}};
        set_input(state.second, *plan_, plan_->inputs()[index], value, consumer, keep);
        return state;
    }

    std::shared_ptr<Plan> plan_;
    RunnerOptions options_;
    Closable<Runner> runner_;
    Inputs inputs_;
    std::shared_ptr<ArrayPool> arrays_ = std::make_shared<ArrayPool>();
    Selection default_;
    std::vector<std::weak_ptr<PyTicket>> tickets_; ///< those that were open when the last call was submitted
    std::shared_ptr<Timings> timings_ = std::make_shared<Timings>();
    std::shared_ptr<std::vector<py::object>> left_ = std::make_shared<std::vector<py::object>>();
};

struct GraphStatus {
    int graphs;
    std::string fallback;
    std::string text;
};

void bind_reports(py::module_& m) {
    const auto milliseconds = [](float Timing::* field) {
        return [field](const Timing& t) { return static_cast<double>(t.*field); };
    };
    py::class_<Timing>(m, "CallTiming", "Milliseconds of one call.")
        .def_property_readonly("enqueue_ms", milliseconds(&Timing::enqueue_ms))
        .def_property_readonly("h2d_ms", milliseconds(&Timing::h2d_ms))
        .def_property_readonly("compute_ms", milliseconds(&Timing::compute_ms))
        .def_property_readonly("d2h_ms", milliseconds(&Timing::d2h_ms))
        .def_property_readonly("end_to_end_ms", milliseconds(&Timing::end_to_end_ms));
    py::class_<GraphStatus>(m, "GraphStatus", "Whether CUDA graphs are in use; `str` gives one line.")
        .def_readonly("graphs", &GraphStatus::graphs)
        .def_property_readonly("fallback", [](const GraphStatus& s) { return text_or_none(s.fallback); })
        .def("__str__", [](const GraphStatus& s) { return s.text; });
}

py::dict memory_bytes(const PyRunner& runner) {
    const MemoryUse use = runner.status().memory;
    py::dict result;
    result["device_scratch"] = use.device_scratch;
    result["device_inputs"] = use.device_inputs;
    result["device_outputs"] = use.device_outputs;
    result["device_state"] = use.device_state;
    result["device_images"] = use.device_images;
    result["pinned_inputs"] = use.pinned_inputs;
    result["pinned_outputs"] = use.pinned_outputs;
    result["pinned_images"] = use.pinned_images;
    return result;
}

py::dict counters(const PyRunner& runner) {
    const SlotStatus status = runner.status();
    py::dict result;
    result["strided_copies"] = status.strided_copies;
    result["in_place_inputs"] = status.in_place_inputs;
    result["page_locked_images"] = status.page_locked_images;
    return result;
}

void bind_py_runner(py::module_& m) {
    py::class_<PyRunner>(m, "Runner", "Runs an engine with a bounded number of calls in flight. Thread-safe.")
        .def(py::init<std::shared_ptr<Plan>, const std::optional<RunnerOptions>&>(), py::arg("engine").none(false),
             py::arg("options") = py::none())
        .def_property_readonly("engine", &PyRunner::plan)
        .def_property_readonly("options", [](const PyRunner& runner) { return runner.options(); })
        .def("run", &PyRunner::run,
             "Executes the engine once. Parameters: inputs, *, copy=True, out=None, outputs=None, device_outputs=(), "
             "at=None, stream=None.")
        .def("submit", &PyRunner::submit,
             "Starts a call and returns its Ticket. Parameters: inputs, *, outputs=None, device_outputs=(), at=None.")
        .def("measure", &PyRunner::measure, py::arg("inputs"), py::arg("options") = py::none(),
             "Measures single calls, one after the other.")
        .def("timing", &PyRunner::timing, "Returns the times of the last call that this thread finished.")
        .def("graph_status",
             [](const PyRunner& runner) {
                 const SlotStatus status = runner.status();
                 return GraphStatus{status.graphs, status.graph_fallback, runner.graph_text()};
             })
        .def("input_buffer", &PyRunner::input_buffer, py::arg("name"), py::arg("shape") = py::none(), py::kw_only(),
             py::arg("slot") = 0, "Returns a writable view of a slot's pinned input buffer.")
        .def("reset_state", &PyRunner::reset_state, py::arg("values") = py::none(),
             "Forgets all state, then sets the named values.")
        .def("take_state", &PyRunner::take_state, py::arg("other"),
             "Copies what the next call of another runner reads, on the device.")
        .def("memory_bytes", &memory_bytes, "Returns the memory of all slots, without graphs and weights.")
        .def("counters", &counters, "Returns strided_copies, in_place_inputs and page_locked_images.")
        .def("close", &PyRunner::close, "Waits for the calls in flight and releases memory; safe to call twice.")
        .def("__enter__", [](py::object self) { return self; })
        .def("__exit__", [](PyRunner& runner, const py::args&) { runner.close(); });
}

std::size_t count_nonfinite(const py::array& array) {
    if ((array.flags() & py::array::c_style) == 0) {
        throw UsageProblem("The array to search for NaN and infinity must be C-contiguous.");
    }
    const std::string dtype = py::str(array.dtype().attr("name")); // without the byte order
    const auto native = array.dtype().byteorder() == '>'
                            ? py::array(array.attr("astype")(array.dtype().attr("newbyteorder")("=")))
                            : array;
    const void* data = native.data();
    const auto count = static_cast<std::size_t>(native.size());
    const py::gil_scoped_release unlocked;
    return trtw::count_nonfinite(data, count, dtype);
}

} // namespace

void bind_runner(py::module_& m) {
    bind_engine(m);
    bind_options(m, "RunnerOptions", "How an engine is run."
#define TRTW_OPTION(name, value, doc, ...) , Field<RunnerOptions, __VA_ARGS__>{#name, &RunnerOptions::name, doc}
#include "trtw/runner_options.def"
#undef TRTW_OPTION
    );
    bind_reports(m);
    bind_ticket(m);
    bind_bench(m); // whose classes the runner's signatures have
    bind_py_runner(m);
    m.def("count_nonfinite", &count_nonfinite, py::arg("array"), "Returns how many elements are NaN or infinite.");
}

} // namespace trtw::bindings
