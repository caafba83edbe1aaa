// SPDX-License-Identifier: Apache-2.0
#include "layout_flags.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "config/train_flags.hpp"
#include "io/program.hpp"

namespace lm::estimate {
namespace {

using Granularity = spec::Recompute::Granularity;

// The options that every layout sets itself, and the number of ranks, which the launcher sets.
constexpr std::array set_by_layout = {"--tensor-model-parallel-size",
                                      "--pipeline-model-parallel-size",
                                      "--micro-batch-size",
                                      "--num-virtual-stages-per-pipeline-rank",
                                      "--num-layers-per-virtual-pipeline-stage",
                                      "--sequence-parallel",
                                      "--recompute-granularity",
                                      "--recompute-method",
                                      "--recompute-num-layers",
                                      "--recompute-activations",
                                      "--checkpoint-activations",
                                      "--checkpoint-num-layers",
                                      "--use-distributed-optimizer",
                                      "--zero-stage",
                                      "--world-size"};

constexpr std::array of_hardware = {
    "--gpu",     "--hardware", "--gpus-per-node",     "--node-bandwidth",
    "--network", "--nics",     "--network-bandwidth", "--allowance"};

bool contains(const auto& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
}

// Returns `text` as one word for a shell, in quotes where these are necessary.
std::string word_of(const std::string& text) {
    constexpr std::string_view plain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=+%@";
    const bool is_plain = !text.empty() && text.find_first_not_of(plain) == text.npos;
    return is_plain ? text : io::shell_quoted(text);
}

std::string words_of(const cli::Options::Occurrence& option) {
    // A value that begins with a dash could be read as an option.
    if (option.values.size() == 1 && option.values[0].starts_with('-'))
        return fmt::format("{}={}", option.name, word_of(option.values[0]));
    std::string text = option.name;
    for (const std::string& value : option.values) text += " " + word_of(value);
    return text;
}

std::set<std::string> names_of_lm_train() {
    cli::Options options("lm-train", "");
    config::TrainFlags flags;
    config::add_train_options(options, flags);
    std::set<std::string> names;
    for (const cli::Option& option : options.table()) names.insert(option.name());
    return names;
}

void add_recompute(std::vector<std::string>& words, const spec::Recompute& recompute) {
    if (recompute.granularity == Granularity::none) return;
    words.push_back(fmt::format("--recompute-granularity {}",
                                name_in(spec::recompute_granularities, recompute.granularity)));
    if (recompute.granularity != Granularity::full) return;
    words.push_back(
        fmt::format("--recompute-method {}", name_in(spec::recompute_methods, recompute.method)));
    if (recompute.n_layers != 1)
        words.push_back(fmt::format("--recompute-num-layers {}", recompute.n_layers));
}

}  // namespace

std::string train_flags(const cli::Options& options, const cost::LayoutQuery& query,
                        const cost::Layout& layout) {
    static const std::set<std::string> of_lm_train = names_of_lm_train();
    std::vector<std::string> words;
    for (const cli::Options::Occurrence& option : options.occurrences()) {
        if (of_lm_train.contains(option.name) && !contains(set_by_layout, option.name))
            words.push_back(words_of(option));
    }
    const spec::ParallelConfig& parallel = layout.parallel;
    words.push_back(fmt::format(
        "--tensor-model-parallel-size {} --pipeline-model-parallel-size {} --micro-batch-size {}",
        parallel.tp, parallel.pp, layout.micro_batch));
    if (parallel.n_chunks > 1)
        words.push_back(
            fmt::format("--num-virtual-stages-per-pipeline-rank {}", parallel.n_chunks));
    // The search has chosen another division of the layers than the command line states.
    if (parallel.balance != query.parallel.balance)
        words.emplace_back("--pp-partition-method 'type:transformer|embedding'");
    if (parallel.sequence_parallel) words.emplace_back("--sequence-parallel");
    add_recompute(words, parallel.recompute);
    if (parallel.zero_stage == 1) words.emplace_back("--use-distributed-optimizer");
    return fmt::format("{}", fmt::join(words, " "));
}

std::string time_flags(const cost::LayoutQuery& query, const GpuFlags& flags) {
    std::vector<std::string> words = {fmt::format("--gpus {}", query.n_gpus)};
    if (flags.hardware_file.empty()) words.push_back("--gpu " + flags.gpu);
    for (const cli::Options::Occurrence& option : flags.options->occurrences()) {
        if (contains(of_hardware, option.name) && option.name != "--gpu")
            words.push_back(words_of(option));
    }
    words.push_back("--trainer " + flags.trainer);
    return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace lm::estimate
