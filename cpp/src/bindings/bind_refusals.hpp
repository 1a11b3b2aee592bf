// What a wrong argument raises, in Python's words instead of pybind11's list of signatures. pybind11 calls all
// functions of a module by one C function: here another one stands before it.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace trtw::bindings {

namespace refusals {

using Fast = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);
using Named = PyObject* (*)(PyObject*, PyObject*, PyObject*);

inline PyCFunction dispatcher = nullptr; ///< pybind11's

struct Known {
    std::string name;
    bool is_method = false;
};
// by what Python passes for the function itself; never destroyed, as functions outlive the interpreter's end
inline std::unordered_map<PyObject*, Known>& functions() {
    static auto* const kept = new std::unordered_map<PyObject*, Known>;
    return *kept;
}

// pybind11 calls a member function with a null `this` where it is given None.
inline bool lacks_self(PyObject* self, PyObject* first) {
    if (first != Py_None || !functions().at(self).is_method) {
        return false;
    }
    const std::string& name = functions().at(self).name;
    PyErr_Format(PyExc_TypeError, "%s() takes %s for argument 'self', not None", name.c_str(),
                 name.substr(0, name.find('.')).c_str());
    return true;
}

// Exchanges what the call raised. Where that fails, the error of pybind11 stays.
inline void reword(PyObject* self, const pybind11::tuple& placed, const pybind11::dict& named) {
    const pybind11::error_already_set raised; // takes the error
    try {
        const pybind11::object text = pybind11::module_::import("trt_workbench_native._refusals")
                                          .attr("reworded")(functions().at(self).name, raised.value(), placed, named);
        if (!text.is_none()) {
            pybind11::set_error(PyExc_TypeError, pybind11::str(text).cast<std::string>().c_str());
            return;
        }
    } catch (const std::exception&) {
        PyErr_Clear();
    }
    pybind11::error_already_set{raised}.restore();
}

inline bool is_refusal() {
    return PyErr_ExceptionMatches(PyExc_TypeError) != 0 || PyErr_ExceptionMatches(PyExc_RuntimeError) != 0;
}

inline PyObject* call_fast(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* keys) {
    const Py_ssize_t placed = PyVectorcall_NARGS(static_cast<std::size_t>(count));
    if (placed > 0 && lacks_self(self, given[0])) {
        return nullptr;
    }
    PyObject* result = reinterpret_cast<Fast>(reinterpret_cast<void (*)()>(dispatcher))(self, given, count, keys);
    if (result == nullptr && is_refusal()) {
        pybind11::tuple values(static_cast<std::size_t>(placed));
        for (Py_ssize_t i = 0; i < placed; ++i) {
            values[static_cast<std::size_t>(i)] = pybind11::reinterpret_borrow<pybind11::object>(given[i]);
        }
        const pybind11::dict named;
        for (Py_ssize_t i = 0; keys != nullptr && i < PyTuple_GET_SIZE(keys); ++i) {
            named[pybind11::handle(PyTuple_GET_ITEM(keys, i))] = pybind11::handle(given[placed + i]);
        }
        reword(self, values, named);
    }
    return result;
}

// pybind11 3.0
inline PyObject* call_named(PyObject* self, PyObject* placed, PyObject* named) {
    if (PyTuple_GET_SIZE(placed) > 0 && lacks_self(self, PyTuple_GET_ITEM(placed, 0))) {
        return nullptr;
    }
    PyObject* result = reinterpret_cast<Named>(reinterpret_cast<void (*)()>(dispatcher))(self, placed, named);
    if (result == nullptr && is_refusal()) {
        reword(self, pybind11::reinterpret_borrow<pybind11::tuple>(placed),
               named == nullptr ? pybind11::dict{} : pybind11::reinterpret_borrow<pybind11::dict>(named));
    }
    return result;
}

inline void stand_before(pybind11::handle function, Known known) {
    if (PyInstanceMethod_Check(function.ptr()) != 0) {
        known.is_method = true;
        function = PyInstanceMethod_Function(function.ptr());
    }
    if (PyCFunction_Check(function.ptr()) == 0) {
        return;
    }
    PyMethodDef* const definition = reinterpret_cast<PyCFunctionObject*>(function.ptr())->m_ml;
    PyObject* const self = PyCFunction_GET_SELF(function.ptr());
    if (self == nullptr || !functions().emplace(self, std::move(known)).second) {
        return;
    }
    dispatcher = definition->ml_meth;
    const bool fast = (definition->ml_flags & METH_FASTCALL) != 0;
    definition->ml_meth = fast ? reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call_fast))
                               : reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call_named));
}

inline void walk(pybind11::handle scope, const std::string& prefix) {
    for (const auto& [key, value] : pybind11::dict(scope.attr("__dict__"))) {
        const std::string name = prefix + pybind11::str(key).cast<std::string>();
        if (pybind11::isinstance<pybind11::type>(value)) {
            if (value.attr("__module__").equal(scope.attr(prefix.empty() ? "__name__" : "__module__"))) {
                walk(value, name + ".");
            }
            continue;
        }
        for (const char* const part : {"__func__", "fget", "fset"}) { // of a static method, and of a property
            if (PyInstanceMethod_Check(value.ptr()) == 0 && pybind11::hasattr(value, part)) {
                stand_before(value.attr(part), {name, std::string_view{part} != "__func__"});
            }
        }
        stand_before(value, {name});
    }
}

} // namespace refusals

/// Has every function, method and property that is in the module by now say in one sentence which argument it does not
/// take (trt_workbench_native/_refusals.py). Costs a call next to nothing unless it fails.
inline void reword_refusals(const pybind11::module_& m) {
    refusals::walk(m, "");
}

} // namespace trtw::bindings
