// SPDX-License-Identifier: Apache-2.0
// Index parts: lists of the slices and data files of a checkpoint, one part for each writer or for
// several writers.
//
// A slice is a part of one tensor's weights, masters or moments. It is given by a box ([start, end)
// in each dimension of the global, unpadded shape) and a range: it holds elements [flat_begin,
// flat_end) of the box in row-major order. It is one entry of a safetensors file. The entry has the
// shape of the box, or is 1-D when the range is not the whole box (a ZeRO shard). Slices of one
// kind cover each tensor exactly once, whatever layout wrote them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "ckpt/kind.hpp"
#include "ckpt/manifest.hpp"
#include "spec/rank_layout.hpp"

namespace lm::ckpt {

struct Slice {
    std::string tensor;
    SliceKind kind;
    DType dtype = DType::fp32;
    spec::Box box;
    i64 flat_begin = 0;
    i64 flat_end = 0;
    std::string file;      // name, in the directory of the manifest
    std::string entry;     // name in the safetensors file
    std::string checksum;  // digest of its bytes
    i64 numel() const { return flat_end - flat_begin; }
    bool whole_box() const { return flat_begin == 0 && flat_end == box.shape().numel(); }
};

struct DataFile {
    std::string name;
    i64 size = 0;
    std::string header_digest;  // covers the length and the JSON header
};

// index-RRRRR.json: the files of writer R, and possibly of the writers after R.
struct IndexPart {
    i64 writer = 0;
    std::vector<DataFile> files;
    std::vector<Slice> slices;
};

// Returns the JSON text of a part, with one slice a line.
std::string index_text(const IndexPart& part);
// Parses the text of a part. Throws Error(failure) naming `path`.
IndexPart parse_index(std::string_view text, const std::string& path);

// Returns the reference to a part whose text is `text`, with its range of `tensors` and its totals.
IndexReference reference_to(const IndexPart& part, std::string_view text,
                            const std::vector<TensorInfo>& tensors);

std::string index_name(i64 writer);  // "index-00000.json"
std::string data_file_name(SliceKind kind,
                           i64 writer);  // "weights-00000.safetensors" or "optim-..."

}  // namespace lm::ckpt
