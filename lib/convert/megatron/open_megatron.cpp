// SPDX-License-Identifier: Apache-2.0
#include "convert/megatron/open_megatron.hpp"

#include <algorithm>

#include "convert/megatron/dist_checkpoint.hpp"
#include "convert/megatron/from_megatron_deepspeed.hpp"
#include "convert/megatron/from_megatron_lm.hpp"
#include "convert/megatron/from_universal.hpp"
#include "io/file.hpp"

namespace lm::convert {
namespace {

// Returns the iteration in the name of a step; -1 when `name` is not the name of a step.
i64 iteration_of(std::string_view name) {
    for (const std::string_view prefix : {"iter_", "global_step"}) {
        if (!name.starts_with(prefix)) continue;
        std::string_view digits = name.substr(prefix.size());
        constexpr std::string_view universal = "_universal";
        if (digits.ends_with(universal)) digits.remove_suffix(universal.size());
        if (const std::optional<i64> number = parse_number(digits)) return *number;
    }
    return -1;
}

// Returns the iteration that a tracker file in the directory names; -1 when there is none.
i64 latest_of(const std::string& directory) {
    for (const char* tracker :
         {"latest_checkpointed_iteration.txt", "latest", "latest_universal"}) {
        const std::string file = directory + "/" + tracker;
        if (!io::exists(file)) continue;
        std::string text = io::read_file(file);
        std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
        const i64 named = iteration_of(text);
        return named >= 0 ? named : iteration_of("iter_" + text);
    }
    return -1;
}

}  // namespace

bool is_megatron_checkpoint(const std::string& path) {
    return is_megatron_deepspeed(path) || is_megatron_lm(path);
}

MegatronImport open_megatron(const ConversionRequest& request) {
    return is_megatron_deepspeed(request.in) ? open_megatron_deepspeed(request)
                                             : open_megatron_lm(request);
}

std::unique_ptr<ckpt::TensorSource> open_megatron_tensors(const std::string& path,
                                                          bool weights_only) {
    ConversionRequest request;
    request.in = path;
    request.weights_only = weights_only;
    const MegatronImport import = open_megatron(request);
    // Universal checkpoints of DeepSpeed have only masters. Their weights are the rounded masters.
    return open_tensors({.path = path,
                         .import = import.sources(),
                         .weights = import.weights(),
                         .iteration = import.head().iteration,
                         .rounds = true});
}

std::vector<MegatronStep> megatron_steps(const std::string& directory) {
    std::vector<MegatronStep> steps;
    const i64 latest = latest_of(directory);
    for (const std::string& name : io::list_directory(directory)) {
        const std::string path = directory + "/" + name;
        const i64 iteration = iteration_of(name);
        if (iteration < 0 || !is_megatron_checkpoint(path)) continue;
        steps.push_back({path, iteration, iteration == latest});
    }
    std::ranges::sort(steps, {}, &MegatronStep::iteration);
    if (steps.empty()) {
        const std::string name = directory.substr(directory.rfind('/') + 1);
        steps.push_back({directory, std::max<i64>(iteration_of(name), 0), false});
    }
    return steps;
}

std::string_view megatron_layout(const std::string& step) {
    if (is_torch_dist(step)) return "torch_dist";
    if (!is_megatron_deepspeed(step)) return "torch";
    return is_universal(step) ? "universal" : "deepspeed";
}

}  // namespace lm::convert
