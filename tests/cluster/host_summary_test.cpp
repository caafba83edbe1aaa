// SPDX-License-Identifier: Apache-2.0
// The summary of the hosts' JSON lines: hosts that share a finding are in one line.
#include <sstream>

#include "base/host_list.hpp"
#include "cluster/host_summary.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::cluster;

namespace {

std::string host_line(const std::string& host, const std::string& health, const std::string& reason,
                      int dead) {
    return R"({"kind":"host","host":")" + host + R"(","health":")" + health + R"(","reason":")" +
           reason + R"(","size":1024,"dead_segments":)" + std::to_string(dead) +
           R"(,"dead_bytes":512})" + "\n";
}

HostSummary summary_of(const std::string& lines) {
    HostLines hosts;
    std::istringstream stream(lines);
    for (std::string line; std::getline(stream, line);) hosts.add(line);
    return hosts.summary({});
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
          "dead segments: 1 host, 2 with 512 B: n3\n");
    CHECK(summary_of(host_line("n1", "ok", "", 0)).healthy);
}

TEST_CASE("the messages of srun --label are joined by task") {
    HostLines hosts;
    const auto line_of = [](const char* host, const std::string& reason, int dead) {
        std::string line = host_line(host, "ok", reason, dead);
        line.pop_back();  // the newline
        return line;
    };
    const std::string long_line = line_of("n1", std::string(2000, 'x'), 0);
    CHECK(hosts.add(" 3: " + long_line.substr(0, 1024)));
    CHECK(hosts.add("12: " + line_of("n2", "", 1)));
    CHECK(hosts.add(" 3: " + long_line.substr(1024)));
    CHECK_FALSE(hosts.add("12: a warning"));
    CHECK_NOTHROW(hosts.finish());
    CHECK(hosts.summary({}).text ==
          "2 hosts: 2 ok, 0 warning, 0 critical\ndead segments: 1 host, 1 with 512 B: n2\n");
    // A task that died within its line, and the one that took its place.
    CHECK(hosts.add("0: " + long_line.substr(0, 1024)));
    CHECK_THROWS(hosts.finish());
    CHECK(hosts.add("0: " + line_of("n4", "", 0)));
    CHECK_NOTHROW(hosts.finish());
    CHECK_THROWS(hosts.add("{\"kind\":\"ho{\"kind\":\"host\"}"));
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

TEST_CASE("the summary understands the table of a node check") {
    const std::string table =
        "HOST            CLOCK      FREE      SWAP  HUGEPAGE     NOFILE   MEMLOCK  PATHS\n"
        "n1             +0.000    12 GiB       0 B         0    1048576  64.0 KiB    1/1\n"
        "n2             -3.000    12 GiB       0 B         0    1048576  64.0 KiB    0/1\n"
        "HOST            MHZ  GFLOP/S        COPY     NETWORK\n"
        "n1             2100     20.0   9.0 GiB/s           -\n"
        "n2             2100     20.0   9.0 GiB/s           -\n";
    const std::string of_n2 = "n2: clock -3.0 s from the median\n";
    HostSummary summary = summary_of(table + of_n2 + "--exclude=n2\n");
    CHECK_FALSE(summary.healthy);
    CHECK(summary.text == "node check: 2 hosts, 1 with findings\n" + of_n2 + "--exclude=n2\n");
    CHECK(summary_of(table + "no outliers\n").healthy);
    summary = summary_of(table + "on every host: /data: is missing\nno outliers\n");
    CHECK_FALSE(summary.healthy);
    CHECK(summary.text ==
          "node check: 2 hosts, 0 with findings\non every host: /data: is missing\n");
    CHECK(summary_of(table + "no outliers\nn1: else\n").healthy);
}

TEST_CASE("lines of srun and warnings are not part of the summary, other JSON is refused") {
    HostLines hosts;
    CHECK_FALSE(hosts.add("lm-shmcheck: warning: n1: 81 % of its bytes are used"));
    CHECK_FALSE(hosts.add("srun: error: n1: task 0: Exited with exit code 1"));
    CHECK(hosts.empty());
    CHECK(hosts.add(R"({"kind":"host","host":"n1","health":"ok","reason":"","size":1024,)"
                    R"("dead_segments":0,"dead_bytes":0})"));
    CHECK(hosts.add(""));
    CHECK_FALSE(hosts.empty());
    CHECK_THROWS_WITH(summary_of("{\"kind\":\"host\"}\n"), ContainsSubstring("line 1: "));
}

TEST_CASE("expected hosts that sent no line are missing") {
    HostLines hosts;
    CHECK(hosts.empty());
    hosts.add(host_line("n001", "ok", "", 0));
    hosts.add(host_line("n003", "ok", "", 0));
    CHECK(hosts.summary({.n = 2, .names = {}}).healthy);
    HostSummary summary = hosts.summary({.n = 5, .names = {}});
    CHECK_FALSE(summary.healthy);
    CHECK(summary.text == "2 hosts: 2 ok, 0 warning, 0 critical\nmissing: 3 of 5 hosts\n");
    summary = hosts.summary({.n = 5, .names = *expand_hosts("n[001-005]")});
    CHECK(summary.text ==
          "2 hosts: 2 ok, 0 warning, 0 critical\nmissing: 3 hosts: n[002,004-005]\n");
}

TEST_CASE("lists of hosts are expanded") {
    using Names = std::vector<std::string>;
    CHECK(*expand_hosts("login") == Names{"login"});
    CHECK(*expand_hosts("n[09-11,7],x") == Names{"n09", "n10", "n11", "n7", "x"});
    CHECK(*expand_hosts("r[1-2]n[1-2]") == Names{"r1n1", "r1n2", "r2n1", "r2n2"});
    CHECK(expand_hosts("r[1-2]n[01-10]")->size() == 20);
    for (const char* wrong :
         {"", ",", "a,", "n[", "n[]", "n[1", "n]", "n[x]", "n[1-]", "n[5-1]", "n[1-2000000]"}) {
        CHECK_FALSE(expand_hosts(wrong));
    }
    CHECK(expand_hosts("n[1-65536]")->size() == 65'536);
    CHECK_FALSE(expand_hosts("m,n[1-65536]"));
    CHECK(expand_hosts(std::string(253, 'n')));
    CHECK_FALSE(expand_hosts(std::string(254, 'n')));
    CHECK_FALSE(expand_hosts(std::string(253, 'n') + "[1-65536]"));
}
