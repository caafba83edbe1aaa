// SPDX-License-Identifier: Apache-2.0
// Writes a checkpoint. No data is gathered. Each writer writes its pieces directly from the given
// memory into its own files, and one committer publishes all files with one rename. N is the
// iteration, G the generation of the run (generation.hpp). The table has the actions of a save in
// their order. Its right column states what the directory contains if a crash follows the action:
//
//     create DIR/global_stepN.tmp.gG        the old steps, and an empty temporary directory
//     data files and index parts, fsynced   the old steps, and an incomplete temporary directory
//     manifest.json, fsynced                the old steps, and an incomplete temporary directory
//     fsync of the temporary directory      the old steps, and a complete temporary directory
//     read the generation again             the old steps, and a complete temporary directory
//     rename to DIR/global_stepN, fsync DIR the new step; `latest` names the previous step
//     replace `latest`                      the new step, named by `latest`
//
// A superseded run stops when it reads the generation again. The next claim() removes a temporary
// directory that a crash has left. If DIR/global_stepN exists already and is of the same branch,
// the two directories exchange their names in one operation, so that at every moment a complete
// step has the name. This does not hold on file systems without this operation
// (io::exchange_directories()). A step of another branch is set aside before the rename
// (abandon.hpp).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ckpt/format/data_file.hpp"
#include "ckpt/format/index.hpp"
#include "ckpt/format/manifest.hpp"
#include "ckpt/history/generation.hpp"

namespace lm::ckpt {

struct SaveInfo {
    spec::ModelConfig model;
    spec::ParallelConfig parallel;
    StepCounters counters;
    TokenizerInfo tokenizer;
    i64 seed = 0;
    std::string state = "{}";  // JSON object
    std::string command_line;
    DType weights = DType::fp32;
    // Members of the manifest. An empty `run_id` or `lineage` stands for the value in the
    // generation.
    std::string run_id;
    std::optional<StepReference> parent;
    std::vector<LineageEntry> lineage;
};

struct SaveResult {
    std::string path;  // DIR/global_stepN
    i64 bytes = 0;
    StepReference step;  // becomes the `parent` of the next save
};

// Returns the tensor table that the manifest of a model contains.
std::vector<TensorInfo> tensors_of(const spec::ModelConfig& model, DType weights);

// Saves a checkpoint with one writer. An existing global_stepN of the same branch is replaced.
// When writing fails, removes the temporary directory and throws Error(failure). Throws
// Error(superseded) when a newer generation exists.
SaveResult save(const Generation& generation, const SaveInfo& info,
                const std::vector<Piece>& pieces);

// A save by several writers. The committer calls begin_save(), which creates and returns the
// directory temporary_path(). Each writer r of [0, n_writers) calls write_pieces(), or
// plan_shares() and write_shares() if it shares files with other writers (data_file.hpp). One
// writer of each group receives the index parts of the other writers of the group, joins the parts
// with append() and calls write_index(). When all writers have confirmed, the committer calls
// commit_save(). When a writer reports a failure, the committer calls discard_save(), which removes
// the temporary directory.
std::string temporary_path(const Generation& generation, i64 iteration);
std::string begin_save(const Generation& generation, i64 iteration);
// Returns the shares of `pieces`, one for each data file of writer number `writer`, or of the group
// of writers with that number.
std::vector<DataShare> plan_shares(const std::vector<TensorInfo>& tensors, i64 writer,
                                   const std::vector<Piece>& pieces);
IndexPart write_pieces(const std::string& temporary, const SaveInfo& info, i64 writer,
                       const std::vector<Piece>& pieces);
void append(IndexPart& part, IndexPart other);
IndexReference write_index(const std::string& temporary, const IndexPart& part);
// Calls write_pieces() and write_index() for one writer.
IndexReference write_part(const std::string& temporary, const SaveInfo& info, i64 writer,
                          const std::vector<Piece>& pieces);
SaveResult commit_save(const Generation& generation, const SaveInfo& info,
                       const std::vector<IndexReference>& parts);
void discard_save(const Generation& generation, i64 iteration) noexcept;

// The two halves of commit_save(). manifest_of() returns the manifest of a save with the index
// parts `parts`. publish_step() makes temporary_path() a step with the manifest `manifest`, whose
// text is `text`.
Manifest manifest_of(const Generation& generation, const SaveInfo& info,
                     const std::vector<IndexReference>& parts);
SaveResult publish_step(const Generation& generation, const Manifest& manifest,
                        std::string_view text);

}  // namespace lm::ckpt
