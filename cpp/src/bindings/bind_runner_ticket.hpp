// Calls in flight as Python holds them.
#pragma once

#include "bind_runner_call.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace trtw::bindings {

using Timings = std::unordered_map<std::thread::id, Timing>;

/// Keeps what the call reads until the device is done with it. Its own members are touched with the GIL held only.
class PyTicket {
public:
    PyTicket(std::shared_ptr<Plan> plan, std::shared_ptr<Runner> runner, std::shared_ptr<Runner::Ticket> ticket,
             Request&& request, std::shared_ptr<ArrayPool> arrays, std::shared_ptr<Timings> timings,
             std::shared_ptr<std::vector<pybind11::object>> left)
        : plan_{std::move(plan)}, arrays_{std::move(arrays)}, timings_{std::move(timings)}, left_{std::move(left)},
          runner_{std::move(runner)}, selection_{std::move(request.selection)}, keep_{std::move(request.keep)},
          ticket_{std::move(ticket)} {}
    ~PyTicket() { close({}); }
    PyTicket(const PyTicket&) = delete;
    PyTicket& operator=(const PyTicket&) = delete;

    [[nodiscard]] bool is_open() const noexcept { return ticket_ != nullptr; }
    [[nodiscard]] bool done() const { return !ticket_ || ticket_->done(); }
    [[nodiscard]] bool wait(std::optional<double> timeout_s) const;
    pybind11::dict result(std::optional<double> timeout_s, bool copy, const OutputArrays& out);
    /// Waits for the device and frees the slot; `why` is what `result` says from then on.
    void close(const std::string& why);

private:
    std::shared_ptr<Plan> plan_;
    std::shared_ptr<ArrayPool> arrays_;
    std::shared_ptr<Timings> timings_;
    std::shared_ptr<std::vector<pybind11::object>> left_; ///< what the device may be at still, of interrupted calls
    std::shared_ptr<Runner> runner_;                      ///< outlives the ticket
    Selection selection_;
    std::vector<pybind11::object> keep_;
    std::shared_ptr<Runner::Ticket> ticket_; ///< null once the result was asked for
    std::string closed_ = "The ticket's result was already taken.";
};

void bind_ticket(pybind11::module_& m);

} // namespace trtw::bindings
