// The letterbox on the CPU and, where there are CUDA kernels, on the GPU.
#include "bind_vision.hpp"

#include "bind_host_array.hpp"
#include "bind_words.hpp"
#include "bindings.hpp"
#include "trtw/error.hpp"

#ifdef TRTW_WITH_KERNELS
#include "bind_device_array.hpp"
#include "device/scope.hpp"
#include "trtw/detail/stream.hpp"
#include "trtw/letterbox_gpu.hpp"

#include <mutex>
#endif

#include <pybind11/stl.h>

#include <limits>
#include <utility>

namespace py = pybind11;

namespace trtw::bindings {

template <>
struct Spoken<Placement> {
    static inline const Words<Placement> words{
        {"centre", Placement::centre}, {"top-left", Placement::top_left}, {"stretch", Placement::stretch}};
};
template <>
struct Spoken<Rounding> {
    static inline const Words<Rounding> words{{"nearest", Rounding::nearest}, {"down", Rounding::down}};
};
template <>
struct Spoken<Channels> {
    static inline const Words<Channels> words{{"rgb", Channels::rgb}, {"bgr", Channels::bgr}};
};
template <>
struct Spoken<Layout> {
    static inline const Words<Layout> words{{"nchw", Layout::nchw}, {"nhwc", Layout::nhwc}, {"hwc8", Layout::hwc8}};
};
template <>
struct Spoken<Element> {
    static inline const Words<Element> words{
        {"float32", Element::float32}, {"float16", Element::float16}, {"uint8", Element::uint8}};
};

template <>
struct Argument<PerChannel> {
    using Given = PerChannel;
    static PerChannel of(const PerChannel& given, const char* /*name*/) { return given; }
    static py::tuple shown(const PerChannel& values) { return py::make_tuple(values[0], values[1], values[2]); }
};

namespace {

LetterboxSpec make_spec(LetterboxSpec spec, int height, int width) {
    spec.height = height;
    spec.width = width;
    spec.validate();
    return spec;
}

ImageView view_of(const py::array& array) {
    const auto fits = [&](py::ssize_t axis) {
        return array.shape(axis) > 0 && array.shape(axis) <= std::numeric_limits<int>::max();
    };
    const bool is_image = py::isinstance<py::array_t<std::uint8_t>>(array) && array.ndim() == 3 &&
                          array.shape(2) == 3 && fits(0) && fits(1);
    if (!is_image) {
        throw UsageProblem("An image is a uint8 array of [height, width, 3] in BGR; got " +
                           py::str(array.dtype()).cast<std::string>() + " " +
                           py::str(array.attr("shape")).cast<std::string>() + ".");
    }
    return {static_cast<const std::uint8_t*>(array.data()), static_cast<int>(array.shape(0)),
            static_cast<int>(array.shape(1)), static_cast<std::ptrdiff_t>(array.strides(0))};
}

// Rows may lie apart (a crop), pixels and channels may not: anything else is copied.
py::array tight_pixels(const py::handle& value) {
    if (!py::isinstance<py::array>(value)) {
        throw UsageProblem("An image is a numpy array, uint8 of [height, width, 3] in BGR; got " +
                           py::str(py::type::of(value)).cast<std::string>() + ".");
    }
    py::array array = host_array(value, "An image");
    if (array.ndim() == 3 && (array.strides(2) != 1 || array.strides(1) != 3)) {
        array = array.attr("copy")("C");
    }
    return array;
}

py::array letterbox_cpu(const py::object& image, const LetterboxSpec& spec) {
    const py::array pixels = tight_pixels(image);
    const ImageView view = view_of(pixels);
    const Shape batch = batch_shape(1, spec);
    py::array result(py::dtype(element_name(spec.dtype)), std::vector<py::ssize_t>(batch.begin() + 1, batch.end()));
    void* target = result.mutable_data();
    const py::gil_scoped_release unlocked;
    trtw::letterbox_cpu(view, spec, target);
    return result;
}

void bind_spec(py::module_& m) {
    py::class_<LetterboxSpec> spec(m, "LetterboxSpec",
                                   "How a decoded image becomes one item of a model's input tensor.");
    const auto define = [&](const auto& make, const auto&... options) {
        spec.def(py::init(make), py::arg("height"), py::arg("width"), py::kw_only(), options.argument()...);
        (spec.def_property_readonly(
             options.name, [options](const LetterboxSpec& self) { return options.shown(self); }, options.doc),
         ...);
    };
    pass_options(&make_spec, define
#define TRTW_OPTION(name, value, doc, ...) , Field<LetterboxSpec, __VA_ARGS__>{#name, &LetterboxSpec::name, doc}
#include "trtw/letterbox_options.def"
#undef TRTW_OPTION
    );
    spec.def_readonly("height", &LetterboxSpec::height).def_readonly("width", &LetterboxSpec::width);
}

void bind_geometry(py::module_& m) {
    py::class_<Geometry>(m, "LetterboxGeometry", "The position of an image in the input, in pixels.")
        .def_readonly("source_height", &Geometry::source_height)
        .def_readonly("source_width", &Geometry::source_width)
        .def_readonly("new_height", &Geometry::new_height)
        .def_readonly("new_width", &Geometry::new_width)
        .def_readonly("top", &Geometry::top)
        .def_readonly("left", &Geometry::left);
    m.def("letterbox_geometry", &trtw::letterbox_geometry, py::arg("height"), py::arg("width"), py::arg("spec"),
          "Returns the position of an image of height by width pixels.\n\nRaises:\n    UsageProblem: A size is not "
          "positive.");
}

#ifdef TRTW_WITH_KERNELS

class Letterbox {
public:
    static std::unique_ptr<Letterbox> on(LetterboxSpec spec, int device) {
        const DeviceScope scope{device};
        return std::unique_ptr<Letterbox>{new Letterbox{std::move(spec), scope.device()}};
    }

    DeviceArray operator()(const py::sequence& images) {
        const ImageBatch batch = image_batch(images, spec_);
        DeviceArray result;
        result.shape = batch_shape(batch.views.size(), spec_);
        result.dtype = element_name(spec_.dtype);
        result.bytes = batch.views.size() * spec_.item_bytes();
        result.device = device_;
        const py::gil_scoped_release unlocked;
        const std::scoped_lock lock{mutex_};
        const DeviceScope scope{device_};
        result.block = std::make_shared<DeviceMemory>(result.bytes);
        try {
            kernel_.enqueue(batch.views, spec_, result.block->data(), stream_.get());
        } catch (...) {
            // what was enqueued before the failure may still read images and staging memory
            static_cast<void>(cudaStreamSynchronize(stream_.get()));
            throw;
        }
        stream_.synchronize();
        return result;
    }

private:
    Letterbox(LetterboxSpec spec, int device) : spec_{std::move(spec)}, device_{device} {}

    LetterboxSpec spec_;
    int device_;
    Stream stream_;
    LetterboxGpu kernel_;
    std::mutex mutex_;
};

void bind_gpu(py::module_& m) {
    py::class_<Letterbox>(m, "Letterbox", "Letterbox on the GPU without a runner.")
        .def(py::init(&Letterbox::on), py::arg("spec"), py::kw_only(), py::arg("device") = -1)
        .def("__call__", &Letterbox::operator(), py::arg("images"));
}

#else

void bind_gpu(py::module_& /*m*/) {}

#endif

} // namespace

ImageBatch image_batch(const py::sequence& images, const LetterboxSpec& spec) {
    ImageBatch batch;
    batch.spec = spec;
    for (const py::handle image : images) {
        batch.arrays.push_back(tight_pixels(image));
        batch.views.push_back(view_of(batch.arrays.back()));
    }
    if (batch.views.empty()) {
        throw UsageProblem("A batch of images must have at least one image.");
    }
    return batch;
}

Shape batch_shape(std::size_t count, const LetterboxSpec& spec) {
    const auto images = static_cast<std::int64_t>(count);
    return spec.layout == Layout::nchw ? Shape{images, 3, spec.height, spec.width}
                                       : Shape{images, spec.height, spec.width, trtw::pixel_values(spec.layout)};
}

std::string element_name(Element element) {
    return Argument<Element>::shown(element);
}

void bind_vision(py::module_& m) {
    bind_spec(m);
    bind_geometry(m);
    m.def("letterbox_cpu", &letterbox_cpu, py::arg("image"), py::arg("spec"), "Letterboxes one image on the CPU.");
    py::class_<ImageBatch>(m, "ImageBatch", "Images of any sizes as the value of one input.")
        .def(py::init(&image_batch), py::arg("images"), py::arg("spec"))
        .def("__len__", [](const ImageBatch& batch) { return batch.views.size(); })
        .def_property_readonly("shape", [](const ImageBatch& batch) {
            py::list dims;
            for (const std::int64_t dim : batch_shape(batch.views.size(), batch.spec)) {
                dims.append(dim);
            }
            return py::tuple(dims);
        });
    bind_gpu(m);
    bind_head(m);
}

} // namespace trtw::bindings
