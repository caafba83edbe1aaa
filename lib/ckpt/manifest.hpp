// SPDX-License-Identifier: Apache-2.0
// manifest.json of a checkpoint: configuration, counters, tensor table and references to the index
// parts (index.hpp), which list slices and files.
//
// Digests (base/hash.hpp): the digest of a slice covers its bytes; that of a file, its safetensors
// header; that of an index part, the whole part; that of the manifest, the bytes of manifest.json
// with the digest's own 32 digits as zeros. So one digest covers every byte of a checkpoint.
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
constexpr i64 format_version = 1;  // also of the index parts

struct IndexReference {
    std::string file;
    std::string digest;
    // The part has only slices of the tensors first_tensor to last_tensor of the tensor table.
    // Earlier versions do not state the range; then the part may have slices of all tensors.
    i64 first_tensor = 0;
    i64 last_tensor = INT64_MAX;
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

struct TokenizerInfo {
    i64 end_of_document = -1;  // -1: unknown
    std::string digest;        // as in the metadata file of the data; may be empty
};

struct Manifest {
    spec::ModelConfig model;
    spec::ParallelConfig parallel;  // the layout that wrote it; no reader needs it
    StepCounters counters;
    TokenizerInfo tokenizer;
    i64 seed = 0;
    io::Json state =
        io::Json::object();  // written by the trainer: schedules, loss scale, data, ...
    i64 generation = 0;      // generation of the run that wrote it (generation.hpp)
    std::string tool_version;
    std::string command_line;
    std::string created;  // UTC, ISO 8601
    std::vector<TensorInfo> tensors;
    std::vector<IndexReference> index;
};

// Returns the JSON text with its digest.
std::string manifest_text(const Manifest& manifest);
// Verifies the digest and parses the text. Throws Error(failure) naming `path`.
Manifest parse_manifest(std::string_view text, const std::string& path);

}  // namespace lm::ckpt
