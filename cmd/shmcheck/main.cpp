// SPDX-License-Identifier: Apache-2.0
// lm-shmcheck: checks how full the shared memory of this host is, and which processes hold it; with
// --node, compares the hosts of a job.
#include "cli/main.hpp"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <optional>
#include <string>
#include <thread>

#include "base/bounds.hpp"
#include "base/launcher.hpp"
#include "base/log.hpp"
#include "base/machine.hpp"
#include "base/units.hpp"
#include "cli/signals.hpp"
#include "cli/terminal.hpp"
#include "parts.hpp"

namespace lm::shmcheck {
namespace {

constexpr const char* directory = "/dev/shm";

constexpr const char* default_warn = "80%";
constexpr const char* default_crit = "95%";

struct Flags {
    std::string warn = default_warn;
    std::string crit = default_crit;
    std::optional<cli::Duration> watch;
    std::optional<cli::Bytes> stress;
    cli::Bytes min_size;
    bool stale = false;
    bool remove = false;
    std::optional<std::string> name;
    std::optional<std::string> user;
    std::optional<cli::Duration> older;
    bool limits = false;
    bool summary = false;
    std::optional<std::string> hosts_expected;
    bool json = false;
    bool node = false;
    std::vector<std::string> paths;  // directories that --node examines

    // Returns whether an option is set that neither --node nor --summary uses.
    bool has_sample_options() const {
        return watch || stress || remove || limits || warn != default_warn ||
               crit != default_crit || min_size.value > 0;
    }
};

using Thresholds = cluster::HealthThresholds;

double parse_percent(std::string_view flag, std::string text) {
    if (text.ends_with('%')) text.pop_back();
    const double value = parse_number(flag, text);
    if (!(value >= 0 && value <= 100)) usage_error(flag, "{} is not between 0 and 100 %", value);
    return value / 100;
}

// Removes this process from the owners of segments that other processes own, too, because this
// process only inherits the open files of the shell that started it.
void omit_this_process(std::vector<cluster::Segment>& segments) {
    for (cluster::Segment& segment : segments) {
        if (segment.owners.size() < 2) continue;
        std::erase_if(segment.owners,
                      [](const cluster::Process& process) { return process.pid == getpid(); });
    }
}

Sample take_sample(const Thresholds& thresholds) {
    Sample sample;
    sample.host = host_name();
    sample.filesystem = directory;
    sample.time = iso_time(std::time(nullptr));
    sample.memory = cluster::read_shared_memory(directory);
    omit_this_process(sample.memory.segments);
    const cluster::HealthVerdict verdict = cluster::judge_use(sample.memory.use, thresholds);
    sample.health = verdict.health;
    sample.reason = verdict.reason;
    return sample;
}

cluster::SegmentSelection selection_of(const Flags& flags) {
    cluster::SegmentSelection selection{.name = flags.name, .min_bytes = flags.min_size.value};
    if (flags.older) selection.older_s = static_cast<i64>(flags.older->seconds);
    if (flags.user) {
        selection.uid = cluster::uid_of(*flags.user);
        if (!selection.uid) usage_error("--user", "'{}' is not a user of this host", *flags.user);
    }
    return selection;
}

void print_sample(const Sample& sample, const Flags& flags, bool with_heading) {
    const Shown shown{.selection = selection_of(flags),
                      .only_removable = flags.stale,
                      .watching = flags.watch.has_value(),
                      .width = static_cast<size_t>(cli::terminal_width(STDOUT_FILENO, 0))};
    if (with_heading && !flags.json) cli::write_stdout(heading_text(shown));
    cli::write_stdout(flags.json ? sample_json(sample, shown) : sample_text(sample, shown));
    cli::flush_stdout();
    if (sample.health != Health::ok) warn("{}: {}: {}", sample.host, directory, sample.reason);
}

void sleep_until_stopped(double seconds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (std::chrono::steady_clock::now() < end &&
           cli::stop_requested() == cli::StopRequest::none) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
}

// Returns the values of a sample as a text. --watch prints a sample only when this text has
// changed.
std::string state_of(Sample sample) {
    sample.time.clear();
    sample.highest_used = 0;
    return sample_json(sample, {});
}

// Takes a sample every flags.watch seconds until a signal stops the program. Prints the first
// sample, and each sample that differs from the previous one. Returns the worst health of all
// samples.
Health watch(const Flags& flags, const Thresholds& thresholds) {
    cli::install_stop_signals();
    Health worst = Health::ok;
    i64 highest = 0;
    std::string before;
    while (cli::stop_requested() == cli::StopRequest::none) {
        Sample sample = take_sample(thresholds);
        highest = std::max(highest, sample.memory.use.used);
        sample.highest_used = highest;
        const std::string state = state_of(sample);
        if (state != before) print_sample(sample, flags, before.empty());
        before = state;
        worst = std::max(worst, sample.health);
        sleep_until_stopped(flags.watch->seconds);
    }
    return worst;
}

std::vector<cluster::Segment> removable_in(const Sample& sample,
                                           const cluster::SegmentSelection& selection) {
    std::vector<cluster::Segment> result;
    for (const cluster::Segment& segment : sample.memory.segments) {
        if (cluster::selects(selection, directory, segment) &&
            cluster::is_removable(selection, directory, segment)) {
            result.push_back(segment);
        }
    }
    return result;
}

// Removes the removable segments of the selection. Returns whether all of them were removed.
bool remove_segments(const Sample& sample, const cluster::SegmentSelection& selection) {
    const std::vector<cluster::Segment> segments = removable_in(sample, selection);
    bool all_removed = true;
    for (const cluster::Segment& segment : segments) {
        const cluster::Removal removal = cluster::remove_segment(directory, segment, selection);
        if (removal.removed) {
            note("{}: {}: removed, {} freed", sample.host, segment.name, human_size(segment.bytes));
        } else {
            warn("{}: {}: not removed: {}", sample.host, segment.name, removal.reason);
            all_removed = false;
        }
    }
    return all_removed;
}

bool stress(const Flags& flags) {
    const i64 wanted = flags.stress->value;
    const cluster::StressResult result = cluster::stress_shared_memory(directory, wanted);
    cli::write_stdout(flags.json ? stress_json(result, wanted) : stress_text(result, wanted));
    if (!result.passed) {
        const std::string when =
            result.touched > 0 ? fmt::format("after {}: ", human_size(result.touched)) : "";
        warn("{}: {}: {}{}", host_name(), directory, when, result.reason);
    }
    return result.passed;
}

void check_selection(const char* flag, const Flags& flags) {
    if (!flags.stale || flags.summary) usage_error(flag, "needs --stale, without --summary");
}

void check_flags(const Flags& flags) {
    if (!flags.paths.empty() && !flags.node)
        usage_error(flags.paths.front(), "unexpected operand: only --node checks paths");
    if (flags.node && (flags.has_sample_options() || flags.summary || flags.stale)) {
        usage_error("--node", "cannot be combined with other options than --json");
    }
    if (flags.stress) check_at_least("--stress", flags.stress->value, 1);
    if (flags.remove && !flags.stale) usage_error("--remove", "needs --stale");
    if (flags.name) check_selection("--name", flags);
    if (flags.user) check_selection("--user", flags);
    if (flags.older) check_selection("--older", flags);
    if (flags.watch && !(flags.watch->seconds >= 0.1)) {
        usage_error("--watch", "{} s is less than 0.1 s", flags.watch->seconds);
    }
    if (flags.summary && (flags.has_sample_options() || flags.json)) {
        usage_error("--summary",
                    "cannot be combined with other options than --stale and --hosts-expected");
    }
    if (flags.hosts_expected && !flags.summary) usage_error("--hosts-expected", "needs --summary");
    if (flags.watch && (flags.remove || flags.stress || flags.limits)) {
        usage_error("--watch", "cannot be combined with --remove, --stress or --limits");
    }
}

// Returns whether this process prints. When a launcher started several processes on a host, only
// one prints.
bool is_first_on_host() {
    return rank_on_host().value_or(0) == 0;
}

int run(const Flags& flags) {
    check_flags(flags);
    if (flags.summary) return summarize(flags.hosts_expected, flags.stale);
    if (flags.node) return check_nodes(flags.paths, flags.json);
    const Thresholds thresholds{parse_percent("--warn", flags.warn),
                                parse_percent("--crit", flags.crit)};
    if (thresholds.warning > thresholds.critical) {
        usage_error("--warn", "{} is above --crit {}: give at most {}", flags.warn, flags.crit,
                    flags.crit);
    }
    if (!is_first_on_host()) return static_cast<int>(Exit::done);
    const auto exit_code = [](bool healthy) {
        return static_cast<int>(healthy ? Exit::done : Exit::answer_is_no);
    };
    if (flags.watch) return exit_code(watch(flags, thresholds) == Health::ok);
    const Sample sample = take_sample(thresholds);
    print_sample(sample, flags, true);
    bool healthy = sample.health == Health::ok;
    if (flags.limits) cli::write_stdout(flags.json ? limits_json() : "\n" + limits_text());
    if (flags.remove) {
        // A pipe may have delayed the list.
        const bool all_removed = remove_segments(take_sample(thresholds), selection_of(flags));
        healthy = all_removed && take_sample(thresholds).health == Health::ok;
    } else if (flags.stale) {
        healthy = removable_in(sample, selection_of(flags)).empty() && healthy;
    }
    if (flags.stress) healthy = stress(flags) && healthy;
    return exit_code(healthy);
}

void declare(cli::Options& options, Flags& flags) {
    options.group("Thresholds");
    options.value("--warn", &flags.warn, "PERCENT",
                  "warn when this share of the bytes or inodes is used");
    options.value("--crit", &flags.crit, "PERCENT", "report critical when this share is used");
    options.group("Actions");
    options.value("--watch", &flags.watch, "TIME",
                  "take a sample every TIME until interrupted; print it if something has changed");
    options.flag("--stale", &flags.stale,
                 "list only segments that killed programs left over, and files of --name that no "
                 "process has open; exit with 1 if one exists");
    options.flag("--remove", &flags.remove,
                 "with --stale: remove the segments that did not change for a minute, or for the "
                 "time of --older; files of checkpoint steps are kept");
    options.value("--name", &flags.name, "PATTERN",
                  "with --stale: only these names below /dev/shm, also of files that no known "
                  "library made");
    options.value("--older", &flags.older, "TIME",
                  "with --stale: only segments that did not change for TIME, also of libraries "
                  "whose names have no process id");
    options.value("--user", &flags.user, "USER", "with --stale: only segments of this user");
    options.value("--stress", &flags.stress, "SIZE",
                  "allocate and touch SIZE of shared memory in a child process, then free it");
    options.flag("--limits", &flags.limits,
                 "print limits of memory, files, huge pages, control group and tmpfs mounts");
    options.flag("--node", &flags.node,
                 "compare the hosts of the job: clocks, memory, limits, processors, network, and "
                 "the directories PATH; the last line lists the outliers for sbatch");
    options.positionals_or_none("PATH", &flags.paths,
                                "a directory that --node examines on every host");
    options.group("Output");
    options.value("--min-size", &flags.min_size, "SIZE", "list only segments of at least SIZE");
    options.flag("--json", &flags.json, "print JSON Lines");
    options.flag("--summary", &flags.summary,
                 "read the --json lines of many hosts from standard input; print one line for each "
                 "finding, also while the input pauses");
    options.value("--hosts-expected", &flags.hosts_expected, "N|LIST",
                  "with --summary: the number of hosts, or their list as $SLURM_JOB_NODELIST; "
                  "missing hosts are named; exit with 1 if a host is missing");
    options.exits_with(Exit::answer_is_no,
                       "a threshold was exceeded, --stale found segments or could not remove one, "
                       "--stress failed, --node found outliers, or --summary found a missing host");
    options.examples({"lm-shmcheck --warn 70% --min-size 1GiB", "lm-shmcheck --watch 10s --json",
                      "srun lm-shmcheck --node"});
}

}  // namespace
}  // namespace lm::shmcheck

int main(int argc, char** argv) {
    lm::cli::Options options("lm-shmcheck", "report use and owners of this host's shared memory");
    lm::shmcheck::Flags flags;
    lm::shmcheck::declare(options, flags);
    return lm::cli::run_main(argc, argv, options, [&flags] { return lm::shmcheck::run(flags); });
}
