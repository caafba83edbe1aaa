// SPDX-License-Identifier: Apache-2.0
// Encodes one part of a build: reads its pieces of the input and writes its files.
#pragma once

#include <functional>
#include <vector>

#include "data/jsonl/line_chunks.hpp"
#include "preprocess/bad_lines.hpp"
#include "preprocess/build.hpp"
#include "preprocess/chunk_encoder.hpp"
#include "preprocess/memory_budget.hpp"
#include "preprocess/part_writer.hpp"
#include "text/tokenizer.hpp"

namespace lm::preprocess {

// The arguments of encode_part(). The references are to objects that all parts share.
struct PartTask {
    const std::vector<data::InputFile>& inputs;
    std::vector<data::InputPiece> pieces;  // pieces of the inputs, in order
    const EncodeRules& rules;
    const text::Tokenizer& tokenizer;
    int n_workers;
    i64 decoding_memory;  // bytes for decompression (io::open_stream)
    MemoryBudget& budget;
    BadLineWarnings& warnings;
    BuildObserver& observer;
    // A function that the encoding calls several times per second. It throws when another part has
    // failed.
    std::function<void()> check_others;
};

// Encodes the part from the position at which `writer` has resumed. When the observer requests a
// stop, brings the journal up to date and throws Stopped.
void encode_part(PartWriter& writer, const PartTask& task);

}  // namespace lm::preprocess
