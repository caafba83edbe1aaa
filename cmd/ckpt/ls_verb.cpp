// SPDX-License-Identifier: Apache-2.0
// lm-ckpt ls: prints one line for each step of a checkpoint directory and of its abandoned
// branches, and one line for each left-over. Opens only manifests.
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/units.hpp"
#include "ckpt/history/abandon.hpp"
#include "ckpt/history/leftovers.hpp"
#include "ckpt/history/lineage.hpp"
#include "ckpt/history/local_steps.hpp"
#include "ckpt/history/steps.hpp"
#include "cli/color.hpp"
#include "cli/main.hpp"
#include "foreign.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/path.hpp"
#include "paths.hpp"
#include "verbs.hpp"

namespace lm::ckpt_tool {
namespace {

struct Args {
    std::string directory;
    bool json = false;
};

struct Row {
    ckpt::StepEntry entry;
    bool latest = false;
    std::string_view branch;  // "current", "abandoned", or "-" when the manifest is unusable
};

std::vector<Row> rows_of(const std::string& directory, const ckpt::Lineage& lineage) {
    std::vector<Row> rows;
    for (const std::string& name : ckpt::abandoned_in(directory)) {
        for (ckpt::StepEntry& entry : ckpt::read_lineage(directory + "/" + name).steps) {
            rows.push_back({std::move(entry), false, "abandoned"});
        }
    }
    for (const ckpt::StepEntry& entry : lineage.steps) {
        std::string_view branch = lineage.current(entry) ? "current" : "abandoned";
        if (!entry.manifest || !lineage.unknown.empty()) branch = "-";
        rows.push_back({entry, lineage.latest == entry.step, branch});
    }
    return rows;
}

// Returns "local: 2 of 4 parts" or "local: cannot be read" for a local step of one host, and an
// empty text for any other step.
std::string local_state(const ckpt::StepEntry& entry) {
    if (!io::exists(fmt::format("{}/{}", entry.path, ckpt::local_manifest_file))) return {};
    for (const ckpt::LocalStep& step : ckpt::local_steps_in(io::parent_of(entry.path), 0)) {
        if (step.step != entry.step) continue;
        return fmt::format("local: {} of {} parts", step.parts.size(), step.n_parts);
    }
    return "local: cannot be read";
}

void print_json(const Row& row) {
    io::OrderedJson object;
    object["step"] = row.entry.step;
    object["path"] = row.entry.path;
    object["latest"] = row.latest;
    object["branch"] = row.branch == "-" ? "unknown" : row.branch;
    object["complete"] = row.entry.manifest.has_value();
    if (!row.entry.manifest) {
        const std::string local = local_state(row.entry);
        object["reason"] = local.empty() ? row.entry.reason : local;
        cli::write_stdout(io::json_line(object));
        return;
    }
    const ckpt::Manifest& manifest = *row.entry.manifest;
    const ckpt::Totals totals = manifest.totals();
    object["bytes"] = totals.bytes;
    object["files"] = totals.files;
    object["created"] = manifest.created;
    object["run_id"] = manifest.run_id;
    object["generation"] = manifest.generation;
    object["parent"] = manifest.parent ? to_json(*manifest.parent) : io::OrderedJson();
    object["consumed_samples"] = manifest.counters.consumed_samples;
    object["consumed_tokens"] = manifest.counters.consumed_tokens;
    for (const spec::Dimension& each : spec::dimensions) {
        object[each.key] = manifest.parallel.*each.size;
    }
    object["optimizer_state"] = ckpt::optimizer_of(manifest).has_value();
    cli::write_stdout(io::json_line(object));
}

// With these widths and three dimensions in the layout, the state "complete, latest" ends in column
// 80.
void print_line(std::string_view step, std::string_view size, std::string_view layout,
                std::string_view created, std::string_view branch, std::string_view state,
                std::optional<cli::Color> color = std::nullopt) {
    const size_t width = spec::short_sizes_text({}).size();
    const std::string line =
        fmt::format("{:>6}  {:>8}  {:<{}}  {:<20}  {:<9}  {}", step, size, layout, width,
                    printable(created), branch, printable(state));
    cli::write_stdout((color ? cli::colored(*color, line, STDOUT_FILENO) : line) + "\n");
}

void print_text(const Row& row) {
    const std::string step = std::to_string(row.entry.step);
    if (!row.entry.manifest) {
        const std::string local = local_state(row.entry);
        const std::string state =
            local.empty() ? "incomplete: " + row.entry.reason + (row.latest ? " (latest)" : "")
                          : local;
        const std::optional<cli::Color> color =
            local.empty() ? std::optional(cli::Color::red) : std::nullopt;
        return print_line(step, "-", "-", "-", row.branch, state, color);
    }
    const ckpt::Manifest& manifest = *row.entry.manifest;
    std::string state = ckpt::optimizer_of(manifest) ? "complete" : "complete, weights only";
    if (row.latest) state += ", latest";
    const std::string parent = io::base_name(io::parent_of(row.entry.path));
    if (parent.starts_with(ckpt::abandoned_prefix)) state += ", in " + parent;
    print_line(step, human_size(manifest.totals().bytes), spec::short_sizes_text(manifest.parallel),
               manifest.created, row.branch, state,
               row.latest ? std::optional(cli::Color::green) : std::nullopt);
}

void print_leftovers(const std::string& directory, bool json) {
    for (const ckpt::Leftover& leftover : ckpt::leftovers_in(directory)) {
        if (json) {
            cli::write_stdout(io::json_line({{"leftover", leftover.name},
                                             {"path", directory + "/" + leftover.name},
                                             {"bytes", leftover.bytes},
                                             {"age_s", static_cast<i64>(leftover.age_s)},
                                             {"in_use", leftover.in_use}}));
            continue;
        }
        print_line(
            "-", human_size(leftover.bytes), "-", human_duration(leftover.age_s) + " old", "-",
            fmt::format("{}: {}", leftover.in_use ? "a running copy" : "left-over", leftover.name));
    }
}

int run(const Args& args) {
    const std::string directory = existing_directory(args.directory);
    if (is_foreign(directory)) return list_foreign(directory, args.json);
    if (ckpt::is_step(directory)) {
        usage_error(directory,
                    "is a single step, expected a directory of steps: give its parent directory, "
                    "or use lm-ckpt show");
    }
    directory_of_steps(directory);
    const ckpt::Lineage lineage = ckpt::read_lineage(directory);
    const std::vector<Row> rows = rows_of(directory, lineage);
    if (!rows.empty() && !args.json) {
        print_line("STEP", "SIZE", "LAYOUT", "CREATED", "BRANCH", "STATE");
    }
    for (const Row& row : rows) args.json ? print_json(row) : print_text(row);
    print_leftovers(directory, args.json);
    if (!lineage.unknown.empty()) throw Error(Exit::failure, lineage.unknown);
    if (rows.empty()) usage_error(directory, "has no checkpoint: no global_step* directory exists");
    return 0;
}

}  // namespace

void add_ls(cli::Options& options) {
    const auto args = std::make_shared<Args>();
    cli::Options& verb =
        options.verb("ls", "list the steps of a checkpoint directory, its branches and left-overs",
                     [args] { return run(*args); });
    verb.not_called({"list"});
    verb.examples({"lm-ckpt ls checkpoints"});
    verb.positional("DIR", &args->directory,
                    "directory of global_step* directories, or of Megatron's checkpoints");
    verb.flag("--json", &args->json, "print JSON Lines");
}

}  // namespace lm::ckpt_tool
