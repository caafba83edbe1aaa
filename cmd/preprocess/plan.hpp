// SPDX-License-Identifier: Apache-2.0
// What a run is to make: its inputs, as they were found, cut into parts; and the options that
// decide the bytes of the output. Written into the work directory, so that a later run knows
// whether it may go on with the work.
#pragma once

#include <string>
#include <vector>

#include "args.hpp"
#include "base/launcher.hpp"
#include "data/jsonl/line_chunks.hpp"
#include "io/json.hpp"
#include "text/tokenizer.hpp"

namespace lm::preprocess {

struct Shard {
    i64 index = 0, count = 1;
};
Shard parse_shard(const std::string& text);  // "i/n"; Error(usage)

struct Plan {
    std::vector<std::string> inputs;
    std::vector<data::InputFile> files;
    Shard shard;
    int n_ranks = 1;
    i64 parts_per_rank = 1;
    i64 input_bytes = 0;  // on disk, of this shard; -1: unknown

    i64 n_parts() const { return n_ranks * parts_per_rank; }
    std::vector<data::InputPiece> part(i64 index) const;
};

// Examines the inputs. Throws Error(usage) for inputs that cannot be shared or read again.
Plan make_plan(const Args& args, const Launched& launch, int n_workers);

// How many parts are made at a time: fewer where their decoders need much memory each.
int lanes_for(const Plan& plan, int n_workers);

// The plan and the options as a document; inputs by size, time of change and digests of both ends.
io::OrderedJson describe(const Plan& plan, const Args& args, const text::Tokenizer& tokenizer);
// Of a description what decides the bytes of the output besides the tokenizer, inputs as a digest:
// what a side file keeps of the run.
io::Json origin_of(const io::OrderedJson& description);
// In what a run with origin `ours` differs from the one that made outputs with `theirs`, as
// "made ..."; empty: in nothing.
std::string difference(const io::Json& theirs, const io::Json& ours);

// Reads `path`, the document of the run that began the work, and returns its number of parts.
// Throws Error(usage) naming the first thing in which `ours` differs from it; Error(failure) when
// it is damaged. The number of parts may differ; of another build there is a note.
i64 parts_of_same_run(const std::string& path, const io::OrderedJson& ours);

}  // namespace lm::preprocess
