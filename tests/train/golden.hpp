// SPDX-License-Identifier: Apache-2.0
// Golden numbers made by PyTorch (tests/golden/README.md), and lm-train's parameters by their names
// in these files: Hugging Face's names for GPT-2, the names of the tensor table for other models.
#pragma once

#include <string>
#include <vector>

#include "data/sampling/loader.hpp"
#include "support/safetensors_reader.hpp"
#include "train/step/trainer.hpp"

namespace lm::test {

class Golden {
  public:
    explicit Golden(const std::string& name);  // "gpt2_tiny", "bloom_odd"...

    spec::ModelConfig config() const;
    i64 batch_size() const;
    std::vector<float> floats(const std::string& entry) const;
    // Rows [first, first + n) of step `step`'s batch.
    data::Batch batch(i64 step, i64 first, i64 n) const;
    // The rows with several documents. Token 0 ends each document.
    data::Batch documents(const data::BatchOptions& flags) const;

  private:
    std::vector<i64> shape(const std::string& entry) const;
    // Rows [first, first + n) of n_rows x (T + 1) tokens.
    data::Batch batch_of(const std::vector<i32>& tokens, i64 first,
                         const data::BatchOptions& options) const;
    std::vector<i32> ints(const std::string& entry) const;
    SafetensorsReader file_;
};

struct NamedView {
    std::string name;  // Hugging Face's
    device::View view;
    bool transposed = false;  // Hugging Face stores [in, out]
};

// Every parameter, or every gradient, of a GPT-2 (q, k and v as the one tensor of Hugging Face).
std::vector<NamedView> hugging_face_views(const model::Params& params,
                                          const spec::ModelConfig& config);

// Every tensor of the tensor table under its own name.
std::vector<NamedView> table_views(const model::ParamMap& map, const device::View& flat);

// Values in the file's order, from and to a host-accessible view. Padded rows are omitted.
std::vector<float> values_of(const NamedView& named, i64 vocab_size);
void set_values(const NamedView& named, const std::vector<float>& values);

}  // namespace lm::test
