// SPDX-License-Identifier: Apache-2.0
#include "train/log/status_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/launcher.hpp"
#include "base/log.hpp"
#include "base/machine.hpp"
#include "base/problem_list.hpp"
#include "base/units.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/path.hpp"

namespace lm::train {
namespace {

constexpr double longest_silence_s = 60;  // between two writes, if an iteration is shorter
constexpr double slack_s = 30;            // added to `due` for a slow file system or a short pause

void set_time(io::OrderedJson& fields, const char* key, double unix_s) {
    fields[key] = unix_s;
    fields[std::string(key) + "_utc"] = iso_time(static_cast<i64>(unix_s));
}

// Sets the fields that identify the writing process.
void set_writer(io::OrderedJson& fields, int rank) {
    const auto text = [](const char* name) {
        const char* const value = environment_of_process(name);
        return std::string(value == nullptr ? "" : value);
    };
    fields["rank"] = rank;
    fields["host"] = host_name();
    fields["process"] = ::getpid();
    fields["job"] = slurm_job();
    fields["job_name"] = text("SLURM_JOB_NAME");
    fields["nodes"] = text("SLURM_JOB_NODELIST");
}

// Returns the rank that the launcher states; 0 when the launcher states no rank or an invalid rank.
int rank_of_process() {
    try {
        return launched_by({Launcher::open_mpi, Launcher::pmi, Launcher::torchrun, Launcher::pmix,
                            Launcher::slurm})
            .rank;
    } catch (const Error&) {
        return 0;
    }
}

// Returns the JSON object in the file `path`; an empty object when the file has no object or is no
// file that can be read: a fault of the file system during the run must not change how it ends.
io::OrderedJson read_if_any(const std::string& path) {
    try {
        if (!io::exists(path)) return io::OrderedJson::object();
        io::OrderedJson fields = io::ordered_json_or_null(io::read_file(path));
        return fields.is_object() ? fields : io::OrderedJson::object();
    } catch (const Error&) {
        return io::OrderedJson::object();
    }
}

double number_in(const io::OrderedJson& fields, const char* key) {
    const auto found = fields.find(key);
    return found != fields.end() && found->is_number() ? found->get<double>() : 0;
}

// Returns whether this process wrote the file last.
bool is_own(const io::OrderedJson& fields) {
    return fields.value("host", "") == host_name() && number_in(fields, "process") == ::getpid();
}

// Returns whether a rank of this run has already written an error.
bool has_error(const io::OrderedJson& fields, double started_s) {
    const auto state = fields.find("state");
    return state != fields.end() && *state == state_of(Exit::failure) &&
           number_in(fields, "time") >= started_s;
}

}  // namespace

const char* state_of(Exit code) {
    switch (code) {
        case Exit::done:
            return "finished";
        case Exit::run_again:
        case Exit::do_not_run_again:
            return "stopped";
        case Exit::answer_is_no:
        case Exit::usage:
        case Exit::failure:
        case Exit::self_stopped:
        case Exit::bug:
        case Exit::superseded:
            break;
    }
    return "failed";
}

StatusFile::StatusFile(StatusSettings settings, bool is_rank0)
    : settings_(std::move(settings)), active_(is_rank0 && !settings_.path.empty()) {}

void StatusFile::start() {
    if (!active_) return;
    for (const std::string& path : io::stale_temporaries(settings_.path)) io::remove_tree(path);
    fields_ = {{"state", ""}, {"exit_code", nullptr}, {"reason", ""}};
    set_writer(fields_, 0);
    set_time(fields_, "started", unix_time_s());
    fields_["run_id"] = "";
    fields_["generation"] = nullptr;
    fields_["save"] = settings_.save;
    fields_["ranks"] = settings_.n_ranks;
    fields_["iteration"] = nullptr;
    fields_["total_iterations"] = settings_.total_iterations;
    fields_["consumed_samples"] = nullptr;
    fields_["step_s"] = nullptr;
    fields_["saved_iteration"] = nullptr;
    fields_["failed_saves"] = 0;
    fields_["local_saved_iteration"] = nullptr;
    fields_["failed_local_saves"] = 0;
    fields_["step_bytes"] = nullptr;
    fields_["growing_saves"] = nullptr;
    failing_ = true;  // no warning: check_writable() may refuse the file, else the next write warns
    write("starting", settings_.timeout_s);
    failing_ = false;
}

void StatusFile::claimed(const std::string& run_id, i64 generation) {
    if (!active_) return;
    fields_["run_id"] = run_id;
    fields_["generation"] = generation;
    write("starting", settings_.timeout_s);
}

void StatusFile::planned(const ComingSaves& saves) {
    if (!active_) return;
    fields_["step_bytes"] = saves.step_bytes;
    fields_["growing_saves"] = saves.growing;
}

void StatusFile::resumed(i64 done, i64 samples) {
    if (!active_) return;
    fields_["iteration"] = done;
    fields_["consumed_samples"] = samples;
}

void StatusFile::iteration(i64 done, i64 samples, double step_s, bool logged) {
    if (!active_) return;
    const bool first = fields_["step_s"].is_null();
    step_s_ = step_s;
    fields_["iteration"] = done;
    fields_["consumed_samples"] = samples;
    fields_["step_s"] = step_s;
    if (!logged && !first && since_write_.elapsed_s() < longest_silence_s) return;
    const double interval_s = static_cast<double>(settings_.log_interval) * step_s;
    const double period_s = std::min(interval_s, std::max(longest_silence_s, step_s));
    write("running", 3 * period_s + slack_s);
}

void StatusFile::saved(i64 iteration, i64 n_failed) {
    if (!active_) return;
    if (iteration >= 0) fields_["saved_iteration"] = iteration;
    fields_["failed_saves"] = n_failed;
}

void StatusFile::saved_locally(i64 iteration, i64 n_failed) {
    if (!active_) return;
    if (iteration >= 0) fields_["local_saved_iteration"] = iteration;
    fields_["failed_local_saves"] = n_failed;
}

void StatusFile::busy(const char* state, double expected_s) {
    if (active_) write(state, 3 * (expected_s + step_s_) + settings_.timeout_s);
}

void StatusFile::stopping(const std::string& reason) {
    if (!active_) return;
    fields_["reason"] = reason;
    write("stopping", settings_.timeout_s);
}

void StatusFile::write(const char* state, double due_in_s) {
    // While the directory does not exist, no status file is written. A directory below --save is
    // created later, and check_writable() reports any other missing directory.
    if (!io::is_directory(io::parent_of(settings_.path))) return;
    const double now = unix_time_s();
    fields_["state"] = state;
    set_time(fields_, "time", now);
    set_time(fields_, "due", now + due_in_s + slack_s);
    since_write_.restart();
    try {
        // If a newer start uses the same file, this start does not write to it, and stops at its
        // next save.
        const double generation = number_in(fields_, "generation");
        if (generation > 0 && number_in(read_if_any(settings_.path), "generation") > generation) {
            return;
        }
        io::write_file(settings_.path, io::json_text(fields_), io::Overwrite::yes);
        failing_ = false;
    } catch (const Error& error) {
        if (!failing_) warn("{}: training continues without the status file", error.what());
        failing_ = true;
    }
}

int with_end_status(const std::string& path, const std::function<int()>& body) {
    const double started_s = unix_time_s();
    const int rank = rank_of_process();
    try {
        const int code = body();
        if (rank == 0) end_status(path, {.code = static_cast<Exit>(code), .rank = rank}, started_s);
        return code;
    } catch (const std::exception& exception) {
        const Error error = error_of(exception);
        const bool on_all_ranks = dynamic_cast<const JointError*>(&exception) != nullptr;
        if (rank == 0 || !on_all_ranks) {
            end_status(path, {error.code(), summary_of(error.what()), rank}, started_s);
        }
        throw;
    }
}

void end_status(const std::string& path, const RunEnd& end, double started_s) {
    if (path.empty() || !io::is_directory(io::parent_of(path))) return;
    bool had_state = false;
    try {
        io::OrderedJson fields = read_if_any(path);
        had_state = !fields.empty();
        // The file may belong to the run that has superseded this run.
        if (end.code == Exit::superseded && !is_own(fields)) return;
        if (end.code != Exit::done && has_error(fields, started_s)) return;
        // After an error before StatusFile::start(), the file still has the fields of an earlier
        // run.
        if (number_in(fields, "started") < started_s) fields = {{"state", ""}};
        fields["state"] = state_of(end.code);
        fields["exit_code"] = static_cast<int>(end.code);
        if (!end.reason.empty() || !fields.contains("reason")) fields["reason"] = end.reason;
        set_writer(fields, end.rank);
        set_time(fields, "time", unix_time_s());
        fields["due"] = nullptr;
        fields["due_utc"] = nullptr;
        io::write_file(path, io::json_text(fields), io::Overwrite::yes);
    } catch (const std::exception& error) {
        // Without a state the file states nothing false, and an earlier error has named the reason.
        if (had_state) warn("{}: the status file does not state the end of this run", error.what());
    }
}

}  // namespace lm::train
