// SPDX-License-Identifier: Apache-2.0
// What a checkpoint says about itself: manifest.json (configuration, counters, tensor table, index
// parts). The index parts (index.hpp) list slices and files.
//
// Digests (base/hash.hpp): a slice's covers its bytes, a file's covers its safetensors header, an
// index part's covers the whole part, and the manifest's own covers the bytes of manifest.json with
// the 32 digits of that digest written as zeros. So every byte of a checkpoint is covered by one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "base/shape.hpp"
#include "io/json.hpp"
#include "spec/rank_layout.hpp"

namespace lm::ckpt {

constexpr std::string_view manifest_file = "manifest.json";
constexpr i64 format_version = 1;  // of the manifest and of the index parts

struct IndexReference {
    std::string file;
    std::string digest;
    // Slices of tensors outside of [first_tensor, last_tensor], by their places in the table, are
    // not in it. (Nothing is known of parts of earlier versions: all tensors.)
    i64 first_tensor = 0;
    i64 last_tensor = INT64_MAX;
};

struct StepCounters {
    i64 iteration = 0;
    i64 consumed_samples = 0;
    i64 consumed_tokens = 0;
    i64 optimizer_step = 0;  // Adam's: iterations that were not skipped
};

struct TensorInfo {
    std::string name;
    Shape shape;  // global, unpadded
    DType dtype = DType::fp32;
};

struct TokenizerInfo {
    i64 end_of_document = -1;  // -1: unknown
    std::string digest;        // as in the data's side file; may be empty
};

struct Manifest {
    spec::ModelConfig model;
    spec::ParallelConfig parallel;  // the layout that wrote it; no reader needs it
    StepCounters counters;
    TokenizerInfo tokenizer;
    i64 seed = 0;
    io::Json state = io::Json::object();  // the trainer's own: schedules, loss scale, data, ...
    i64 generation = 0;                   // of the run that wrote it (generation.hpp)
    std::string tool_version;
    std::string command_line;
    std::string created;  // UTC, ISO 8601
    std::vector<TensorInfo> tensors;
    std::vector<IndexReference> index;
};

std::string manifest_text(const Manifest& manifest);                      // with its digest
Manifest parse_manifest(std::string_view text, const std::string& path);  // checks the digest

}  // namespace lm::ckpt
