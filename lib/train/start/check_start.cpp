// SPDX-License-Identifier: Apache-2.0
#include "train/start/check_start.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/launcher.hpp"
#include "base/problem_list.hpp"
#include "train/config/run_data.hpp"
#include "train/resume/changes.hpp"
#include "train/resume/load_choice.hpp"
#include "train/resume/resume.hpp"

namespace lm::train {
namespace {

using Flags = std::set<std::string, std::less<>>;

// Returns the words of `text` that begin with "--".
Flags flags_in(std::string_view text) {
    constexpr std::string_view in_name =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    Flags flags;
    for (size_t at = text.find("--"); at != text.npos; at = text.find("--", at)) {
        const size_t end = std::min(text.find_first_not_of(in_name, at), text.size());
        flags.emplace(text.substr(at, end - at));
        at = end;
    }
    return flags;
}

bool overlap(const Flags& a, const Flags& b) {
    return std::ranges::any_of(a, [&b](const std::string& flag) { return b.contains(flag); });
}

template <typename Section>
void add_names(Flags& names, const config::Fields<Section>& fields) {
    for (const auto& field : fields) names.merge(flags_in(field.option));
}

// A problem of one of `objects` may follow from an invalid value of one of `causes`.
struct Related {
    Flags objects, causes;
};

std::vector<Related> related_flags() {
    Flags layout{"--world-size"};
    add_names(layout, config::parallel_fields());
    add_names(layout, config::stage_fields());
    Flags lengths{"--eval-global-batch-size"};
    add_names(lengths, config::length_fields());
    Flags windows{"--lr-warmup-samples", "--lr-warmup-iters", "--lr-warmup-tokens",
                  "--lr-warmup-fraction"};
    add_names(windows, config::decay_fields());
    Flags curriculum;
    add_names(curriculum, config::curriculum_fields());
    Flags model;
    add_names(model, config::shape_fields());
    add_names(model, config::kind_fields());
    const auto with = [](Flags flags, const Flags& more) {
        flags.insert(more.begin(), more.end());
        return flags;
    };
    const Flags sizes = with(with(lengths, layout), {"--seq-length"});
    return {{layout, with(layout, model)},
            {lengths, sizes},
            {windows, with(windows, sizes)},
            {curriculum, with(curriculum, sizes)},
            {model, with(model, layout)}};
}

// Returns whether `problem` may only follow from one of the flags `wrong`.
bool may_follow(const std::string& problem, const Flags& wrong) {
    if (overlap(flags_in(problem), wrong)) return true;
    if (problem.find(" is missing") != problem.npos) return false;
    const std::string object = problem.substr(0, problem.find(": "));
    static const std::vector<Related> all = related_flags();
    return std::ranges::any_of(all, [&](const Related& related) {
        return related.objects.contains(object) && overlap(related.causes, wrong);
    });
}

// Returns the number of ranks that the launcher states, without connecting them.
i64 stated_ranks() {
    try {
        return std::max(1, launched_by({Launcher::open_mpi, Launcher::pmi, Launcher::torchrun,
                                        Launcher::pmix, Launcher::slurm})
                               .size);
    } catch (const Error&) {
        return 1;
    }
}

}  // namespace

namespace {

StartParts check_resolved(RunConfig& config, Problems& problems) {
    StartParts start;
    problems.check([&] {
        choose_start(config.checkpoints);
        start.checkpoint = find_start(config);
        if (!start.checkpoint) note_fresh_start(config.checkpoints.load);
    });
    problems.check([&] { check_save(config.checkpoints, start.checkpoint); });
    if (start.checkpoint) {
        problems.check([&] { check_fits(config, *start.checkpoint); });
        problems.check([&] { adopt_schedule(config, *start.checkpoint); });
    }
    problems.check([&] { check_writable(config.checkpoints, config.logging); });
    problems.check([&] { start.data = open_data(config); });
    if (start.checkpoint && start.data.train) {
        problems.check([&] { check_changes(config, training_data(config), *start.checkpoint); });
    }
    return start;
}

}  // namespace

StartParts check_start(const config::TrainFlags& flags, std::optional<RunConfig>& config,
                       Problems& problems) {
    if (config) return check_resolved(*config, problems);
    problems.check([&] { (void)find_start(flags); });
    problems.check([&] { check_writable(flags.checkpoints, flags.logging); });
    return {};
}

RunConfig resolve_or_fail(const config::TrainFlags& flags, const std::string& command_line,
                          const StartedRanks& ranks, bool is_rank0) {
    Problems problems;
    if (flags.action.world_size) problems.add("--world-size: needs --dry-run");
    std::optional<RunConfig> config = resolve(flags, command_line, ranks, problems);
    const bool trains = !flags.action.print_config && flags.action.show_samples.empty();
    if (!problems.found().empty() && is_rank0 && trains) (void)check_start(flags, config, problems);
    problems.throw_found();
    return std::move(*config);
}

void fail_with_all_problems(const RunConfig& config, const Error& error) {
    if (error.code() != Exit::usage) throw;
    std::vector<std::string> texts;
    for (const std::string_view text : problems_in(error.what())) texts.emplace_back(text);
    RunConfig again = config;
    Problems problems;
    (void)check_resolved(again, problems);
    for (const std::string& text : problems.found()) {
        for (const std::string_view one : problems_in(text)) {
            if (std::ranges::find(texts, one) == texts.end()) texts.emplace_back(one);
        }
    }
    const bool joint = dynamic_cast<const JointError*>(&error) != nullptr;
    try {
        throw_problems(texts);
    } catch (const Error& all) {
        if (joint) throw JointError(Exit::usage, all.what());
        throw;
    }
    throw;
}

void add_problems_of_flags(const config::TrainFlags& flags, const std::string& command_line,
                           std::vector<std::string>& problems) {
    if (flags.given.names.empty()) return;
    Flags wrong;
    for (const std::string& text : problems) wrong.merge(flags_in(text));
    Problems found(flags.action.world_size.has_value());
    std::optional<RunConfig> config = resolve(
        flags, command_line, {.n = flags.action.world_size.value_or(stated_ranks())}, found);
    (void)check_start(flags, config, found);
    for (const std::string& text : found.found()) {
        for (const std::string_view one : problems_in(text)) {
            if (!may_follow(std::string(one), wrong)) problems.emplace_back(one);
        }
    }
}

}  // namespace lm::train
