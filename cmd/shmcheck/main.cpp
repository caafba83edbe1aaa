// SPDX-License-Identifier: Apache-2.0
// lm-shmcheck: is there enough shared memory on this host, and who holds it?
#include "cli/main.hpp"

#include <algorithm>
#include <ctime>
#include <iostream>
#include <optional>
#include <string>
#include <thread>

#include "base/launcher.hpp"
#include "base/log.hpp"
#include "base/machine.hpp"
#include "base/units.hpp"
#include "cli/signals.hpp"
#include "render.hpp"
#include "summary.hpp"

namespace lm::shmcheck {
namespace {

constexpr const char* directory = "/dev/shm";
constexpr i64 min_age_s = 60;  // of a segment that --remove may remove

struct Flags {
    std::string warn = "80%";
    std::string crit = "95%";
    std::optional<cli::Duration> watch;
    std::optional<cli::Bytes> stress;
    cli::Bytes min_size;
    bool stale = false;
    bool remove = false;
    bool limits = false;
    bool summary = false;
    bool json = false;
};

struct Thresholds {
    double warning = 0;
    double critical = 0;
};

double parse_percent(std::string_view flag, std::string text) {
    if (text.ends_with('%')) text.pop_back();
    const double value = parse_number(flag, text);
    if (!(value >= 0 && value <= 100)) usage_error(flag, "{} is not between 0 and 100 %", value);
    return value / 100;
}

void judge(Sample& sample, const Thresholds& thresholds) {
    const auto look = [&](double use, const char* what) {
        const bool critical = use >= thresholds.critical;
        if (!critical && use < thresholds.warning) return;
        const Health health = critical ? Health::critical : Health::warning;
        if (health <= sample.health) return;
        sample.health = health;
        sample.reason = fmt::format("{:.1f} % of its {} are used ({} from {:g} %)", 100 * use, what,
                                    name_of(health),
                                    100 * (critical ? thresholds.critical : thresholds.warning));
    };
    look(sample.memory.use.use(), "bytes");
    look(sample.memory.use.inode_use(), "inodes");
}

Sample take_sample(const Thresholds& thresholds) {
    Sample sample;
    sample.host = host_name();
    sample.filesystem = directory;
    sample.time = iso_time(std::time(nullptr));
    sample.memory = cluster::read_shared_memory(directory);
    judge(sample, thresholds);
    return sample;
}

void complain(const Sample& sample) {
    if (sample.health != Health::ok) warn("{}: {}: {}", sample.host, directory, sample.reason);
}

void print_sample(const Sample& sample, const Flags& flags, bool with_heading) {
    const Shown shown{flags.min_size.value, flags.stale, flags.watch.has_value()};
    if (with_heading && !flags.json) cli::write_stdout(heading_text(shown));
    cli::write_stdout(flags.json ? sample_json(sample, shown) : sample_text(sample, shown));
    cli::flush_stdout();
    complain(sample);
}

void sleep_until_stopped(double seconds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (std::chrono::steady_clock::now() < end &&
           cli::stop_requested() == cli::StopRequest::none) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
}

// Until a signal asks to stop.
Health watch(const Flags& flags, const Thresholds& thresholds) {
    cli::install_stop_signals();
    Health worst = Health::ok;
    i64 highest = 0;
    for (bool first = true; cli::stop_requested() == cli::StopRequest::none; first = false) {
        Sample sample = take_sample(thresholds);
        highest = std::max(highest, sample.memory.use.used);
        sample.highest_used = highest;
        print_sample(sample, flags, first);
        worst = std::max(worst, sample.health);
        sleep_until_stopped(flags.watch->seconds);
    }
    return worst;
}

bool remove_dead(const Sample& sample, i64 min_size) {
    bool all_removed = true;
    for (const cluster::Segment& segment : sample.memory.segments) {
        if (segment.state != cluster::SegmentState::dead || segment.bytes < min_size) continue;
        const cluster::Removal removal = remove_if_dead(directory, segment, min_age_s);
        if (removal.removed) {
            note("{}: {}: removed, {} freed", sample.host, segment.name, human_size(segment.bytes));
        } else {
            warn("{}: {}: not removed: {}", sample.host, segment.name, removal.reason);
            all_removed = false;
        }
    }
    return all_removed;
}

// --stale asks whether there are dead segments: that is the answer then.
bool has_dead(const Sample& sample, i64 min_size) {
    return std::ranges::any_of(sample.memory.segments, [min_size](const auto& segment) {
        return segment.state == cluster::SegmentState::dead && segment.bytes >= min_size;
    });
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

void check_flags(const Flags& flags) {
    if (flags.remove && !flags.stale) usage_error("--remove", "needs --stale");
    if (flags.watch && !(flags.watch->seconds >= 0.1)) {
        usage_error("--watch", "{} s is less than 0.1 s", flags.watch->seconds);
    }
    if (flags.summary &&
        (flags.watch || flags.remove || flags.stress || flags.limits || flags.json)) {
        usage_error("--summary", "cannot be combined with other options than --stale");
    }
    if (flags.watch && (flags.remove || flags.stress || flags.limits)) {
        usage_error("--watch", "cannot be combined with --remove, --stress or --limits");
    }
}

// Of other hosts; this one is not looked at.
int summarize(bool asks_for_dead) {
    const Summary summary = summary_of(std::cin);
    cli::write_stdout(summary.text);
    const bool healthy = summary.healthy && !(asks_for_dead && summary.has_dead);
    return static_cast<int>(healthy ? Exit::done : Exit::answer_is_no);
}

// Of the processes that a launcher has started on this host the first one speaks for all.
bool speaks_for_host() {
    return rank_on_host().value_or(0) == 0;
}

int run(const Flags& flags) {
    check_flags(flags);
    if (flags.summary) return summarize(flags.stale);
    const Thresholds thresholds{parse_percent("--warn", flags.warn),
                                parse_percent("--crit", flags.crit)};
    if (thresholds.warning > thresholds.critical) {
        usage_error("--warn", "{} is above --crit {}: it would never be the first to be passed",
                    flags.warn, flags.crit);
    }
    if (!speaks_for_host()) return static_cast<int>(Exit::done);
    const auto exit_code = [](bool healthy) {
        return static_cast<int>(healthy ? Exit::done : Exit::answer_is_no);
    };
    if (flags.watch) return exit_code(watch(flags, thresholds) == Health::ok);
    const Sample sample = take_sample(thresholds);
    print_sample(sample, flags, true);
    bool healthy = sample.health == Health::ok;
    if (flags.limits) cli::write_stdout(flags.json ? limits_json() : "\n" + limits_text());
    if (flags.remove) {
        const bool all_removed = remove_dead(sample, flags.min_size.value);
        healthy = all_removed && take_sample(thresholds).health == Health::ok;
    } else if (flags.stale) {
        healthy = !has_dead(sample, flags.min_size.value) && healthy;
    }
    if (flags.stress) healthy = stress(flags) && healthy;
    return exit_code(healthy);
}

void declare(cli::Options& options, Flags& flags) {
    options.group("Thresholds");
    options.value("--warn", &flags.warn, "PERCENT", "warn from this share of bytes or inodes on");
    options.value("--crit", &flags.crit, "PERCENT", "critical from this share on");
    options.group("What to do");
    options.value("--watch", &flags.watch, "TIME", "look again every TIME until interrupted");
    options.flag(
        "--stale", &flags.stale,
        "list only segments that no living process has open; exit with 1 if there are any");
    options.flag("--remove", &flags.remove,
                 "with --stale: remove those that did not change for a minute");
    options.value("--stress", &flags.stress, "SIZE",
                  "allocate and touch SIZE in a child process, then free it");
    options.flag("--limits", &flags.limits,
                 "print limits of memory, files, huge pages, control group and tmpfs mounts");
    options.group("Output");
    options.value("--min-size", &flags.min_size, "SIZE", "list only segments of at least SIZE");
    options.flag("--json", &flags.json, "print JSON Lines");
    options.flag("--summary", &flags.summary,
                 "read the --json lines of many hosts from standard input; print one line for each "
                 "thing found");
    options.exits_with(Exit::answer_is_no,
                       "a threshold was passed, --stale found segments or could not remove one, or "
                       "--stress failed");
    options.epilogue(
        "Examples:\n"
        "  lm-shmcheck --warn 70% --min-size 1GiB\n"
        "  lm-shmcheck --watch 10s --json\n");
}

}  // namespace
}  // namespace lm::shmcheck

int main(int argc, char** argv) {
    lm::cli::Options options("lm-shmcheck", "shared memory of this host: how full, and whose");
    lm::shmcheck::Flags flags;
    lm::shmcheck::declare(options, flags);
    return lm::cli::run_main(argc, argv, options, [&flags] { return lm::shmcheck::run(flags); });
}
