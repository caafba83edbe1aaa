// SPDX-License-Identifier: Apache-2.0
#include "ckpt/history/local_steps.hpp"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "ckpt/format/checkpoint.hpp"
#include "ckpt/format/damage.hpp"
#include "ckpt/history/generation.hpp"
#include "ckpt/history/steps.hpp"
#include "io/file.hpp"
#include "io/json.hpp"

namespace lm::ckpt {
namespace {

constexpr std::tuple local_step_fields{
    std::pair{"holder", &LocalStep::holder}, std::pair{"step", &LocalStep::step},
    std::pair{"digest", &LocalStep::digest}, std::pair{"generation", &LocalStep::generation},
    std::pair{"run_id", &LocalStep::run_id}, std::pair{"n_parts", &LocalStep::n_parts},
    std::pair{"parts", &LocalStep::parts}};

// Returns whether the files of index part `part` are in the directory `path`. Reads the part, and
// the sizes of its data files.
bool holds(const std::string& path, i64 part, i64 n_parts, const std::string& manifest) {
    try {
        (void)Checkpoint::open(path, {part, n_parts}, manifest);
        return true;
    } catch (const Error&) {
        return false;  // missing, damaged or unreadable: another host may have the files
    }
}

LocalStep read_local_step(const std::string& directory, i64 iteration, int holder) {
    const std::string path = directory + "/" + step_name(iteration);
    const std::string file = fmt::format("{}/{}", path, local_manifest_file);
    const std::string text = read_step_file(file);
    const Manifest manifest = parse_manifest(text, file);
    LocalStep step{.holder = holder,
                   .step = manifest.counters.iteration,
                   .digest = manifest.digest,
                   .generation = manifest.generation,
                   .run_id = manifest.run_id,
                   .n_parts = std::ssize(manifest.index),
                   .parts = {}};
    for (i64 part = 0; part < step.n_parts; ++part) {
        const std::string index = path + "/" + manifest.index[static_cast<size_t>(part)].file;
        if (io::exists(index) && holds(path, part, step.n_parts, text)) step.parts.push_back(part);
    }
    return step;
}

}  // namespace

i64 partner_of(i64 node, i64 n_nodes) {
    if (n_nodes == 1) return -1;
    return (node ^ 1) < n_nodes ? node ^ 1 : 0;
}

std::vector<LocalStep> local_steps_in(const std::string& directory, int holder) {
    std::vector<LocalStep> steps;
    if (!io::is_directory(directory)) return steps;
    for (const i64 iteration : steps_in(directory)) {
        try {
            steps.push_back(read_local_step(directory, iteration, holder));
        } catch (const Error& error) {
            warn("{}: this local step is not used", error.what());
        }
    }
    return steps;
}

std::string text_of(const LocalStep& step) {
    return io::json_line(io::object_of(step, local_step_fields));
}

LocalStep parse_local_step(std::string_view text) {
    const std::string name = "a local step";
    LocalStep step;
    io::read_object(step, io::parse_json(text, name), local_step_fields, name);
    return step;
}

std::optional<Tip> newest_tip(const std::string& directory) {
    if (!io::exists(directory)) return std::nullopt;
    Tip line{{INT64_MAX, {}}, {}};
    if (const std::optional<Claim> claim = newest_claim(directory)) line.lineage = claim->lineage;
    const std::optional<Tip> latest = read_latest(directory);
    const auto generation = [](const std::vector<LineageEntry>& lineage) {
        return lineage.empty() ? i64{0} : lineage.back().generation;
    };
    if (latest && generation(latest->lineage) > generation(line.lineage))
        line.lineage = latest->lineage;
    if (line.lineage.empty()) return std::nullopt;
    return line;
}

bool is_on_branch(const LocalStep& step, const Tip& line) {
    Manifest manifest;
    manifest.counters.iteration = step.step;
    manifest.generation = step.generation;
    manifest.run_id = step.run_id;
    return on_branch(manifest, line);
}

std::optional<LocalChoice> choose_local_step(const std::vector<LocalStep>& held, const Tip& line,
                                             i64 newer_than) {
    std::map<std::pair<i64, std::string>, LocalChoice> choices;
    for (const LocalStep& step : held) {
        if (step.step <= newer_than || !is_on_branch(step, line)) continue;
        LocalChoice& choice = choices[{step.step, step.digest}];
        choice.step = step.step;
        choice.digest = step.digest;
        choice.holders.resize(static_cast<size_t>(step.n_parts));
        for (const i64 part : step.parts) {
            choice.holders.at(static_cast<size_t>(part)).push_back(step.holder);
        }
    }
    std::optional<LocalChoice> newest;
    for (auto& [key, choice] : choices) {
        const bool complete = std::ranges::none_of(
            choice.holders, [](const std::vector<int>& holders) { return holders.empty(); });
        if (complete && !choice.holders.empty()) newest = std::move(choice);
    }
    return newest;
}

}  // namespace lm::ckpt
