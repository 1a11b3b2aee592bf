// Specifications of letterboxes that several tests use.
#pragma once

#include "trtw/letterbox.hpp"

/// Grey levels as they are in the image: its order of channels and memory, nothing normalised.
inline trtw::LetterboxSpec grey_level_spec(int height, int width) {
    using namespace trtw;
    LetterboxSpec spec;
    spec.height = height;
    spec.width = width;
    spec.scale = 1.0;
    spec.channels = Channels::bgr;
    spec.layout = Layout::nhwc;
    spec.dtype = Element::uint8;
    return spec;
}
