// SPDX-License-Identifier: Apache-2.0
// The option --plot of the verbs that draw: the picture of a verb as a file, as SVG on standard
// output, or as lines of block characters on a terminal.
#pragma once

#include <string>

#include "cli/options.hpp"
#include "figures.hpp"

namespace lm::estimate {

struct PictureFlags {
    std::string path;  // empty: no picture; "-": standard output
    bool force = false;
    // Returns whether standard output gets the picture instead of the figures.
    bool replaces_figures() const { return path == "-"; }
};

struct Picture {
    std::string svg;
    std::string text;  // for a terminal
};

// Declares --plot and --force. `subject` completes the help text: "write a picture: ...".
void add_picture_options(cli::Options& options, PictureFlags& flags, const std::string& subject);

// Throws Error(usage) when the name of the file has no ending of a known format, when its directory
// does not exist, and for "-" with --json.
void check(const PictureFlags& flags, const OutputFlags& output);

// Stores or prints the picture.
void draw(const PictureFlags& flags, const Picture& picture);

}  // namespace lm::estimate
