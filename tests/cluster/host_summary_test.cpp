// SPDX-License-Identifier: Apache-2.0
// The summary of the hosts' JSON lines: hosts that share a finding are in one line.
#include <sstream>

#include "cluster/host_summary.hpp"
#include "support/catch.hpp"

using namespace lm::cluster;

namespace {

std::string host_line(const std::string& host, const std::string& health, const std::string& reason,
                      int dead) {
    return R"({"kind":"host","host":")" + host + R"(","health":")" + health + R"(","reason":")" +
           reason + R"(","size":1024,"dead_segments":)" + std::to_string(dead) +
           R"(,"dead_bytes":512})" + "\n";
}

HostSummary summary_of(const std::string& lines) {
    std::istringstream stream(lines);
    return summarize_hosts(stream);
}

}  // namespace

TEST_CASE("hosts with the same finding share a line, and the last line of a host counts") {
    const HostSummary summary = summary_of(
        host_line("n1", "critical", "97.0 % of its bytes are used (critical from 95 %)", 0) +
        host_line("n2", "warning", "81.0 % of its bytes are used (warning from 80 %)", 0) +
        host_line("n3", "warning", "85.5 % of its bytes are used (warning from 80 %)", 2) +
        "\n{\"kind\":\"limits\"}\n" + host_line("n1", "ok", "", 0));
    CHECK_FALSE(summary.healthy);
    CHECK(summary.has_dead);
    CHECK(summary.text ==
          "3 hosts: 1 ok, 2 warning, 0 critical\n"
          "warning: 2 hosts, up to 85.5 % of its bytes are used (warning from 80 %): n[2-3]\n"
          "dead segments: 1 host, 2 of 512 B: n3\n");
    CHECK(summary_of(host_line("n1", "ok", "", 0)).healthy);
}

TEST_CASE("the summary lists the outliers of a node check for sbatch") {
    const std::string good = R"({"kind":"node","host":"n1","findings":[]})"
                             "\n";
    CHECK(summary_of(good).healthy);
    CHECK(summary_of(good).text == "node check: 1 host, 0 with findings\n");
    const HostSummary summary =
        summary_of(good + R"({"kind":"node","host":"n2","findings":["clock +3.0 s"]})");
    CHECK_FALSE(summary.healthy);
    CHECK(summary.text == "node check: 2 hosts, 1 with findings\nn2: clock +3.0 s\n--exclude=n2\n");
}

TEST_CASE("the summary names a line that is not of lm-shmcheck, and refuses no host") {
    CHECK_THROWS_WITH(summary_of(host_line("n1", "ok", "", 0) + "nonsense\n"),
                      ContainsSubstring("standard input: line 2: "));
    CHECK_THROWS_WITH(summary_of("{\"kind\":\"host\"}\n"), ContainsSubstring("line 1: "));
    CHECK_THROWS_WITH(summary_of("\n"), ContainsSubstring("contains no host"));
}
