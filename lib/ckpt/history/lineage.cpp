// SPDX-License-Identifier: Apache-2.0
#include "ckpt/history/lineage.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "ckpt/format/damage.hpp"
#include "ckpt/history/generation.hpp"
#include "ckpt/history/steps.hpp"
#include "io/file.hpp"

namespace lm::ckpt {
namespace {

StepEntry read_entry(const std::string& directory, i64 step) {
    StepEntry entry{step, directory + "/" + step_name(step), {}, {}, false};
    try {
        if (!io::is_directory(entry.path)) damaged(entry.path, "is not a directory: remove it");
        entry.manifest = read_manifest(entry.path);
        const i64 iteration = entry.manifest->counters.iteration;
        if (iteration == step) return entry;
        entry.reason =
            fmt::format("{}: its manifest is of iteration {}: rename the directory to {}",
                        entry.path, iteration, step_name(iteration));
        entry.manifest.reset();
    } catch (const DamageError& error) {
        entry.reason = error.what();
    } catch (const Error& error) {
        entry.reason = error.what();
        entry.unreadable = true;
    }
    return entry;
}

// Returns the newest step of the newest generation. If a step is unreadable, throws the error of
// the system, because that step might be the newest step.
const StepEntry* newest_of_newest_generation(const std::vector<StepEntry>& steps) {
    const StepEntry* newest = nullptr;
    for (const StepEntry& entry : steps) {
        if (entry.unreadable) throw Error(Exit::failure, entry.reason);
        if (!entry.manifest) continue;
        if (!newest || entry.manifest->generation >= newest->manifest->generation) newest = &entry;
    }
    return newest;
}

// Returns the end of the current branch when `latest` names no step.
std::optional<Tip> tip_without_latest(const std::string& directory,
                                      const std::vector<StepEntry>& steps) {
    const StepEntry* newest = newest_of_newest_generation(steps);
    const std::optional<Claim> claim = newest_claim(directory);
    const i64 generation = newest ? newest->manifest->generation : -1;
    if (claim && claim->start && claim->number > generation) {
        return Tip{*claim->start, claim->lineage};
    }
    if (!newest) return std::nullopt;
    return tip_of(*newest->manifest);
}

// Returns whether `step` was written by the start that wrote `tip`, or by a start that descends
// from that start.
bool continues(const Manifest& step, const Tip& tip) {
    return step.lineage.size() >= tip.lineage.size() &&
           std::equal(tip.lineage.begin(), tip.lineage.end(), step.lineage.begin());
}

// Returns the end of the current branch. `latest` has the lineage of the step that it names, so the
// branch is known even if that step is damaged. A hand-written `latest` has only the name of a
// step; the lineage then comes from the manifest of the step, or from the newest start.
std::optional<Tip> find_tip(const std::string& directory, const std::vector<StepEntry>& steps,
                            const std::optional<Tip>& latest) {
    if (!latest) return tip_without_latest(directory, steps);
    const StepEntry* named = find_step(steps, latest->step.iteration);
    if (!latest->lineage.empty()) {
        // `replaced` is true after a resumed run has saved this step again and was killed before it
        // wrote `latest`.
        const bool replaced = named && named->manifest && continues(*named->manifest, *latest);
        return replaced ? tip_of(*named->manifest) : latest;
    }
    if (named && named->unreadable) throw Error(Exit::failure, named->reason);
    if (named && named->manifest) return tip_of(*named->manifest);
    std::optional<Tip> tip = tip_without_latest(directory, steps);
    if (tip) tip->step = latest->step;
    return tip;
}

}  // namespace

const StepEntry* find_step(const std::vector<StepEntry>& steps, i64 step) {
    const auto found = std::ranges::find(steps, step, &StepEntry::step);
    return found == steps.end() ? nullptr : &*found;
}

Tip tip_of(const Manifest& manifest) {
    Tip tip{manifest.reference(), manifest.lineage};
    if (tip.lineage.empty()) {
        tip.lineage.push_back({manifest.generation, manifest.run_id, std::nullopt});
    }
    return tip;
}

// A step is an ancestor of `tip` if a start in the lineage of `tip` has written it. There are three
// exceptions: the step is before the step from which its own start resumed, after the step from
// which a later start of the lineage resumed, or after the tip.
bool on_branch(const Manifest& step, const Tip& tip) {
    const i64 iteration = step.counters.iteration;
    for (size_t at = 0; at < tip.lineage.size(); ++at) {
        const LineageEntry& entry = tip.lineage[at];
        if (entry.generation != step.generation || entry.run_id != step.run_id) continue;
        i64 last = tip.step.iteration;
        for (size_t later = at + 1; later < tip.lineage.size(); ++later) {
            if (tip.lineage[later].start)
                last = std::min(last, tip.lineage[later].start->iteration);
        }
        const i64 first = entry.start ? entry.start->iteration : 0;
        if (first <= iteration && iteration <= last) return true;
    }
    return false;
}

bool Lineage::current(const StepEntry& step) const {
    return step.manifest && tip && on_branch(*step.manifest, *tip);
}

std::vector<const StepEntry*> Lineage::candidates() const {
    if (!unknown.empty()) throw Error(Exit::failure, unknown);
    std::vector<const StepEntry*> list;
    if (!tip) return list;
    for (const StepEntry& entry : steps) {
        const bool is_tip = entry.step == tip->step.iteration;
        const bool unusable_tip = is_tip && !entry.manifest;
        const bool may_be_ancestor = entry.unreadable && entry.step < tip->step.iteration;
        if (current(entry) || unusable_tip || may_be_ancestor) list.push_back(&entry);
    }
    std::ranges::reverse(list);
    return list;
}

Lineage read_lineage(const std::string& directory) {
    Lineage lineage;
    // Reads `latest` before the steps. In the other order, the step that a running training saves
    // in between would seem to be missing.
    std::optional<Tip> latest;
    try {
        latest = read_latest(directory);
    } catch (const Error& error) {
        lineage.unknown = error.what();
    }
    for (const i64 step : steps_in(directory)) lineage.steps.push_back(read_entry(directory, step));
    if (!lineage.unknown.empty()) return lineage;
    if (latest) lineage.latest = latest->step.iteration;
    try {
        lineage.tip = find_tip(directory, lineage.steps, latest);
    } catch (const Error& error) {
        lineage.unknown = error.what();
    }
    return lineage;
}

}  // namespace lm::ckpt
