// SPDX-License-Identifier: Apache-2.0
#include "parts.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/host_list.hpp"
#include "base/units.hpp"
#include "cli/main.hpp"
#include "cli/terminal.hpp"
#include "cluster/host_summary.hpp"

namespace lm::shmcheck {
namespace {

constexpr const char* source = "standard input";

cluster::ExpectedHosts parse_expected(const std::string& text) {
    constexpr const char* flag = "--hosts-expected";
    // Outside of a job, "$SLURM_JOB_NODELIST" gives an empty text. With an empty list of hosts, no
    // host would count as missing.
    if (text.empty()) usage_error(flag, "is empty: give a number or a list of hosts");
    if (text.find_first_not_of("0123456789_") == text.npos) {
        const i64 n = parse_count(flag, text);
        if (n < 1) usage_error(flag, "must be at least 1, got {}", n);
        return {.n = n, .names = {}};
    }
    const auto names = expand_hosts(text);
    if (!names) {
        usage_error(flag, "'{}' is neither a number nor a list of hosts such as n[001-004],login1",
                    text);
    }
    return {.n = static_cast<i64>(names->size()), .names = *names};
}

// Lines of standard input.
class LineInput {
  public:
    enum class Event { lines, pause, end };

    // Waits for input, and calls `each` for each complete line that arrived. Returns `pause` when
    // no input arrived for `pause_ms`.
    template <typename F>
    Event read(int pause_ms, const F& each) {
        pollfd poll_fd{STDIN_FILENO, POLLIN, 0};
        const int ready = ::poll(&poll_fd, 1, pause_ms);
        if (ready == 0) return Event::pause;
        char buffer[65536];
        const ssize_t n = ready < 0 ? -1 : ::read(STDIN_FILENO, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) return Event::lines;
        if (n < 0) run_error(source, "cannot read: {}", std::strerror(errno));
        if (n == 0) {
            if (!rest_.empty()) each(std::string_view(rest_));
            return Event::end;
        }
        rest_.append(buffer, static_cast<size_t>(n));
        size_t begin = 0;
        for (size_t end; (end = rest_.find('\n', begin)) != rest_.npos; begin = end + 1) {
            each(std::string_view(rest_).substr(begin, end - begin));
        }
        rest_.erase(0, begin);
        return Event::lines;
    }

  private:
    std::string rest_;  // an incomplete line
};

}  // namespace

int summarize(const std::optional<std::string>& hosts_expected, bool fail_on_dead) {
    constexpr int pause_ms = 1000;
    const cluster::ExpectedHosts expected =
        hosts_expected ? parse_expected(*hosts_expected) : cluster::ExpectedHosts{};
    cluster::HostLines hosts;
    LineInput input;
    std::string printed;
    bool waiting = false;  // the summary of this pause has been printed
    while (true) {
        const auto event = input.read(waiting ? -1 : pause_ms, [&](auto line) {
            if (!hosts.add(line))
                cli::print_line(printable(line));  // an error of srun, or a warning
        });
        waiting = event == LineInput::Event::pause;
        const bool ended = event == LineInput::Event::end;
        if (ended) hosts.finish();
        if (ended && hosts.empty())
            run_error(source,
                      "contains no host: pipe the output of lm-shmcheck --json into lm-shmcheck "
                      "--summary");
        if (event == LineInput::Event::lines || hosts.empty()) continue;
        const cluster::HostSummary summary = hosts.summary(expected);
        if (summary.text != printed) {
            if (!printed.empty()) cli::write_stdout("\n");
            cli::write_stdout(printable_lines(summary.text));
            cli::flush_stdout();
            printed = summary.text;
        }
        if (!ended) continue;
        const bool healthy = summary.healthy && !(fail_on_dead && summary.has_dead);
        return static_cast<int>(healthy ? Exit::done : Exit::answer_is_no);
    }
}

}  // namespace lm::shmcheck
