// What several threads use until one of them closes it.
#pragma once

#include "trtw/error.hpp"

#include <pybind11/pybind11.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace trtw::bindings {

/// Without the GIL, as below.
inline bool is_main_thread() {
    static const unsigned long main_thread = [] {
        const pybind11::gil_scoped_acquire locked;
        const auto thread = pybind11::module_::import("threading").attr("main_thread")();
        return thread.attr("ident").cast<unsigned long>();
    }();
    return PyThread_get_thread_ident() == main_thread;
}

/// Serves Ctrl-C where the calling thread is the main one, which alone gets signals.
inline void serve_signals() {
    if (!is_main_thread()) {
        return; // asks for no GIL either: at the interpreter's end nobody but the main thread gets it
    }
    const pybind11::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) {
        throw pybind11::error_already_set();
    }
}

/// The objects that this thread is in a call of, within which a signal's handler may run.
inline thread_local std::vector<const void*> objects_in_call;

class InCall {
public:
    explicit InCall(const void* object) { objects_in_call.push_back(object); }
    ~InCall() { objects_in_call.pop_back(); }
    InCall(const InCall&) = delete;
    InCall& operator=(const InCall&) = delete;
};

/// Acts without the GIL. Where a signal's handler ends that, the device may still be at what is to be kept.
template <class Action>
auto unlocked(std::vector<pybind11::object>& left, const std::vector<pybind11::object>& keep, Action&& action) {
    try {
        const pybind11::gil_scoped_release released;
        return action();
    } catch (const pybind11::error_already_set&) {
        left.insert(left.end(), keep.begin(), keep.end());
        throw;
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
        id_ = object.get();
        object_ = {object.release(), [gone](Object* last) {
                       delete last; // NOLINT(cppcoreguidelines-owning-memory)
                       gone->set_value();
                   }};
    }

    [[nodiscard]] bool is_open() const noexcept { return object_ != nullptr; }

    /// For a call of this thread.
    class Use : public std::shared_ptr<Object> {
    public:
        explicit Use(const std::shared_ptr<Object>& object) : std::shared_ptr<Object>{object}, in_call_{object.get()} {}

    private:
        InCall in_call_;
    };
    [[nodiscard]] Use get() const {
        if (!object_) {
            throw UsageProblem(closed_);
        }
        return Use{object_};
    }

    /// Refuses further use, calls `let_go`, and returns once all use has ended and the object is gone, whoever closed
    /// it; at once where this thread is in a call of it, with whose end it goes.
    template <class Action>
    void close(Action&& let_go) {
        std::shared_ptr<Object> last = std::move(object_);
        let_go();
        // No gil_scoped_release: to take the lock back ends a daemon thread once the interpreter ends, which unwinds
        // the stack, and that may not happen in a destructor.
        PyThreadState* const thread = PyEval_SaveThread();
        try {
            last.reset();
            if (std::ranges::find(objects_in_call, id_) == objects_in_call.end()) {
                wait();
            }
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
    const void* id_ = nullptr;
    std::shared_future<void> gone_;
    std::string closed_;
};

} // namespace trtw::bindings
