// SPDX-License-Identifier: Apache-2.0
// Reads files of torch.save: the ZIP archives of PyTorch 1.6 and later, and the older sequence of
// pickles. open() reads the pickle only. Tensors are read later (source_tensor.hpp); the first read
// of a record verifies its CRC.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "convert/source_tensor.hpp"
#include "convert/torch/pickle_value.hpp"

namespace lm::convert {

class TorchFile {
  public:
    // Opens the file `path`, or the bytes [begin, end) of it. Throws Error(failure) when torch.save
    // would not have written these bytes.
    static TorchFile open(const std::string& path);
    static TorchFile open(const std::string& path, i64 begin, i64 end);

    const std::string& path() const { return path_; }
    const PickleValue& root() const { return *pickle_->root; }
    // Returns the tensor that `value`, of kind `tensor`, describes. Throws Error(failure) that
    // names `name` when the tensor's type is not fp32, bf16 or fp16.
    SourceTensor tensor(const PickleValue& value, const std::string& name) const;

  private:
    void open_zip(i64 begin, i64 end);
    void open_old(i64 size);
    void check_storages() const;

    std::string path_;
    std::shared_ptr<Pickle> pickle_;
    std::map<std::string, Extent> records_;  // by storage key; their Extent::n counts bytes
};

// Returns whether the file starts like a file of torch.save.
bool is_torch_file(const std::string& path);

}  // namespace lm::convert
