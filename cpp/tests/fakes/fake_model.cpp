#include "fake_model.hpp"

#include <algorithm>

namespace fake {

TensorInfo input(const std::string& name, std::int64_t elements) {
    TensorInfo tensor = output(name, elements);
    tensor.is_input = true;
    const std::int64_t least = elements < 0 ? 1 : elements;
    const std::int64_t most = elements < 0 ? 8 : elements;
    tensor.profiles = {trtw::ProfileRange{{least}, {most}, {most}}};
    return tensor;
}

TensorInfo output(const std::string& name, std::int64_t elements, const std::string& aliased_input) {
    TensorInfo tensor;
    tensor.name = name;
    tensor.dtype = "float32";
    tensor.bits = 32;
    tensor.shape = {elements};
    tensor.aliased_input = aliased_input;
    return tensor;
}

Model model(const std::string& name, std::int64_t elements) {
    if (name == "recurrent") {
        return {{input("x", elements), input("h", elements), output("y", elements), output("h_next", elements)},
                [](const std::vector<Values>& in, float weight) {
                    Values y = in[0];
                    Values next = in[0];
                    for (std::size_t i = 0; i < y.size(); ++i) {
                        y[i] += in[1][i] + weight;
                        next[i] += in[1][i];
                    }
                    return std::vector<Values>{y, next};
                }};
    }
    if (name == "twice") {
        return {{input("x", elements), output("y", elements)}, [](const std::vector<Values>& in, float weight) {
                    Values y = in[0];
                    std::transform(y.begin(), y.end(), y.begin(), [&](float x) { return 2 * x + weight; });
                    return std::vector<Values>{y};
                }};
    }
    return {};
}

} // namespace fake
