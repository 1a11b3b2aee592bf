// JPEG files decoded on the GPU. Without CUDA there is nothing here: the file is part of every build.
#include "bind_vision.hpp"

#ifdef TRTW_WITH_CUDA
#include "bind_device_array.hpp"
#include "vision/jpeg_decoder.hpp"

#include <pybind11/stl.h>

#include <string_view>
#endif

namespace py = pybind11;

namespace trtw::bindings {

#ifdef TRTW_WITH_CUDA

namespace {

std::optional<DeviceArray> decode(JpegDecoder& decoder, const py::bytes& file) {
    const std::string_view content{file};
    const py::gil_scoped_release unlocked;
    std::optional<DecodedImage> image =
        decoder.decode({reinterpret_cast<const std::uint8_t*>(content.data()), content.size()});
    if (!image) {
        return std::nullopt;
    }
    DeviceArray array;
    array.shape = {image->height, image->width, 3};
    array.dtype = "uint8";
    array.bytes = static_cast<std::size_t>(image->height) * static_cast<std::size_t>(image->width) * 3;
    array.device = decoder.device();
    array.block = std::move(image->block);
    return array;
}

std::unique_ptr<JpegDecoder> open_decoder(const std::string& library, int device) {
    const py::gil_scoped_release unlocked;
    return std::make_unique<JpegDecoder>(library, device);
}

} // namespace

void bind_jpeg(py::module_& m) {
    py::class_<JpegDecoder>(m, "JpegDecoder", "Decodes JPEG files on the GPU, by nvJPEG.")
        .def(py::init(&open_decoder), py::arg("library"), py::kw_only(), py::arg("device") = -1)
        .def("__call__", &decode, py::arg("file"),
             "Returns the pixels, uint8 [height, width, 3] in BGR, or None of a file that nvJPEG does not decode.")
        .def_property_readonly("device", &JpegDecoder::device)
        .def_property_readonly("version", &JpegDecoder::version);
}

#else

void bind_jpeg(py::module_& /*m*/) {}

#endif

} // namespace trtw::bindings
