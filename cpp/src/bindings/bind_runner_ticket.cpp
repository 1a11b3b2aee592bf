#include "bind_runner_ticket.hpp"

#include "bind_closable.hpp"
#include "run/clock.hpp"
#include "trtw/error.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <utility>

namespace py = pybind11;

namespace trtw::bindings {

namespace {

using Ticket = Runner::Ticket;

Clock::time_point deadline_after(std::optional<double> timeout_s) {
    constexpr double endless_s = 1e9;
    if (!timeout_s || *timeout_s > endless_s) {
        return Clock::time_point::max();
    }
    if (!(*timeout_s >= 0)) {
        throw UsageProblem("A timeout must be a number of seconds, 0 or more.");
    }
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*timeout_s));
}

// asyncio and concurrent.futures are imported when they are needed.
py::object waiting(const char* name) {
    return py::module_::import("trt_workbench_native._waiting").attr(name);
}

} // namespace

bool PyTicket::wait(std::optional<double> timeout_s) const {
    const Clock::time_point deadline = deadline_after(timeout_s);
    const std::shared_ptr<Runner> runner = runner_; // in this order: the ticket goes first
    const std::shared_ptr<Ticket> ticket = ticket_;
    const InCall in_call{runner.get()};
    const py::gil_scoped_release unlocked;
    if (!ticket || !is_main_thread()) {
        return !ticket || ticket->wait_until(deadline);
    }
    constexpr std::chrono::milliseconds beat{100};
    while (!ticket->wait_until(std::min(deadline, Clock::now() + beat))) {
        if (Clock::now() >= deadline) {
            return false;
        }
        serve_signals();
    }
    return true;
}

py::dict PyTicket::result(std::optional<double> timeout_s, bool copy, const OutputArrays& out) {
    if (ticket_ && timeout_s && !wait(timeout_s)) {
        PyErr_SetString(PyExc_TimeoutError, "The call is still in flight; its ticket stays valid.");
        throw py::error_already_set();
    }
    if (!ticket_) {
        throw UsageProblem(closed_);
    }
    ticket_->check_room(room_of(*plan_, selection_, out));
    // Taken before the GIL is given away: of two threads that ask, the second is refused.
    const std::shared_ptr<Runner> runner = std::move(runner_);
    const std::shared_ptr<Ticket> ticket = std::move(ticket_);
    const std::vector<py::object> keep = std::move(keep_);
    const InCall in_call{runner.get()};
    const Runner::Finished finished = unlocked(*left_, keep, [&] { return ticket->result(); });
    (*timings_)[std::this_thread::get_id()] = finished.timing();
    return collect(*plan_, finished, selection_, copy, out, *arrays_);
}

void PyTicket::close(const std::string& why) {
    if (!ticket_) {
        return;
    }
    closed_ = why;
    const std::vector<py::object> keep = std::move(keep_);
    std::shared_ptr<Runner> runner = std::move(runner_);
    std::shared_ptr<Ticket> ticket = std::move(ticket_);
    const py::gil_scoped_release unlocked;
    ticket->drop();
    ticket.reset();
    runner.reset();
}

void bind_ticket(py::module_& m) {
    py::class_<PyTicket, std::shared_ptr<PyTicket>>(m, "Ticket", "A call in flight, with its slot of the runner.")
        .def("done", &PyTicket::done, "Returns whether the result is ready.")
        .def("wait", &PyTicket::wait, py::arg("timeout") = py::none(),
             "Waits for the call; returns whether it is done.")
        .def("result", &PyTicket::result, py::arg("timeout") = py::none(), py::kw_only(), py::arg("copy") = true,
             py::arg("out") = py::none(), "Waits for the call and returns its outputs.")
        .def(
            "future", [](const py::object& self) { return waiting("future")(self); },
            "Returns a concurrent.futures.Future of the result.")
        .def("__await__", [](const py::object& self) { return waiting("outcome")(self).attr("__await__")(); });
}

} // namespace trtw::bindings
