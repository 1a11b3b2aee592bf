#include "trtw/detector.hpp"

#include "device/scope.hpp"
#include "run/slot.hpp"
#include "trtw/error.hpp"
#include "vision/head_gpu.hpp"

#include <string>
#include <utility>

namespace trtw {

namespace {

std::vector<HeadTensor> tensors_of(const Plan& plan, const std::function<void*(std::size_t)>& output,
                                   const std::vector<Shape>& shapes) {
    std::vector<HeadTensor> tensors;
    for (std::size_t o = 0; o < plan.outputs().size(); ++o) {
        tensors.push_back({output(o), plan.outputs()[o].dtype, shapes[o]});
    }
    return tensors;
}

void check_places(const HeadSpec& spec, const Plan& plan) {
    for (const HeadPlace& place : {spec.boxes, spec.scores, spec.objectness, spec.labels, spec.more, spec.planes}) {
        const auto output = static_cast<std::size_t>(place[0]);
        if (output < plan.outputs().size() && plan.outputs()[output].on_host) {
            throw UsageProblem("Output '" + plan.outputs()[output].name +
                               "' is written to host memory by TensorRT; its boxes cannot be read on the device.");
        }
    }
}

} // namespace

Detector::Detector(std::shared_ptr<const Plan> plan, RunnerOptions options, HeadSpec spec,
                   std::function<void()> while_waiting)
    : spec_{std::move(spec)} {
    check_places(spec_, *plan);
    const auto make_slot = [&](int /*slot*/) {
        HeadGpu& head = *heads_.emplace_back(std::make_unique<HeadGpu>(spec_));
        Surroundings surroundings;
        surroundings.after = [&head, plan = plan.get()](const auto& output, const auto& shapes, cudaStream_t stream) {
            return head.enqueue(tensors_of(*plan, output, shapes), stream);
        };
        return std::make_unique<Slot>(plan, options, std::move(surroundings));
    };
    runner_ = std::make_unique<Runner>(plan, options, std::move(while_waiting), make_slot);
}

Detector::~Detector() {
    const DeviceScope scope{runner_->plan().device(), std::nothrow};
    runner_.reset();
    heads_.clear();
}

std::vector<FoundBoxes> Detector::found(const Runner::Finished& finished) const {
    const Output& boxes = finished.outputs()[static_cast<std::size_t>(spec_.boxes[0])];
    return heads_[static_cast<std::size_t>(finished.slot())]->found(static_cast<int>(boxes.shape.front()));
}

} // namespace trtw
