// From Python's arrays to a call, and from a finished call to Python's arrays.
#pragma once

#include "bind_runner_array_pool.hpp"
#include "trtw/runner.hpp"

#include <pybind11/numpy.h>

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace trtw::bindings {

/// What of a call goes back to Python; one entry an output.
struct Selection {
    std::vector<bool> to_host;
    std::vector<bool> to_device;
    std::vector<std::optional<std::int64_t>> at; ///< as in Call; empty: none
};

struct Request {
    Call call;
    Selection selection;
    bool is_default = false; ///< `selection` and the call's part of it are those of a call that says nothing of outputs
    std::vector<pybind11::object> keep; ///< owners of the memory that the call reads
};

using OutputArrays = std::optional<std::map<std::string, pybind11::array>>;

/// An engine's inputs as Python names them. Used with the GIL held, and outlives its requests.
class Inputs {
public:
    struct GiveBack {
        const Inputs* home;
        void operator()(Request* request) const noexcept;
    };
    /// Its memory serves another request once it goes: to allocate that of many inputs takes longer than to fill it.
    using OwnedRequest = std::unique_ptr<Request, GiveBack>;

    /// Those that `state` feeds may lack.
    Inputs(std::shared_ptr<const Plan> plan, const std::map<std::string, std::string>& state);

    /// Checks names, dtypes, byte orders and places; shapes are the runner's part. `consumer` is the stream that will
    /// read arrays on the device. Throws UsageProblem.
    [[nodiscard]] OwnedRequest request(pybind11::handle values, cudaStream_t consumer) const;
    /// The same for arrays in host memory. Throws UsageProblem for others.
    [[nodiscard]] OwnedRequest host_request(pybind11::handle values) const;

private:
    [[nodiscard]] OwnedRequest blank() const;
    void refuse_unknown(const pybind11::dict& values) const;

    std::shared_ptr<const Plan> plan_;
    std::vector<pybind11::str> names_;
    std::vector<bool> may_lack_;
    mutable std::vector<std::unique_ptr<Request>> spare_;
};

/// A mapping of arrays by their names as a dict. Throws TypeError for anything else.
pybind11::dict by_name(pybind11::handle values);

/// Fills in one input, whatever it was before; the array or its owner goes into `keep`.
void set_input(Input& input, const Plan& plan, const TensorInfo& tensor, const pybind11::handle& value,
               cudaStream_t consumer, std::vector<pybind11::object>& keep);

using Indices = std::optional<std::map<std::string, std::int64_t>>;

/// All outputs or none, or these.
using OnDevice = std::variant<bool, std::vector<std::string>>;

/// The selection that the arguments `outputs`, `device_outputs` and `at` of run and submit ask for.
Selection select_outputs(const Plan& plan, const std::vector<bool>& default_to_host,
                         const std::optional<std::vector<std::string>>& outputs, const OnDevice& device_outputs,
                         const Indices& at);

/// Checks arrays to write outputs into, all but their shapes, which it returns as Call::room. Throws
/// UsageProblem.
std::vector<std::optional<Shape>> room_of(const Plan& plan, const Selection& selection, const OutputArrays& out);

/// Call::into of arrays that `room_of` has checked.
std::vector<void*> addresses_of(const Plan& plan, const OutputArrays& out);

/// Whether any output is to be there on the host when the call returns.
bool wants_host(const Plan& plan, const Selection& selection);

/// The outputs of a call that was put on a stream, none of which is on the host.
pybind11::dict collect(const Plan& plan, const Enqueued& enqueued, const Selection& selection, cudaStream_t stream);

/// `copy`: arrays of their own, from `pool`, else views of the slot's pinned memory. `out`: arrays to write into, by
/// name, which were checked.
pybind11::dict collect(const Plan& plan, const Runner::Finished& finished, const Selection& selection, bool copy,
                       const OutputArrays& out, ArrayPool& pool);

void bind_engine(pybind11::module_& m);
void bind_bench(pybind11::module_& m);

} // namespace trtw::bindings
