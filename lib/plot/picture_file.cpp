// SPDX-License-Identifier: Apache-2.0
#include "plot/picture_file.hpp"

#include <vector>

#include "base/error.hpp"
#include "io/output_place.hpp"
#include "io/program.hpp"

namespace lm::plot {
namespace {

// Returns the PNG into which an installed program converts the file `svg`; empty when no program
// works.
std::string png_of(const std::string& svg) {
    const std::vector<std::vector<std::string>> commands = {
        {"rsvg-convert", "--dpi-x=300", "--dpi-y=300", svg},
        {"inkscape", "--export-type=png", "--export-filename=-", "--export-dpi=300", svg},
        {"magick", "-density", "300", "svg:" + svg, "png:-"},
        {"convert", "-density", "300", "svg:" + svg, "png:-"}};
    for (const std::vector<std::string>& words : commands) {
        io::ProgramResult result = io::run_program(words);
        // Another program may have the same name, so this checks that the output is a PNG (RFC
        // 2083, section 3.1).
        const bool is_png = result.output.starts_with("\x89PNG\r\n");
        if (result.code == 0 && is_png) return std::move(result.output);
    }
    return "";
}

}  // namespace

void check_picture_path(std::string_view option, const std::string& path) {
    if (path == "-" || path.ends_with(".svg") || path.ends_with(".png")) return;
    usage_error(option, "expected a name that ends with .svg or .png, got {}", path);
}

void save_picture(const std::string& path, const std::string& svg, io::Overwrite overwrite) {
    io::require_parent(path);
    io::AtomicFile file = io::AtomicFile::create(path, overwrite);
    if (!path.ends_with(".png")) {
        file.write(svg);
        file.commit();
        return;
    }
    // `source` is never committed. The converter reads the temporary file of `source`, and the
    // destructor removes this file.
    io::AtomicFile source = io::AtomicFile::create(path + ".svg", io::Overwrite::yes);
    source.write(svg);
    source.sync();
    const std::string png = png_of(source.temporary());
    if (png.empty()) {
        run_error(path,
                  "no program converts SVG to PNG: install rsvg-convert (Debian: librsvg2-bin), "
                  "or give a name that ends with .svg");
    }
    file.write(png);
    file.commit();
}

}  // namespace lm::plot
