// SPDX-License-Identifier: Apache-2.0
#include "train/start/compare_ranks.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>

#include "base/hash.hpp"
#include "base/version.hpp"
#include "data/indexed/dataset_identity.hpp"
#include "data/indexed/indexed_dataset.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "parallel/same_facts.hpp"
#include "parallel/together.hpp"
#include "train/config/run_json.hpp"

namespace lm::train {
namespace {

using parallel::Fact;
using parallel::FactGroup;

// The variables that change the numbers of a run or how its ranks connect. Not compared: LM_HOST,
// LM_RENDEZVOUS_TOKEN, LM_SHARE_DIR and LM_PLUGIN_DIR name a host and places, and LM_IO_FAULT and
// LM_STEP_FAULT plant the faults of tests.
constexpr std::array variables{
    "LM_PROCESSOR", "ONEDNN_MAX_CPU_ISA", "LM_NCCL_RANKS_PER_ROOT",  "NCCL_ALGO",
    "NCCL_PROTO",   "NCCL_NVLS_ENABLE",   "CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE"};

FactGroup program_facts(const std::vector<cli::Options::Setting>& flags) {
    std::string names;
    for (const auto& [name, value] : flags) names += name + " ";
    return {"start the same build of lm-train on all hosts",
            {{"version", std::string(version())},
             {"options", digest(names), fmt::format("a table of {} options", flags.size())}}};
}

FactGroup environment_facts() {
    FactGroup group{"give all ranks the same environment", {}};
    for (const char* name : variables) {
        const char* const value = std::getenv(name);
        group.facts.push_back({name, value != nullptr ? value : ""});
    }
    return group;
}

const OwnOfRank* own_of_rank(std::string_view flag) {
    const auto found = std::ranges::find(flags_of_ranks(), flag, &OwnOfRank::flag);
    return found == flags_of_ranks().end() ? nullptr : &*found;
}

FactGroup flag_facts(const std::vector<cli::Options::Setting>& flags) {
    FactGroup group{"give all ranks the same flags", {}};
    for (const auto& [name, value] : flags) {
        const OwnOfRank* const own = own_of_rank(name);
        if (own == nullptr) {
            group.facts.push_back({name, value});
        } else if (own->what == MayDiffer::where_given) {
            group.facts.push_back({name, value.empty() ? "" : "given"});
        }
    }
    return group;
}

std::string flag_of(std::string key) {
    std::ranges::replace(key, '_', '-');
    return "--" + key;
}

// The values of to_json() that follow from flags. The other keys are the command line, and values
// that follow from the cores of a host.
FactGroup configuration_facts(const RunConfig& config) {
    FactGroup group{
        "the flags are the same, so give all hosts the same files that they name, such as "
        "--deepspeed_config and the metadata files of the data",
        {}};
    const auto add = [&group](const std::string& key, const io::OrderedJson& value) {
        if (const std::string flag = flag_of(key); own_of_rank(flag) == nullptr)
            group.facts.push_back({flag, value.dump()});
    };
    const io::OrderedJson json = to_json(config);
    for (const auto& [key, value] : json.items()) {
        if (key == "command_line" || key == "memory_bytes") continue;
        if (!value.is_object()) {
            add(key, value);
            continue;
        }
        for (const auto& [inner, member] : value.items()) add(inner, member);
    }
    group.facts.push_back({"tokenizer", config.tokenizer.digest});
    return group;
}

// Collects the facts of the datasets, each under the flag that names it.
class DataFacts {
  public:
    explicit DataFacts(const data::DataPaths& paths) {
        add_blend("--data-path", paths.data_path);
        add_blend("--train-data-path", paths.train_path);
        add_blend("--valid-data-path", paths.valid_path);
        add_blend("--test-data-path", paths.test_path);
        add_groups("--train-weighted-split-paths", paths.train_groups);
        add_groups("--valid-weighted-split-paths", paths.valid_groups);
        add_groups("--test-weighted-split-paths", paths.test_groups);
    }
    FactGroup group{
        "give all ranks the same flags, and all hosts the same data: copy the files again, or use "
        "a "
        "shared directory",
        {}};

  private:
    void add_blend(const char* flag, const std::vector<std::string>& words) {
        if (!words.empty()) add(flag, data::parse_blend(flag, words));
    }
    void add_groups(const char* flag, const std::vector<std::string>& texts) {
        for (const std::string& text : texts) add(flag, data::parse_group(flag, text));
    }
    void add(const char* flag, const data::PathGroup& paths) {
        for (const data::DataPath& path : paths.paths) {
            const data::Fraction part = path.fraction.value_or(data::Fraction{});
            const std::string what =
                fmt::format("{} {} {}:{}", paths.name, path.weight, part.begin, part.end);
            const Contents& is = contents(path.prefix);
            group.facts.push_back(
                {flag, what + " " + is.value,
                 fmt::format("{} ({}{})", path.prefix,
                             path.weight > 0 ? fmt::format("weight {}, ", path.weight) : "",
                             is.shown)});
        }
    }
    struct Contents {
        std::string value, shown;
    };
    // Opening a dataset that all ranks lack reports it better than a comparison.
    static Contents read(const std::string& prefix) {
        if (!io::exists(data::bin_path(prefix)) || !io::exists(data::idx_path(prefix)))
            return {"", "no such dataset"};
        const data::DatasetIdentity is = data::identity_of(prefix);
        const std::string shown = fmt::format(
            ".bin {} bytes, .idx {} bytes, pages {}, {}", is.bin_bytes, is.idx_bytes, is.samples,
            is.digest.empty() ? "no metadata file" : ".json of " + is.digest);
        return {shown, shown};
    }
    const Contents& contents(const std::string& prefix) {
        const auto found = known_.find(prefix);
        if (found != known_.end()) return found->second;
        return known_.emplace(prefix, read(prefix)).first->second;
    }

    std::map<std::string, Contents> known_;
};

}  // namespace

const std::vector<OwnOfRank>& flags_of_ranks() {
    using enum MayDiffer;
    constexpr std::string_view log = "only rank 0 writes it";
    constexpr std::string_view content = "the content of the files is compared";
    static const std::vector<OwnOfRank> table{
        {"--threads", anyhow, "the result does not depend on it, and hosts differ in cores"},
        {"--quiet", anyhow, "hides the notes of a rank"},
        {"--log-file", anyhow, log},
        {"--log-json", anyhow, log},
        {"--status-file", anyhow, log},
        {"--tensorboard-dir", anyhow, log},
        {"--codecarbon-dir", where_given, "only rank 0 writes it, but all ranks measure"},
        {"--kill-switch-path", where_given, "only rank 0 looks for the file, and tells the others"},
        {"--save-switch-path", where_given, "only rank 0 looks for the file, and tells the others"},
        {"--local-save", where_given, "a disk of the node, which may have another name there"},
        {"--autotune", where_given, "measured algorithms of a host's GPUs, on a disk of the node"},
        {"--data-cache-path", anyhow, "each rank finds or computes the same index"},
        {"--explain", anyhow, "no training"},
        {"--data-path", where_given, content},
        {"--train-data-path", where_given, content},
        {"--valid-data-path", where_given, content},
        {"--test-data-path", where_given, content},
        {"--train-weighted-split-paths", where_given, content},
        {"--valid-weighted-split-paths", where_given, content},
        {"--test-weighted-split-paths", where_given, content},
        {"--train-weighted-split-paths-path", where_given, content},
        {"--valid-weighted-split-paths-path", where_given, content},
        {"--test-weighted-split-paths-path", where_given, content},
        {"--data-args-path", where_given, content},
        {"--per-split-data-args-path", where_given, content},
        {"--vocab-file", where_given, content},
        {"--merge-file", where_given, content},
        {"--tokenizer-model", where_given, content},
        {"--deepspeed_config", where_given, content},
    };
    return table;
}

void require_same_flags(comm::Group& world, const std::vector<cli::Options::Setting>& flags) {
    parallel::require_same(world, {program_facts(flags), environment_facts(), flag_facts(flags)});
}

void require_same_configuration(comm::Group& world, const RunConfig& config) {
    if (world.size() == 1) return;
    std::vector<FactGroup> groups;
    parallel::together(world, [&] {
        groups = {DataFacts(config.data.paths).group, configuration_facts(config)};
    });
    parallel::require_same(world, groups);
}

}  // namespace lm::train
