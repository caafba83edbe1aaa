// SPDX-License-Identifier: Apache-2.0
// What a dataset build is given (options), what it counts (totals) and whom it tells (observer).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "io/json_fwd.hpp"
#include "text/choice/tokenizer_choice.hpp"

namespace lm::preprocess {

// The options of a build, as lm-preprocess(1) describes them.
struct BuildOptions {
    std::vector<std::string> inputs;
    std::string output_prefix;
    bool force = false;
    bool resume = false;
    std::vector<std::string> keys = {"text"};
    text::TokenizerChoice tokenizer;
    bool append_eod = false;
    bool keep_empty = false;
    std::string on_bad_line = "fail";  // "fail", "skip" or "replace"
    i64 divisible_by = 128;            // --make-vocab-size-divisible-by
    std::optional<i64> pad_to;         // --pad-vocab-size-to
    std::optional<std::string> shard;  // "i/n"
    i64 workers = 0;                   // threads; 0: one per core
};

// The counts of lm-preprocess while it encodes, for a chunk, a part or a whole run.
struct BuildTotals {
    i64 documents = 0;    // lines that were encoded
    i64 tokens = 0;       // tokens of all keys
    i64 text_bytes = 0;   // bytes of the encoded texts: UTF-8, without JSON escapes
    i64 input_bytes = 0;  // bytes of the input after decompression
    i64 blank = 0;        // blank lines
    i64 bad = 0;          // lines skipped by --on-bad-line skip
    i64 replaced = 0;     // lines with bytes that --on-bad-line replace changed to U+FFFD

    BuildTotals& operator+=(const BuildTotals& other);
    BuildTotals& operator-=(const BuildTotals& other);
    io::OrderedJson to_json() const;
    // Throws Error(failure) naming `path` when a count is missing.
    static BuildTotals parse(const io::Json& object, const std::string& path);
};

// Thrown when the observer requests a stop. At that time the journals contain all encoded data.
struct Stopped {};

// Receives the progress of a running build, and decides when the build stops.
// All functions except begin() are called from several threads.
class BuildObserver {
  public:
    virtual ~BuildObserver() = default;
    BuildObserver() = default;
    BuildObserver(const BuildObserver&) = delete;
    BuildObserver& operator=(const BuildObserver&) = delete;

    // Called when encoding begins, before any call of stop_requested(). `total_bytes` is the size
    // of the inputs on disk; -1: unknown.
    virtual void begin(i64 total_bytes) = 0;
    // Called for each part before this run encodes the rest of the part. `done` has the counts of
    // the data that earlier runs have encoded.
    virtual void resumed(const BuildTotals& done) = 0;
    // Called when a chunk was encoded. `disk_bytes`: the bytes that were read from the inputs for
    // this chunk.
    virtual void advance(const BuildTotals& chunk, i64 disk_bytes) = 0;
    // Returns whether the build must stop; if true, the build throws Stopped. Must be fast, because
    // it is called often.
    virtual bool stop_requested() = 0;
};

// Prints a note for each temporary file that a killed run left next to the dataset `prefix`.
void note_leftovers(const std::string& prefix);
// Prints a note for each file of the dataset `prefix` that is a symbolic link. Writing the dataset
// replaces the link and does not change the file to which it points.
void note_links(const std::string& prefix);

}  // namespace lm::preprocess
