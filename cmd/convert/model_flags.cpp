// SPDX-License-Identifier: Apache-2.0
#include "model_flags.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "base/error.hpp"
#include "config/model_fields.hpp"

namespace lm {
namespace {

using Fields = config::Fields<config::ModelFlags>;

// Returns the flags of lm-train that describe a model, but for --vocab-size, which every import of
// Megatron has.
const Fields& model_fields() {
    static const Fields fields = [] {
        Fields all;
        for (const Fields* some :
             {&config::shape_fields(), &config::kind_fields(), &config::initial_fields()}) {
            std::ranges::copy_if(*some, std::back_inserter(all), [&](const auto& field) {
                const bool initial = some == &config::initial_fields();
                return !field.option.empty() && (!initial || (field.block == config::Block::model &&
                                                              field.option != "--vocab-size"));
            });
        }
        return all;
    }();
    return fields;
}

}  // namespace

void add_model_flags(cli::Options& options, config::ModelFlags& flags) {
    options.group("Model of a Megatron checkpoint without arguments");
    const size_t first = options.table().size();
    declare(options, model_fields(), flags);
    options.accepted("--fp16", 0, "the weights keep their type");
    options.accepted("--bf16", 0, "the weights keep their type");
    options.describe_only(
        {"--num-layers", "--hidden-size", "--num-attention-heads", "--max-position-embeddings"},
        first);
}

std::string given_model_flag(const cli::Options& options) {
    for (const auto& given : options.occurrences()) {
        const auto is_given = [&](const auto& field) { return field.flag() == given.name; };
        if (std::ranges::any_of(model_fields(), is_given)) return given.name;
    }
    return {};
}

spec::ModelConfig complete_model(config::ModelFlags flags, const spec::ModelConfig& stated,
                                 const std::string& path) {
    std::vector<std::string_view> missing;
    const auto require = [&](std::string_view flag, bool known) {
        if (!known) missing.push_back(flag);
    };
    require("--num-layers", flags.n_layers || stated.n_layers > 0);
    require("--hidden-size", flags.hidden || stated.hidden > 0);
    require("--num-attention-heads", flags.n_heads || stated.n_heads > 0);
    require("--max-position-embeddings",
            flags.max_positions || flags.seq_length || stated.max_positions > 0);
    if (!missing.empty()) {
        usage_error(path,
                    "does not state the arguments of its training: give {}, and the other flags of "
                    "the model that were not at their defaults",
                    fmt::join(missing, ", "));
    }
    if (!flags.seq_length && stated.seq_length == 0) flags.seq_length = flags.max_positions;
    flags.saved = stated;
    return config::resolve_model(flags);
}

}  // namespace lm
