// SPDX-License-Identifier: Apache-2.0
#include "train/resume/local_restore.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "base/error.hpp"
#include "base/log.hpp"
#include "ckpt/format/damage.hpp"
#include "ckpt/history/local_steps.hpp"
#include "ckpt/history/save.hpp"
#include "ckpt/history/steps.hpp"
#include "ckpt/verbs/copy_files.hpp"
#include "io/atomic.hpp"
#include "io/directory.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/lines.hpp"
#include "parallel/hosts.hpp"
#include "parallel/together.hpp"
#include "train/save/distributed_save.hpp"
#include "train/save/local_saver.hpp"
#include "train/save/save_report.hpp"

namespace lm::train {
namespace {

using parallel::broadcast_text;
using parallel::together;

bool same_directory(const std::string& a, const std::string& b) {
    std::error_code ignored;
    return std::filesystem::weakly_canonical(a + "/", ignored) ==
           std::filesystem::weakly_canonical(b + "/", ignored);
}

// Returns the iteration of the newest durable step that is complete; -1 when there is none.
i64 newest_durable(const std::string& directory, const std::vector<i64>& damaged, i64 n_ranks) {
    if (!io::is_directory(directory)) return -1;
    const ckpt::Lineage lineage = ckpt::read_lineage(directory);
    for (const ckpt::StepEntry* entry : lineage.candidates()) {
        if (std::ranges::find(damaged, entry->step) != damaged.end()) continue;
        if (entry->unreadable) throw Error(Exit::failure, entry->reason);
        if (!entry->manifest) continue;
        try {
            (void)ckpt::Checkpoint::open(entry->path, {0, n_ranks});
            return entry->step;
        } catch (const ckpt::DamageError&) {
            continue;
        }
    }
    return -1;
}

class Restore {
  public:
    Restore(const config::CheckpointFlags& flags, comm::Group& world)
        : flags_(flags), world_(world) {}

    // Restores a step. Returns its iteration, or -1 when no step was restored. Collective.
    i64 run(const std::vector<i64>& damaged) {
        connect();
        together(world_, [&] {
            const std::string name = local_directory_of_host(flags_.local_save);
            if (leads() && io::exists(name)) directory_ = open_local_directory(name);
        });
        gather();
        together(world_, [&] {
            if (world_.rank() != 0) return;
            if (!held_.empty()) {
                durable_ = newest_durable(flags_.save, damaged, world_.size());
            } else if (ckpt::latest_step(flags_.save)) {
                note("--local-save: no host has a local step in {}: loading from {}",
                     flags_.local_save, flags_.save);
            }
        });
        while (choose()) {
            begin();
            const bool complete = copy_parts();
            together(world_, [&] {
                if (world_.rank() == 0) complete ? publish() : drop();
            });
            if (complete) return choice_.step;
        }
        return -1;
    }

  private:
    bool leads() const { return node_->rank() == 0; }
    void connect() {
        node_ = parallel::group_of_host(world_);
        leaders_ = world_.split(leads() ? 0 : -1, world_.rank(), "leaders of hosts");
    }
    void gather();
    bool choose();
    void begin();
    bool copy_parts();
    std::string copy_part(i64 part) const;
    void accept(std::string_view line);
    std::string assign();
    void publish();
    void drop();
    std::string step_path() const { return *directory_ / ckpt::step_name(choice_.step); }

    const config::CheckpointFlags& flags_;
    comm::Group& world_;
    std::optional<io::Directory> directory_;  // local steps of this host; set on its leader
    std::unique_ptr<comm::Group> node_;
    std::unique_ptr<comm::Group> leaders_;
    ckpt::Generation generation_;
    ckpt::LocalChoice choice_;  // on rank 0, `holders` has only the holders that have not failed
    std::string manifest_text_;
    ckpt::Manifest manifest_;
    // Set on rank 0 only:
    std::vector<ckpt::LocalStep> held_;
    i64 durable_ = -1;
    std::vector<bool> copied_;  // by part
    std::string damage_;        // why the step is dropped; empty: the step is usable
};

// Gathers on rank 0 the lists of the local steps that the hosts hold.
void Restore::gather() {
    if (!leads()) return;
    SaveReport report;
    if (directory_) {
        for (const auto& step : ckpt::local_steps_in(directory_->path(), world_.rank()))
            report.text += ckpt::text_of(step);
    }
    join_reports(*leaders_, report);
    if (world_.rank() != 0) return;
    for (const std::string_view line : io::lines_of(report.text))
        held_.push_back(ckpt::parse_local_step(line));
}

// Chooses a step and sends its manifest to all ranks. Returns false when no local step can be
// restored.
bool Restore::choose() {
    i64 chosen[] = {-1, 0};  // iteration, rank that has the manifest
    together(world_, [&] {
        if (world_.rank() != 0 || held_.empty()) return;
        const std::optional<ckpt::Tip> line = ckpt::newest_tip(flags_.save);
        if (!line) return;
        const auto choice = ckpt::choose_local_step(held_, *line, durable_);
        if (!choice) return;
        choice_ = *choice;
        chosen[0] = choice_.step;
        chosen[1] = choice_.holders.front().front();
    });
    world_.broadcast({chosen, DType::int64, {2}}, 0);
    if (chosen[0] < 0) return false;
    choice_.step = chosen[0];
    const auto root = static_cast<int>(chosen[1]);
    together(world_, [&] {
        if (world_.rank() == root)
            manifest_text_ =
                ckpt::read_step_file(fmt::format("{}/{}", step_path(), ckpt::local_manifest_file));
    });
    manifest_text_ = broadcast_text(world_, manifest_text_, root);
    manifest_ = ckpt::parse_manifest(manifest_text_, std::string(ckpt::local_manifest_file));
    return true;
}

// Claims a generation of --save that starts from the chosen step, and creates the temporary
// directory of the copy.
void Restore::begin() {
    if (world_.rank() == 0) {
        note("--local-save: {} is newer than the steps in {}: copying it to that directory",
             ckpt::step_name(choice_.step), flags_.save);
    }
    generation_ = claim_generation(world_, flags_.save, ckpt::tip_of(manifest_));
    together(world_, [&] {
        if (world_.rank() == 0) ckpt::begin_save(generation_, choice_.step);
    });
    copied_.assign(manifest_.index.size(), false);
    damage_.clear();
}

// Copies all parts. When a host cannot copy a part, another host that holds the part copies it.
// Returns false when no host has a part undamaged.
bool Restore::copy_parts() {
    for (;;) {
        std::string assigned;
        together(world_, [&] {
            if (world_.rank() == 0) assigned = assign();
        });
        assigned = broadcast_text(world_, assigned);
        if (assigned.empty()) break;
        SaveReport report;
        for (const std::string_view line : io::lines_of(assigned)) {
            const io::Json pair = io::parse_json(line, "an assignment");
            if (pair[1].get<int>() == world_.rank()) report.text += copy_part(pair[0].get<i64>());
        }
        if (leads()) join_reports(*leaders_, report);
        together(world_, [&] {
            if (world_.rank() != 0) return;
            for (const std::string_view line : io::lines_of(report.text)) accept(line);
        });
    }
    i64 complete = damage_.empty() ? 1 : 0;
    world_.broadcast({&complete, DType::int64, {1}}, 0);
    return complete == 1;
}

// Assigns each part that is not copied yet to the holder with the fewest assigned parts. Returns
// one line [part, rank] for each assigned part. Returns an empty text when all parts are copied or
// the step is dropped.
std::string Restore::assign() {
    std::string lines;
    std::map<int, i64> load;
    for (size_t part = 0; part < copied_.size() && damage_.empty(); ++part) {
        if (copied_[part]) continue;
        std::vector<int>& holders = choice_.holders[part];
        const auto least =
            std::ranges::min_element(holders, {}, [&](int holder) { return load[holder]; });
        ++load[*least];
        lines += io::json_line({static_cast<i64>(part), *least});
    }
    return lines;
}

// Copies and verifies the files of an index part, and with the first part those of the tokenizer.
// Returns the result as a line of JSON for
// accept().
std::string Restore::copy_part(i64 part) const {
    std::string problem;
    bool damaged = false;
    try {
        const auto source = ckpt::Checkpoint::open(step_path(), {part, std::ssize(manifest_.index)},
                                                   manifest_text_);
        const std::string& index = manifest_.index[static_cast<size_t>(part)].file;
        const auto to = io::Directory::open(ckpt::temporary_path(generation_, choice_.step));
        if (part == 0) {
            for (const ckpt::TokenizerFile& file :
                 ckpt::read_tokenizer_files(step_path(), manifest_.tokenizer.files)) {
                io::write_file(to / file.name, *file.text, io::Overwrite::yes);
            }
        }
        ckpt::copy_files(source, source.parts()[static_cast<size_t>(part)].files, to.path(), {});
        io::write_file(to / index, io::read_file(step_path() + "/" + index), io::Overwrite::yes);
    } catch (const ckpt::DamageError& error) {
        problem = error.what();
        damaged = true;
    } catch (const Error& error) {
        problem = error.what();
    }
    return io::json_line(
        {{"part", part}, {"holder", world_.rank()}, {"problem", problem}, {"damaged", damaged}});
}

// Records the result of a copy. Throws when the last holder of a part could not copy it because of
// an error of the system.
void Restore::accept(std::string_view line) {
    const io::Json result = io::parse_json(line, "a result");
    const auto part = result["part"].get<size_t>();
    const auto problem = result["problem"].get<std::string>();
    copied_[part] = problem.empty();
    if (copied_[part]) return;
    std::vector<int>& holders = choice_.holders[part];
    std::erase(holders, result["holder"].get<int>());
    if (!holders.empty()) {
        warn("--local-save: {}: using the copy of another host", problem);
    } else if (result["damaged"].get<bool>()) {
        damage_ = problem;
    } else {
        throw Error(Exit::failure, problem);
    }
}

void Restore::publish() {
    const ckpt::SaveResult result = ckpt::publish_step(generation_, manifest_, manifest_text_);
    note("{}: copied from local steps", result.path);
}

// Drops the chosen step, because no host has one of its parts undamaged.
void Restore::drop() {
    ckpt::discard_save(generation_, choice_.step);
    warn("--local-save: {}: {}: trying an older step", ckpt::step_name(choice_.step), damage_);
    std::erase_if(held_, [&](const ckpt::LocalStep& step) {
        return step.step == choice_.step && step.digest == manifest_.digest;
    });
}

}  // namespace

i64 restore_local_step(const RunConfig& config, comm::Group& world,
                       const std::vector<i64>& damaged) {
    const config::CheckpointFlags& flags = config.checkpoints;
    const bool resumes = !config.action.benchmark && !flags.local_save.empty() &&
                         !flags.load.empty() && !flags.finetune &&
                         same_directory(flags.load, flags.save);
    return resumes ? Restore(flags, world).run(damaged) : -1;
}

}  // namespace lm::train
