// SPDX-License-Identifier: Apache-2.0
// Summarizes the JSON lines that lm-shmcheck printed on many hosts, and the tables that lm-shmcheck
// --node printed.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"
#include "io/json_fwd.hpp"

namespace lm::cluster {

// The hosts from which lines are expected.
struct ExpectedHosts {
    i64 n = 0;                       // 0: not known
    std::vector<std::string> names;  // may be empty when only the number is known
};

struct HostSummary {
    std::string text;
    bool healthy = true;    // no host is missing, exceeds a threshold or has a finding
    bool has_dead = false;  // some host has dead segments
};

// Collects lines in any order. When a host has several lines, the last one counts.
//
// srun passes on the output of its tasks in messages of at most 1024 bytes. Longer lines of two
// hosts mix within a line, unless --label marks each message with the number of its task
// ("12: ..."): then each message is a line, and the messages of a task are joined here.
class HostLines {
  public:
    // Adds a line of JSON, a labelled part of one, or the next line of a table of --node. Returns
    // false for any other line, such as an error of srun. Throws Error(failure) with the number of
    // the line for JSON that lm-shmcheck did not print.
    bool add(std::string_view line);
    // Call it after the last line. Throws Error(failure) when a labelled line is incomplete.
    void finish() const;
    bool empty() const { return hosts_.empty() && nodes_.empty(); }
    // Returns one line for each finding. The line ends with the hosts that have this finding, as a
    // Slurm node list.
    HostSummary summary(const ExpectedHosts& expected) const;

    struct Host {
        std::string health;
        std::string reason;
        i64 size = 0;
        i64 dead_segments = 0;
        i64 dead_bytes = 0;
    };

  private:
    // The table to which the next lines belong. states: one line for each host; other: a table of
    // speeds or GPUs; none: the lines belong to no table.
    enum class Table { none, states, other };
    bool add_table_line(std::string_view line);
    bool add_part(std::string_view label, std::string_view part);
    bool add_json_line(std::string_view line);
    std::string place() const;  // of the current line, for messages
    void add_json(const io::Json& json, const std::string& place);

    Table table_ = Table::none;
    i64 n_lines_ = 0;
    std::map<std::string, std::string> partial_;  // label -> the parts of a line so far
    std::map<std::string, Host> hosts_;
    // The findings of lm-shmcheck --node. nodes_ has the findings about single hosts; of_job_ has
    // the findings about all hosts.
    std::map<std::string, std::vector<std::string>> nodes_;
    std::vector<std::string> of_job_;
};

}  // namespace lm::cluster
