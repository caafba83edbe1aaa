// SPDX-License-Identifier: Apache-2.0
#include "eta_parts.hpp"

#include <unistd.h>

#include <chrono>
#include <optional>
#include <thread>

#include "base/error.hpp"
#include "cli/main.hpp"
#include "metrics/log_cause.hpp"
#include "metrics/log_tail.hpp"

namespace lm::estimate {
namespace {

// A log that is followed. `tail` reads its new lines, `cause` finds the end of the run in them.
struct Followed {
    std::string path;
    metrics::LogTail tail;
    metrics::LogCause cause;
};

// Passes the new lines of all logs to `reader`. Returns their number.
i64 read_new_lines(std::vector<Followed>& logs, metrics::LogReader& reader) {
    i64 n_lines = 0;
    for (Followed& log : logs) {
        n_lines += log.tail.poll([&](std::string_view line) {
            reader.add(line);
            log.cause.add(line);
        });
    }
    return n_lines;
}

// Returns the log whose message states the end of the run most clearly; nullptr when no log states
// an end.
const Followed* ended_log(const std::vector<Followed>& logs) {
    const Followed* ended = nullptr;
    for (const Followed& log : logs) {
        if (!log.cause.root()) continue;
        if (ended && ended->cause.root()->rule->strength >= log.cause.root()->rule->strength) {
            continue;
        }
        ended = &log;
    }
    return ended;
}

void show(const metrics::LogSummary& now, const FollowOutput& output) {
    if (::isatty(STDOUT_FILENO) == 0) {
        cli::write_stdout(now.empty() ? "no iteration yet\n" : output.one_line(now) + "\n");
        return;
    }
    constexpr const char* clear_screen = "\033[H\033[2J";
    cli::write_stdout(clear_screen);
    if (now.empty()) {
        cli::write_stdout("no iteration yet\n");
    } else {
        output.print_all(now);
    }
}

}  // namespace

int follow_logs(const std::vector<std::string>& logs, metrics::LogReader& reader, double interval_s,
                const FollowOutput& output) {
    std::vector<Followed> followed;
    for (const std::string& path : logs) {
        followed.push_back({path, metrics::LogTail(path), metrics::LogCause()});
    }
    while (true) {
        const i64 n_lines = read_new_lines(followed, reader);
        show(reader.summary(), output);
        const Followed* const ended = ended_log(followed);
        if (ended != nullptr && n_lines == 0) {
            const metrics::Cause& cause = *ended->cause.root();
            cli::write_text("{}: {}:{}: {}\n", cause.rule->kind, ended->path, cause.line_number,
                            cause.line);
            const bool planned = cause.rule->kind == "finished" || cause.rule->kind == "stopped";
            return static_cast<int>(planned ? Exit::done : Exit::answer_is_no);
        }
        std::this_thread::sleep_for(std::chrono::duration<double>(interval_s));
    }
}

}  // namespace lm::estimate
