// What detectors' outputs say, on the CPU and, where there are CUDA kernels, on the GPU.
#include "bind_host_array.hpp"
#include "bind_vision.hpp"
#include "bind_words.hpp"
#include "trtw/error.hpp"
#include "trtw/head.hpp"

#ifdef TRTW_WITH_KERNELS
#include "device/check.hpp"
#include "device/scope.hpp"
#include "trtw/detail/stream.hpp"
#include "vision/head_gpu.hpp"
#endif

#include <pybind11/stl.h>

#include <algorithm>
#include <utility>

namespace py = pybind11;

namespace trtw::bindings {

template <>
struct Spoken<HeadKind> {
    static inline const Words<HeadKind> words{
        {"pairs", HeadKind::pairs}, {"best", HeadKind::best}, {"cells", HeadKind::cells}, {"rows", HeadKind::rows}};
};
template <>
struct Spoken<BoxForm> {
    static inline const Words<BoxForm> words{
        {"corners", BoxForm::corners}, {"centre", BoxForm::centre}, {"shares", BoxForm::shares}};
};
template <>
struct Spoken<HeadEncoding> {
    static inline const Words<HeadEncoding> words{
        {"by-value", HeadEncoding::by_value}, {"raw", HeadEncoding::raw}, {"decoded", HeadEncoding::decoded}};
};

template <>
struct Argument<HeadPlace> {
    using Given = HeadPlace;
    static HeadPlace of(const HeadPlace& given, const char* /*name*/) { return given; }
    static py::tuple shown(const HeadPlace& place) { return py::make_tuple(place[0], place[1], place[2], place[3]); }
};

namespace {

HeadSpec make_spec(HeadSpec spec, int height, int width, int items, int classes) {
    spec.height = height;
    spec.width = width;
    spec.items = items;
    spec.classes = classes;
    spec.validate();
    return spec;
}

/// Arrays in host memory as outputs of a call, without gaps.
struct HostOutputs {
    explicit HostOutputs(const py::sequence& given) {
        for (const py::handle value : given) {
            const py::array array = arrays.emplace_back(host_array(value, "An output", {}, true));
            tensors.push_back({arrays.back().data(), py::str(array.dtype().attr("name")),
                               Shape(array.shape(), array.shape() + array.ndim())});
        }
    }

    std::vector<py::array> arrays;
    std::vector<HeadTensor> tensors;
};

py::list find_boxes_cpu(const HeadSpec& spec, const py::sequence& outputs) {
    const HostOutputs given{outputs};
    const std::vector<FoundBoxes> found = [&] {
        const py::gil_scoped_release unlocked;
        return trtw::find_boxes_cpu(spec, given.tensors);
    }();
    return boxes_of(found, spec);
}

#ifdef TRTW_WITH_KERNELS

std::vector<FoundBoxes> found_on_gpu(const HeadSpec& spec, std::vector<HeadTensor> tensors) {
    const DeviceScope scope{-1};
    const Stream stream;
    std::vector<DeviceBuffer> buffers(tensors.size());
    HeadGpu head{spec};
    for (std::size_t o = 0; o < tensors.size(); ++o) {
        HeadTensor& tensor = tensors[o];
        const std::size_t wide = tensor.dtype == "int64" ? 8 : tensor.dtype == "float16" ? 2 : 4;
        const std::size_t bytes = static_cast<std::size_t>(volume(tensor.shape)) * wide;
        buffers[o].reserve(bytes);
        TRTW_CUDA(cudaMemcpyAsync(buffers[o].data(), tensor.data, bytes, cudaMemcpyHostToDevice, stream.get()));
        tensor.data = buffers[o].data();
    }
    for (int turn = 0; turn < 2; ++turn) { // the second finds the memory as the first has left it
        head.enqueue(tensors, stream.get());
        stream.synchronize();
    }
    return head.found(static_cast<int>(tensors.at(static_cast<std::size_t>(spec.boxes[0])).shape.front()));
}

py::list find_boxes_gpu(const HeadSpec& spec, const py::sequence& outputs) {
    const HostOutputs given{outputs};
    const std::vector<FoundBoxes> found = [&] {
        const py::gil_scoped_release unlocked;
        return found_on_gpu(spec, given.tensors);
    }();
    return boxes_of(found, spec);
}

#endif

} // namespace

py::list boxes_of(const std::vector<FoundBoxes>& found, const HeadSpec& spec) {
    py::list images;
    for (const FoundBoxes& image : found) {
        if (image.odd) {
            images.append(py::none());
            continue;
        }
        const auto count = static_cast<py::ssize_t>(image.boxes.size());
        py::array_t<float> boxes({count, py::ssize_t{4}});
        py::array_t<float> scores(count);
        py::array_t<std::int64_t> labels(count);
        for (py::ssize_t at = 0; at < count; ++at) {
            const FoundBox& box = image.boxes[static_cast<std::size_t>(at)];
            std::copy(box.corners.begin(), box.corners.end(), boxes.mutable_data(at, 0));
            *scores.mutable_data(at) = box.score;
            *labels.mutable_data(at) = box.label;
        }
        py::list one;
        one.append(std::move(boxes));
        one.append(std::move(scores));
        one.append(std::move(labels));
        if (spec.values > 0) {
            py::array_t<float> more({count, py::ssize_t{spec.values}});
            std::ranges::copy(image.more, more.mutable_data());
            one.append(std::move(more));
        }
        if (spec.planes[0] >= 0) {
            one.append(py::array_t<std::uint32_t>(static_cast<py::ssize_t>(image.masks.size()), image.masks.data()));
        }
        images.append(py::tuple(std::move(one)));
    }
    return images;
}

void bind_head(py::module_& m) {
    py::class_<HeadSpec> spec(m, "HeadSpec", "How a detector's outputs become boxes.");
    const auto define = [&](const auto& make, const auto&... options) {
        spec.def(py::init(make), py::arg("height"), py::arg("width"), py::arg("items"), py::arg("classes"),
                 py::kw_only(), options.argument()...);
        (spec.def_property_readonly(
             options.name, [options](const HeadSpec& self) { return options.shown(self); }, options.doc),
         ...);
    };
    pass_options(&make_spec, define
#define TRTW_OPTION(name, value, doc, ...) , Field<HeadSpec, __VA_ARGS__>{#name, &HeadSpec::name, doc}
#include "trtw/head_options.def"
#undef TRTW_OPTION
    );
    spec.def_readonly("height", &HeadSpec::height)
        .def_readonly("width", &HeadSpec::width)
        .def_readonly("items", &HeadSpec::items)
        .def_readonly("classes", &HeadSpec::classes);
    m.def("find_boxes_cpu", &find_boxes_cpu, py::arg("spec"), py::arg("outputs"),
          "Finds the boxes of each image in outputs in host memory; None where they hold something odd.");
#ifdef TRTW_WITH_KERNELS
    m.def("find_boxes_gpu", &find_boxes_gpu, py::arg("spec"), py::arg("outputs"),
          "The same by the kernels that a Detector runs behind an engine.");
#endif
}

} // namespace trtw::bindings
