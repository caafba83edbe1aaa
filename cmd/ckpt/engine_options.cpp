// SPDX-License-Identifier: Apache-2.0
#include "engine_options.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "config/tokenizer_flags.hpp"
#include "io/file.hpp"

namespace lm::ckpt_tool {

void add_engine_options(cli::Options& options, EngineArgs& args) {
    options.group("Model");
    options.choice(
        "--dtype", &args.dtype, {"fp32", "bf16", "fp16"},
        "type of the matrices in memory; default: the type in CKPT; sums are always fp32");
    options.value("--memory", &args.memory, "SIZE",
                  "memory that weights may use; layers that do not fit are read again for each "
                  "token; default: four fifths of the free memory");
    options.value("--threads", &args.n_threads, "N", "threads; 0: one per core");
    config::add_tokenizer_options(
        options, args.tokenizer,
        "default: the tokenizer in CKPT, or the tokenizer with which CKPT was trained");
}

std::unique_ptr<eval::Engine> load_engine(const ckpt::TensorSource& tensors,
                                          const EngineArgs& args) {
    eval::EngineOptions options;
    options.n_threads = static_cast<int>(args.n_threads);
    if (args.memory) {
        check_at_least("--memory", args.memory->value, 1);
        options.memory = args.memory->value;
    }
    if (!args.dtype.empty()) options.dtype = dtype_from_name(args.dtype);
    auto engine = eval::open_engine(tensors, options);
    const eval::Residency& residency = engine->residency();
    if (residency.n_layers_read > 0) {
        const double seconds =
            static_cast<double>(residency.bytes_read) / std::max(residency.bytes_per_s, 1.0);
        note(
            "{}: the weights need {}, but only {} fit ({}): {} of {} layers ({}) are read from the "
            "files again for each token; estimated time for each token: {}",
            tensors.path(), human_size(residency.bytes), human_size(residency.limit),
            residency.whose, residency.n_layers_read, tensors.model().n_layers,
            human_size(residency.bytes_read), human_duration(seconds));
    }
    return engine;
}

void for_each_line(const std::string& path, const std::function<void(const RequestLine&)>& visit) {
    const bool standard = path == "-";
    if (!standard && !io::exists(path)) usage_error(path, "does not exist: give a JSON Lines file");
    const std::string name = standard ? "standard input" : path;
    std::ifstream file;
    if (!standard) {
        file.open(path);
        if (!file) run_error(path, "cannot be opened: {}", std::strerror(errno));
    }
    std::istream& lines = standard ? std::cin : file;
    bool found = false;
    i64 number = 0;
    for (std::string line; std::getline(lines, line);) {
        ++number;
        if (line.find_first_not_of(" \t\r") == line.npos) continue;
        found = true;
        visit({fmt::format("{}:{}", name, number), std::move(line)});
    }
    if (lines.bad()) run_error(name, "cannot be read: {}", std::strerror(errno));
    if (!found) usage_error(name, "has no JSON object: give one in each line");
}

}  // namespace lm::ckpt_tool
