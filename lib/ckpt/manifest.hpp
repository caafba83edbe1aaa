// SPDX-License-Identifier: Apache-2.0
// What a checkpoint says about itself: manifest.json (configuration, counters, tensor table, index
// parts) and the index parts, one per writer or for several of them, that list slices and files.
//
// A slice is a piece of one tensor's weights, masters or moments: a box [start, end) per dimension
// of the global, unpadded shape, and of that box's elements in row-major order those in
// [flat_begin, flat_end). It is one entry of a safetensors file, with the box's shape, or 1-D when
// the flat range is not the whole box (a ZeRO shard). Slices of one kind cover each tensor exactly
// once, whatever layout wrote them.
//
// Digests (base/hash.hpp): a slice's covers its bytes, a file's covers its safetensors header, an
// index part's covers the whole part, and the manifest's own covers the bytes of manifest.json with
// the 32 digits of that digest written as zeros. So every byte of a checkpoint is covered by one.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "io/json.hpp"
#include "spec/layout.hpp"

namespace lm::ckpt {

constexpr i64 format_version = 1;

// fp32 weights are their own masters: such a checkpoint has no master slices.
enum class Kind { weight, master, exp_avg, exp_avg_sq };
inline constexpr std::array all_kinds{Kind::weight, Kind::master, Kind::exp_avg, Kind::exp_avg_sq};
std::string_view name_of(Kind kind);

struct Slice {
    std::string tensor;
    Kind kind = Kind::weight;
    DType dtype = DType::fp32;
    spec::Box box;
    i64 flat_begin = 0;
    i64 flat_end = 0;
    std::string file;      // beside the manifest
    std::string entry;     // name in the safetensors file
    std::string checksum;  // of its bytes
    i64 numel() const { return flat_end - flat_begin; }
    bool whole_box() const { return flat_begin == 0 && flat_end == box.shape().numel(); }
};

struct DataFile {
    std::string name;
    i64 size = 0;
    std::string header_digest;  // of the length and the JSON header
};

// index-RRRRR.json: what writer R wrote, and perhaps others after it.
struct IndexPart {
    i64 writer = 0;
    std::vector<DataFile> files;
    std::vector<Slice> slices;
};

struct IndexReference {
    std::string file;
    std::string digest;
    // Slices of tensors outside of [first_tensor, last_tensor], by their places in the table, are
    // not in it. (Nothing is known of parts of earlier versions: all tensors.)
    i64 first_tensor = 0;
    i64 last_tensor = INT64_MAX;
};

struct Counters {
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
    Counters counters;
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

io::OrderedJson to_json(const spec::ModelConfig& config);
// Throws Error(failure) naming `path` and the key.
spec::ModelConfig model_from_json(const io::Json& object, const std::string& path);

std::string manifest_text(const Manifest& manifest);                      // with its digest
Manifest parse_manifest(std::string_view text, const std::string& path);  // checks the digest
std::string index_text(const IndexPart& part);
IndexPart parse_index(std::string_view text, const std::string& path);

std::string step_name(i64 iteration);               // "global_step120"
i64 step_from_name(std::string_view name);          // -1 when it is no such name
std::string index_name(i64 writer);                 // "index-00000.json"
std::string data_file_name(Kind kind, i64 writer);  // "weights-00000.safetensors" or "optim-..."

}  // namespace lm::ckpt
