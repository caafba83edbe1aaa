// SPDX-License-Identifier: Apache-2.0
// The tensors in the files of a Hugging Face model, by their names in its class.
#pragma once

#include <set>
#include <string>

#include "convert/hf/config_json.hpp"
#include "convert/hf/files.hpp"

namespace lm::convert {

// Finds tensors as transformers does: files of the class without a head (GPT2Model) omit the prefix
// of the names, and a tied model may store its one matrix under the name of the head alone.
class HfWeights {
  public:
    // Reads the headers of the weight files of the model `path`.
    static HfWeights open(const std::string& path, const HfModel& model);
    // Returns the tensor with this name in the class with a language-model head (GPT2LMHeadModel).
    // Throws Error(failure) when no file has it.
    const SourceTensor& at(const std::string& name) const;
    // Throws Error(failure) for a tensor that is not in `used`, unless it is a tied head with the
    // values of the embedding, a buffer, or a tensor that the index does not list.
    void check_rest(const std::set<std::string>& used) const;

  private:
    HfWeights(std::string path, const HfModel& model, HfTensors tensors);
    std::string in_file(const std::string& name) const;
    [[noreturn]] void refuse_missing(const std::string& name) const;
    void refuse_absent(const std::string& in_file) const;

    std::string path_;
    const HfClass& hf_;
    bool tied_ = false;
    HfTensors tensors_;
    bool prefixed_ = false;
    std::string word_;  // the embedding
    std::string head_;
};

}  // namespace lm::convert
