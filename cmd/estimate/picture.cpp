// SPDX-License-Identifier: Apache-2.0
#include "picture.hpp"

#include "base/error.hpp"
#include "cli/main.hpp"
#include "cli/terminal.hpp"
#include "io/output_place.hpp"
#include "plot/picture_file.hpp"

namespace lm::estimate {

void add_picture_options(cli::Options& options, PictureFlags& flags, const std::string& subject) {
    options.group("Picture");
    options.value("--plot", &flags.path, "FILE",
                  "write a picture, .svg or .png: " + subject +
                      "; -: print the picture instead of the figures, as characters on a terminal, "
                      "otherwise as SVG");
    options.flag("--force", &flags.force, "replace an existing FILE of --plot");
}

void check(const PictureFlags& flags, const OutputFlags& output) {
    if (flags.path.empty()) return;
    plot::check_picture_path("--plot", flags.path);
    if (flags.path == "-" && output.json) {
        usage_error("--plot", "- and --json both need standard output: give a file");
    }
    if (flags.path != "-") io::require_parent(flags.path);
}

void draw(const PictureFlags& flags, const Picture& picture) {
    if (flags.path == "-") {
        cli::write_stdout(cli::stdout_is_terminal() ? picture.text : picture.svg);
        return;
    }
    plot::save_picture(flags.path, picture.svg,
                       flags.force ? io::Overwrite::yes : io::Overwrite::no);
}

}  // namespace lm::estimate
