// SPDX-License-Identifier: Apache-2.0
// Stores a picture as SVG, or as PNG by an installed program.
#pragma once

#include <string>
#include <string_view>

#include "io/atomic.hpp"

namespace lm::plot {

// Throws Error(usage) naming `option` unless `path` ends with .svg or .png or is "-".
void check_picture_path(std::string_view option, const std::string& path);

// Writes the document `svg` to `path`, which appears only when it is complete. If `path` ends with
// .png, converts the document at 300 dots per inch with the first program that works: rsvg-convert,
// inkscape, magick, convert. Throws Error(failure) when no program works, and Error(usage) for an
// existing file with Overwrite::no.
void save_picture(const std::string& path, const std::string& svg, io::Overwrite overwrite);

}  // namespace lm::plot
