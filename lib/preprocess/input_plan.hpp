// SPDX-License-Identifier: Apache-2.0
// Divides the inputs of a build among shards and parts.
#pragma once

#include <string>
#include <vector>

#include "base/types.hpp"
#include "data/jsonl/line_chunks.hpp"
#include "preprocess/build.hpp"

namespace lm::preprocess {

// The value i/n of --shard.
struct Shard {
    i64 index = 0;  // in [0, count)
    i64 count = 1;
};
// Parses "i/n". Throws Error(usage) naming --shard.
Shard parse_shard(const std::string& text);

// A part is a range of the input that has its own output files. The parts in order of their numbers
// form the shard.
struct InputPlan {
    std::vector<data::InputFile> files;
    Shard shard;
    i64 n_parts = 1;      // parts of the shard
    i64 input_bytes = 0;  // bytes of all files on disk; -1: unknown, so there is one part

    std::vector<data::InputPiece> part(i64 index) const;  // index in [0, n_parts)
    i64 shard_bytes() const;                              // -1: unknown
};

// Examines the inputs and divides them. Only one process can read an input such as a pipe, and only
// once: for such an input, throws Error(usage) with --shard or --resume.
InputPlan make_input_plan(const BuildOptions& options, int n_workers);

// Returns how many parts are encoded at a time: at most one per worker, and fewer when
// each decoder needs much memory.
int concurrent_parts(const InputPlan& plan, int n_workers);

}  // namespace lm::preprocess
