// SPDX-License-Identifier: Apache-2.0
// Reads a directory of torch.distributed.checkpoint (its metadata.py and filesystem.py), the format
// "torch_dist" of megatron-core. The pickle .metadata lists global tensors and the place of each of
// their chunks: a file of torch.save within one of the *.distcp files. The restricted machine of
// torch/pickle_reader.hpp reads .metadata.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "convert/torch/torch_file.hpp"

namespace lm::convert {

// A file of torch.save in the bytes [offset, offset + n_bytes) of `path`.
struct DistRecord {
    std::string path;
    i64 offset = 0;
    i64 n_bytes = 0;

    TorchFile open() const { return TorchFile::open(path, offset, offset + n_bytes); }
};

// A part of a global tensor. `offsets` is the index of its first element in the global tensor; the
// tensor in `record` has the shape of the part.
struct DistChunk {
    std::vector<i64> offsets;
    DistRecord record;
};

struct DistTensor {
    std::vector<i64> shape;
    std::vector<DistChunk> chunks;
};

class DistCheckpoint {
  public:
    // Reads DIR/.metadata. Throws Error(failure) that names a missing or invalid entry.
    static DistCheckpoint open(const std::string& directory);

    const std::string& path() const { return path_; }  // path of the file .metadata
    const std::map<std::string, DistTensor>& tensors() const { return tensors_; }
    // The objects that are not tensors, by key. The record of an object contains a list whose only
    // item is the object.
    const std::map<std::string, DistRecord>& objects() const { return objects_; }
    // Appends the elements of the chunks of the tensor `key` to `storage`, at most `most` elements.
    // `chunks` are by the number of their first element. Returns the number of elements. Throws
    // Error(failure) when the chunks have a gap or an overlap.
    i64 append(const std::string& key, const std::map<i64, SourceTensor>& chunks, i64 most,
               Storage& storage) const;
    // Returns the tensor of a chunk. Errors refer to the tensor as `name`.
    static SourceTensor read(const DistChunk& chunk, const std::string& name);

  private:
    void add_tensors(const PickleValue& metadata);
    void add_records(const PickleValue& metadata, const std::string& directory);

    std::string path_;
    std::map<std::string, DistTensor> tensors_;
    std::map<std::string, DistRecord> objects_;
};

// Returns whether `step` is a directory of torch.distributed.checkpoint with Megatron's common.pt.
bool is_torch_dist(const std::string& step);

}  // namespace lm::convert
