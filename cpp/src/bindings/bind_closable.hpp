// What several threads use until one of them closes it.
#pragma once

#include "trtw/error.hpp"

#include <pybind11/pybind11.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>

namespace trtw::bindings {

/// Serves Ctrl-C where the calling thread is the main one, which alone gets signals. Called without the GIL.
inline void serve_signals() {
    static const unsigned long main_thread = [] {
        const pybind11::gil_scoped_acquire locked;
        const auto thread = pybind11::module_::import("threading").attr("main_thread")();
        return thread.attr("ident").cast<unsigned long>();
    }();
    if (PyThread_get_thread_ident() != main_thread) {
        return; // asks for no GIL either: at the interpreter's end nobody but the main thread gets it
    }
    const pybind11::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) {
        throw pybind11::error_already_set();
    }
}

/// Used with the GIL held only. Whoever holds what `get` returned keeps the object from going.
template <class Object>
class Closable {
public:
    /// `closed`: what `get` says from then on.
    Closable(std::unique_ptr<Object> object, std::string closed) : closed_{std::move(closed)} {
        auto gone = std::make_shared<std::promise<void>>();
        gone_ = gone->get_future().share();
        object_ = {object.release(), [gone](Object* last) {
                       delete last; // NOLINT(cppcoreguidelines-owning-memory)
                       gone->set_value();
                   }};
    }

    [[nodiscard]] bool is_open() const noexcept { return object_ != nullptr; }

    [[nodiscard]] const std::shared_ptr<Object>& get() const {
        if (!object_) {
            throw UsageProblem(closed_);
        }
        return object_;
    }

    /// Refuses further use, calls `let_go`, and returns once all use has ended and the object is gone, whoever closed
    /// it.
    template <class Action>
    void close(Action&& let_go) {
        std::shared_ptr<Object> last = std::move(object_);
        let_go();
        // No gil_scoped_release: to take the lock back ends a daemon thread once the interpreter ends, which unwinds
        // the stack, and that may not happen in a destructor.
        PyThreadState* const thread = PyEval_SaveThread();
        try {
            last.reset();
            wait();
        } catch (...) {
            PyEval_RestoreThread(thread);
            throw;
        }
        PyEval_RestoreThread(thread);
    }

private:
    void wait() const {
        while (gone_.wait_for(std::chrono::milliseconds{100}) != std::future_status::ready) {
            serve_signals();
        }
    }

    std::shared_ptr<Object> object_;
    std::shared_future<void> gone_;
    std::string closed_;
};

} // namespace trtw::bindings
