// SPDX-License-Identifier: Apache-2.0
#include "usage_rules.hpp"

#include <map>
#include <string_view>

#include "base/error.hpp"

namespace lm {
namespace {

using convert::Format;
using convert::ModelFormat;

// Returns the last part of a path: "global_step8" of "ckpts/global_step8/".
std::string last_part(std::string path) {
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    return path.substr(path.rfind('/') + 1);
}

void refuse(const cli::Options& options, std::string_view option, std::string_view where,
            std::string_view got) {
    if (!options.given(option)) return;
    usage_error(option, "is valid only {}, got {}: omit the option", where, got);
}

}  // namespace

void refuse_empty_paths(const cli::Options& options, const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
        if (!path.empty()) continue;
        const bool out = &path != &paths.front() && !options.given("--output-dir");
        usage_error(out ? "OUT" : "IN", "is empty: give {}",
                    out ? "the directory to create" : "a checkpoint or a Hugging Face model");
    }
}

void refuse_unused_options(const cli::Options& options, const ModelFormat& from,
                           const ModelFormat& to) {
    const std::string target = fmt::format("--to {}", name_of(to));
    const std::string source = fmt::format("IN in the format {}", name_of(from));
    if (!to.is_megatron()) {
        constexpr std::string_view where = "with --to megatron-lm or megatron-deepspeed";
        refuse(options, "--tensor-model-parallel-size", where, target);
        refuse(options, "--pipeline-model-parallel-size", where, target);
        refuse(options, "--make-vocab-size-divisible-by", where, target);
    }
    if (to != Format::megatron_lm) {
        refuse(options, "--transformer-impl", "with --to megatron-lm", target);
    }
    if (!to.is_hugging_face()) {
        constexpr std::string_view where = "when OUT is a Hugging Face model";
        refuse(options, "--format", where, target);
        refuse(options, "--max-shard-size", where, target);
        if (!options.given("--check")) {
            refuse(options, "--tokenizer", "when OUT is a Hugging Face model, or with --check",
                   target);
        }
    }
    if (!from.is_megatron()) {
        refuse(options, "--vocab-size", "when IN is a checkpoint of Megatron", source);
    } else {
        refuse(options, "--dtype", "when IN is not a Megatron checkpoint (its types are kept)",
               source);
    }
}

void refuse_options_of_conversions(const cli::Options& options) {
    for (const char* option :
         {"--to", "--from", "--dtype", "--vocab-size", "--tensor-model-parallel-size",
          "--pipeline-model-parallel-size", "--make-vocab-size-divisible-by", "--transformer-impl",
          "--format", "--max-shard-size", "--output-dir", "--force"}) {
        refuse(options, option, "for a conversion", "--against, which writes nothing");
    }
}

std::vector<std::string> outputs_in(const std::string& output_dir,
                                    const std::vector<std::string>& inputs) {
    std::vector<std::string> outputs;
    std::map<std::string, std::string> input_of;
    for (const std::string& input : inputs) {
        const std::string name = last_part(input);
        if (name.empty() || name == "." || name == "..") {
            usage_error(
                input,
                "expected a path that ends with a name, such as runs/model: the output in {} "
                "gets this name",
                output_dir);
        }
        const auto [other, added] = input_of.emplace(name, input);
        if (!added) {
            usage_error(input,
                        "has the same name as {}: convert this input in a call with another {}",
                        other->second, "--output-dir");
        }
        outputs.push_back(output_dir + (output_dir.ends_with('/') ? "" : "/") + name);
    }
    return outputs;
}

}  // namespace lm
