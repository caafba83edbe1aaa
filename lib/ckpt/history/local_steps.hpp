// SPDX-License-Identifier: Apache-2.0
// Local steps: the second tier of checkpoints, on storage of the nodes (lm-train --local-save).
//
//     DIR/HOST/global_stepN/weights-*, optim-*   the data files of this node and of its partners
//     DIR/HOST/global_stepN/index-*.json         one index part for each of these nodes
//     DIR/HOST/global_stepN/local-manifest.json  the manifest of the whole step, equal on all hosts
//
// The files of all hosts together, with the manifest as manifest.json, are the step that a save to
// the durable tier would have written. So any layout can load a local step, and every byte has a
// digest. The directory of one host has no manifest.json, because it is not complete.
//
// Nodes are numbered in the order of their first ranks. Node h copies its files to node h xor 1. If
// the number of nodes is odd, the last node copies its files to node 0. A local step is written to
// global_stepN.tmp.gG of each host and renamed when all hosts have all their files. A host removes
// older steps only after all hosts have renamed the new step, and keeps two steps. So after a kill
// at any moment, the hosts together have at least one complete step, even when one host is lost.
//
// The lineage determines which local steps a run may load. Each start of a run claims a generation
// in the durable directory, which --save names (generation.hpp). The newest claim contains the
// lineage of its start, here called the line. A run loads a local step that belongs to this line
// and is newer than the durable step that it would load otherwise. A rollback, and a start from an
// earlier step, claim a generation whose line ends at that step, so no run loads the later local
// steps of the old branch. `latest` names durable steps only.
//
// To resume from a local step, its hosts copy its parts to the durable directory, verify every byte
// while they copy, and publish the step there. If a part is damaged on one host, another host that
// has the part copies it. Then the run loads the step like any other durable step.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ckpt/history/lineage.hpp"

namespace lm::ckpt {

constexpr std::string_view local_manifest_file = "local-manifest.json";
constexpr size_t local_steps_kept = 2;

// Returns the node that keeps a copy of the files of node `node`; -1 for the only node.
i64 partner_of(i64 node, i64 n_nodes);

// The part of a local step that one host holds.
struct LocalStep {
    int holder = 0;  // global rank of the first rank of the host
    i64 step = 0;
    std::string digest;  // digest of the manifest
    i64 generation = 0;
    std::string run_id;
    i64 n_parts = 0;         // number of index parts of the whole step
    std::vector<i64> parts;  // index parts of which this host has all files, with the right sizes
    friend bool operator==(const LocalStep&, const LocalStep&) = default;
};

// Returns the local steps of the directory of one host, ascending. Warns of steps that cannot be
// read and skips them. Returns an empty list when `directory` does not exist.
std::vector<LocalStep> local_steps_in(const std::string& directory, int holder);
// text_of() returns a local step as one line of JSON, which ranks send to each other.
// parse_local_step() parses this line.
std::string text_of(const LocalStep& step);
LocalStep parse_local_step(std::string_view text);

// Returns a tip with the lineage of the newest start in the durable `directory`. The lineage comes
// from the newest claim, or from `latest` when `latest` has a later generation. Returns nullopt
// when neither exists. The tip is not a step of the directory. Its iteration is INT64_MAX, so that
// no step is later.
std::optional<Tip> newest_tip(const std::string& directory);
// Returns whether `step` is on `line`: a start of the line wrote `step`, and the next start of the
// line did not resume from an earlier step.
bool is_on_branch(const LocalStep& step, const Tip& line);

// A local step that is complete over all hosts.
struct LocalChoice {
    i64 step = 0;
    std::string digest;
    std::vector<std::vector<int>> holders;  // by index part; at least one holder for each part
};

// Returns the newest step that is later than step `newer_than`, belongs to `line`, and is complete:
// for each of its parts, `held` has a host that holds the part. Returns nullopt when there is no
// such step.
std::optional<LocalChoice> choose_local_step(const std::vector<LocalStep>& held, const Tip& line,
                                             i64 newer_than);

}  // namespace lm::ckpt
