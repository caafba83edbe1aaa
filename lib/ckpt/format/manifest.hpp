// SPDX-License-Identifier: Apache-2.0
// manifest.json of a checkpoint: configuration, counters, run and lineage, totals, tensor table and
// references to the index parts (index.hpp), which list slices and files.
//
// Digests (base/hash.hpp): a slice has one digest for each 16 MiB of its bytes. The digest of a
// data file covers its safetensors header. An index part contains these digests, and the manifest
// contains the digests of the index parts. The digest of the manifest covers the bytes of
// manifest.json with its own 32 digits as zeros, and so, indirectly, every byte of the checkpoint.
//
// Versions: a writer of a newer format states in `min_reader_version` the oldest version that may
// read it, and lists in `features` the features that a reader must support. A reader refuses a
// feature that it does not know, and ignores keys that it does not know.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "base/shape.hpp"
#include "ckpt/format/kind.hpp"
#include "ckpt/format/tokenizer_files.hpp"
#include "io/json_fwd.hpp"
#include "spec/rank_layout.hpp"

namespace lm::ckpt {

constexpr std::string_view manifest_file = "manifest.json";
constexpr i64 format_version = 2;  // format of the manifest and of the index parts

// The names of the directories of steps.
std::string step_name(i64 iteration);       // "global_step120"
i64 step_from_name(std::string_view name);  // -1 when `name` is not the name of a step

// Identifies a step by its iteration and the digest of its manifest, which covers every byte of the
// step.
struct StepReference {
    i64 iteration = 0;
    std::string digest;
    friend bool operator==(const StepReference&, const StepReference&) = default;
};

// One start of a run: its generation (generation.hpp) and the step that it resumed from.
struct LineageEntry {
    i64 generation = 0;
    std::string run_id;
    std::optional<StepReference> start;  // nullopt: this start began a new run
    friend bool operator==(const LineageEntry&, const LineageEntry&) = default;
};

// The process that wrote a step. An empty field is not known.
struct Writer {
    std::string host;
    std::string user;
    std::string job;
};

// The size of all slices of one kind (weights, masters, a moment) in a step.
struct KindTotal {
    SliceKind kind;
    DType dtype = DType::fp32;
    i64 bytes = 0;  // tensor data
};

// Sums over the data files and index parts of a step; the manifest itself is not counted.
struct Totals {
    i64 files = 0;
    i64 bytes = 0;
    std::vector<KindTotal> kinds;
    void add(const Totals& other);
    void add(SliceKind kind, DType dtype, i64 bytes);
};

struct IndexReference {
    std::string file;
    std::string digest;
    // Indexes in the tensor table: the first and the last tensor that has slices in the part.
    i64 first_tensor = 0;
    i64 last_tensor = INT64_MAX;
    Totals totals;  // sums over the part and its data files
};

struct StepCounters {
    i64 iteration = 0;
    i64 consumed_samples = 0;
    i64 consumed_tokens = 0;
    i64 optimizer_step = 0;  // steps of Adam: the iterations that were not skipped
};

struct TensorInfo {
    std::string name;
    Shape shape;  // global, unpadded
    DType dtype = DType::fp32;
};

// The ids of special tokens that a file of Hugging Face states.
struct SpecialIds {
    std::vector<i64> eos;  // a text ends at any of them; empty: not stated
    std::optional<i64> bos = {}, pad = {};
    bool empty() const { return eos.empty() && !bos && !pad; }
    bool operator==(const SpecialIds&) const = default;
};

struct TokenizerInfo {
    i64 end_of_document = -1;               // -1: unknown
    std::string digest;                     // as in the metadata file of the data; may be empty
    std::vector<TokenizerFile> files = {};  // in the step
    // As the model's config.json and generation_config.json stated them, for its export.
    SpecialIds config = {}, generation_config = {};
};

struct Manifest {
    spec::ModelConfig model;
    spec::ParallelConfig parallel;  // layout of the saving run; for information only
    StepCounters counters;
    TokenizerInfo tokenizer;
    i64 seed = 0;
    std::string state = "{}";  // JSON object of the trainer: schedules, loss scale, data, ...
    i64 generation = 0;        // generation of the run that saved the step (generation.hpp)
    std::string run_id;        // 16 hex digits; a resumed run keeps this id
    std::optional<StepReference> parent;  // the step that the run loaded or saved before this step
    std::vector<LineageEntry> lineage;    // the starts of runs that led to this step, oldest first
    Writer writer;
    std::string tool_version;
    std::string command_line;
    std::string created;  // UTC, ISO 8601
    std::vector<std::string> features;
    std::vector<TensorInfo> tensors;
    std::vector<IndexReference> index;
    std::string digest;  // set by parse_manifest(); manifest_text() computes a new digest

    Totals totals() const;             // over all index parts
    bool has(SliceKind kind) const;    // whether the step has state of this kind
    StepReference reference() const {  // valid for a parsed manifest
        return {counters.iteration, digest};
    }
};

// Returns 16 random hex digits.
std::string new_run_id();
// Returns host, user and job of this process.
Writer this_writer();

// Returns the JSON object by which other files refer to a step: {"iteration": N, "digest":
// "xxh3:..."}.
io::OrderedJson to_json(const StepReference& step);
StepReference step_reference_from(const io::Json& object, const std::string& path);
// Returns the reference in the member `key`; nullopt when the member is null.
std::optional<StepReference> optional_reference(const io::Json& object, const std::string& key,
                                                const std::string& path);

// Returns the JSON of a lineage in the form that manifests, `latest` and the generation files
// contain.
io::OrderedJson to_json(const std::vector<LineageEntry>& lineage);
std::vector<LineageEntry> lineage_from(const std::vector<io::Json>& list, const std::string& path);

// The largest number of a generation (generation.hpp); far above the number of starts of any run.
constexpr i64 max_generation = i64{1} << 40;
// Returns the member "generation" of a document. Throws JsonError for a number out of range.
i64 generation_from(const io::Json& object, const std::string& path);

// Returns a reference to an index part as JSON text. Ranks send references to each other in this
// form.
std::string reference_text(const IndexReference& part);
IndexReference parse_reference(std::string_view text);

// Returns the text of manifest.json, including its digest.
std::string manifest_text(const Manifest& manifest);
// Returns the digest at the end of a manifest's text.
std::string digest_of_manifest(std::string_view text);
// Verifies the digest and parses the text. Throws DamageError naming `path` when the digest does
// not match, the text is not JSON or lacks a key, or a value is impossible. Throws Error(failure)
// when only another version of lm-utils can read the manifest.
Manifest parse_manifest(std::string_view text, const std::string& path);
// Reads the manifest of the step `step_path`, and no other file. Throws DamageError when the step
// has no manifest.
Manifest read_manifest(const std::string& step_path);

}  // namespace lm::ckpt
