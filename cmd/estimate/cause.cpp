// SPDX-License-Identifier: Apache-2.0
#include "eta_parts.hpp"

#include <memory>
#include <optional>

#include "base/error.hpp"
#include "base/log.hpp"
#include "cli/main.hpp"
#include "io/inputs.hpp"
#include "io/lines.hpp"
#include "metrics/log_cause.hpp"

namespace lm::estimate {

int print_cause(const std::vector<std::string>& logs, const OutputFlags& output) {
    std::optional<metrics::Cause> found;
    std::string name;
    i64 n_lines = 0;
    for (const std::string& path : logs) {
        const std::unique_ptr<io::InputStream> stream = io::open_stream(path);
        metrics::LogCause log;
        io::for_each_line(*stream, [&log](std::string_view line) { log.add(line); });
        n_lines += log.n_lines();
        const std::optional<metrics::Cause>& root = log.root() ? log.root() : log.hint();
        if (!root || (found && found->rule->strength >= root->rule->strength)) continue;
        found = root;
        name = io::input_name(path);
    }
    if (!found) {
        warn(
            "no line of the logs states why the job ended (number of lines: {}), so the job is "
            "still running or was killed: add the logs of Slurm or of the launcher to the "
            "arguments",
            n_lines);
        return static_cast<int>(Exit::answer_is_no);
    }
    const bool known = found->rule->kind != metrics::unknown_cause;
    if (!known)
        warn(
            "no line states why the job ended: the printed line is the last one that reports a "
            "failure");
    std::vector<Figure> figures;
    figures.push_back({"cause", "cause", Unit::plain, std::string(found->rule->kind),
                       "message of " + std::string(found->rule->source)});
    if (found->rank) {
        figures.push_back({"rank", "rank", Unit::count, *found->rank,
                           "the first rank that a message of an error names"});
    }
    if (!found->host.empty()) {
        figures.push_back({"host", "host", Unit::plain, found->host,
                           "the host of this rank, or the one that failed"});
    }
    if (found->signal) {
        figures.push_back(
            {"signal", "signal", Unit::count, *found->signal, "number of the signal"});
    }
    if (output.json) {
        figures.push_back({"log", "log", Unit::plain, name, ""});
        figures.push_back({"line_number", "line", Unit::count, found->line_number, ""});
        figures.push_back({"line", "message", Unit::plain, found->line, ""});
    } else {
        cli::write_text("{}:{}: {}\n", name, found->line_number, found->line);
    }
    Printout printout;
    printout.figures("why", std::move(figures));
    printout.print(output);
    return static_cast<int>(known ? Exit::done : Exit::answer_is_no);
}

}  // namespace lm::estimate
