// SPDX-License-Identifier: Apache-2.0
// The files of Hugging Face model directories: safetensors or PyTorch shards and their index,
// tokenizer files.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"
#include "ckpt/format/tokenizer_files.hpp"
#include "convert/source_tensor.hpp"

namespace lm::convert {

// The tensors of a model directory or of one .safetensors or .bin file.
class HfTensors {
  public:
    // A tensor of a type that lm-utils does not read, such as a mask of type U8 that old versions
    // of transformers saved.
    struct Unread {
        std::string path;
        std::string problem;  // "expected F64, F32, BF16 or F16, got U8"
    };

    // Reads the headers of all weight files of the model `path`. Throws Error(usage) when there are
    // no weight files, Error(failure) when a shard is missing or two shards contradict each other.
    static HfTensors open(const std::string& path);
    // Returns the tensor `name`, or nullptr when it does not exist.
    const SourceTensor* find(const std::string& name) const;
    const std::map<std::string, SourceTensor>& all() const { return tensors_; }
    const std::map<std::string, Unread>& unread() const { return unread_; }
    // Returns the tensors that the index names and no file has, with the file that should have
    // them.
    const std::map<std::string, std::string>& absent() const { return absent_; }
    // Returns whether the index, if there is one, has the tensor. transformers ignores others.
    bool is_listed(const std::string& name) const { return !has_index_ || listed_.contains(name); }

  private:
    // Returns the names of the file's tensors. A tensor that an earlier file has with other values
    // replaces that one if `index`, which maps tensors to paths, names this file.
    std::set<std::string> add_file(const std::string& path,
                                   const std::map<std::string, std::string>& index = {});
    void add_index(const std::string& directory, const std::string& index);
    void read_safetensors(const std::string& path, std::vector<SourceTensor>& tensors);
    void read_torch(const std::string& path, std::vector<SourceTensor>& tensors);

    std::map<std::string, SourceTensor> tensors_;
    std::map<std::string, Unread> unread_;
    std::map<std::string, std::string> absent_;
    bool has_index_ = false;
    std::set<std::string> listed_;
};

// Returns whether the two tensors have the same type, shape and bits.
bool same_elements(const SourceTensor& a, const SourceTensor& b);

// Returns the type of the weights of the model `path`: the 16-bit type that all its tensors have;
// fp32 if they have no such common type.
DType hf_weights_type(const std::string& path);

struct SizedName {
    std::string name;
    i64 bytes = 0;
};

// Splits tensors into shards as huggingface_hub does (split_state_dict_into_shards_factory):
// greedily, in the given order; a tensor larger than `max_bytes` is a shard of its own.
std::vector<std::vector<std::string>> plan_shards(const std::vector<SizedName>& tensors,
                                                  i64 max_bytes);
// Returns "model-00001-of-00002.safetensors", or "model.safetensors" when there is only one shard.
std::string shard_name(i64 shard, i64 n_shards, std::string_view stem = "model",
                       std::string_view ending = ".safetensors");
// Returns the text of model.safetensors.index.json.
std::string index_json(const std::vector<std::vector<std::string>>& shards, i64 total_bytes,
                       std::string_view stem = "model", std::string_view ending = ".safetensors");

// Copies the tokenizer files of directory `from` to directory `to`. Throws Error(usage) when `from`
// has none.
void copy_tokenizer(const std::string& from, const std::string& to);
// Writes the tokenizer files of a step to directory `to`. If they have no tokenizer_config.json,
// writes one for transformers, with the token of id `end_of_document` (-1: unknown).
void write_tokenizer(const std::vector<ckpt::TokenizerFile>& files, i64 end_of_document,
                     i64 max_length, const std::string& to);
// Writes the tokenizer of GPT-2, which is installed with lm-utils, and tokenizer_config.json.
void write_gpt2_tokenizer(const std::string& to, i64 max_length);

}  // namespace lm::convert
