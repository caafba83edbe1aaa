// SPDX-License-Identifier: Apache-2.0
// Writing a checkpoint. No data is gathered: each writer writes its pieces straight from the given
// memory into its own files, and one committer makes them all visible in one step:
//
//     temporary directory DIR/global_stepN.tmp.gG -> data files, index parts, each fsynced ->
//     manifest.json last -> generation read again -> rename -> fsync DIR -> `latest` replaced
//
// A crash at any instant leaves the checkpoints that were there, and at most a temporary directory
// that the next claim() removes.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ckpt/generation.hpp"
#include "ckpt/index.hpp"
#include "ckpt/manifest.hpp"

namespace lm::ckpt {

// Memory of one tensor to be saved: the elements [flat_begin, flat_end) of the box, in row-major
// order and without gaps, from `data` on. Padded vocabulary rows lie behind the box's elements, so
// they stay out by themselves. Each element of a tensor is given by one writer only.
struct Piece {
    i64 tensor = 0;  // index into spec::tensor_table(model)
    SliceKind kind = SliceKind::weight;
    DType dtype = DType::fp32;  // fp32, bf16 or fp16
    spec::Box box;
    i64 flat_begin = 0;
    i64 flat_end = 0;
    const void* data = nullptr;
    // Gives the bytes from `data` + offset on, of a piece that is not in host memory.
    std::function<void(std::span<std::byte> to, i64 offset)> read = {};
};

struct SaveInfo {
    spec::ModelConfig model;
    spec::ParallelConfig parallel;
    StepCounters counters;
    TokenizerInfo tokenizer;
    i64 seed = 0;
    io::Json state = io::Json::object();
    std::string command_line;
    DType weights = DType::fp32;
};

struct SaveResult {
    std::string path;  // DIR/global_stepN
    i64 bytes = 0;
};

// One writer does it all. A complete global_stepN that is there already is replaced in one step.
// Throws Error(failure) when anything cannot be written (nothing of it stays) and
// Error(self_stopped) when a newer generation exists.
SaveResult save(const Generation& generation, const SaveInfo& info,
                const std::vector<Piece>& pieces);

// The same in parts for several writers: all ranks know the number of writers; the committer calls
// begin_save; then each writer r of [0, n_writers) calls write_pieces; one of every few writers,
// which have told it what they wrote, calls write_index for them all (append() puts the parts
// together); when all have confirmed, the committer calls commit_save. Who fails tells the others,
// and the committer abandons.
std::string begin_save(const Generation& generation, i64 iteration);  // the temporary directory
IndexPart write_pieces(const std::string& temporary, const SaveInfo& info, i64 writer,
                       const std::vector<Piece>& pieces);
void append(IndexPart& part, IndexPart other);
IndexReference write_index(const std::string& temporary, const SaveInfo& info,
                           const IndexPart& part);
// A writer that tells nobody.
IndexReference write_part(const std::string& temporary, const SaveInfo& info, i64 writer,
                          const std::vector<Piece>& pieces);
SaveResult commit_save(const Generation& generation, const SaveInfo& info,
                       const std::vector<IndexReference>& parts);
void abandon_save(const Generation& generation, i64 iteration) noexcept;

}  // namespace lm::ckpt
