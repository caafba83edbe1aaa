// SPDX-License-Identifier: Apache-2.0
// The import of a checkpoint of Megatron: the model, its counters, and the parts of
// its tensors that were found.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convert/megatron/megatron_args.hpp"
#include "convert/megatron/megatron_names.hpp"
#include "convert/native_import.hpp"
#include "convert/torch/torch_file.hpp"

namespace lm::convert {

// A named tensor value of a torch file.
struct NamedValue {
    std::string name;  // keys joined by dots: "language_model.embedding.word_embeddings.weight"
    const PickleValue* value = nullptr;
};
// Returns the tensors in nested dicts, in their order.
std::vector<NamedValue> flat_tensors(const PickleValue& dict);

// Returns the value of a number: an int, a float, or a tensor of one element.
std::optional<double> number_of(const PickleValue* value, const TorchFile& file);

// Reads arguments and counters from the file of one rank. Throws Error(failure) when it has no
// args.
struct MegatronHead {
    MegatronModel model;
    i64 iteration = 0;
    QkvOrder qkv = QkvOrder::groups;
};
MegatronHead read_head(const TorchFile& file, i64 vocab_size);

class MegatronImport {
  public:
    MegatronImport(const ConversionRequest& request, MegatronHead head);

    const MegatronHead& head() const { return head_; }
    const spec::ModelConfig& config() const { return head_.model.config; }
    bool gated() const { return is_gated(config().activation); }
    // Adds the part of a tensor-parallel rank. Replicated tensors count once, those of rank 0; the
    // copies of other ranks are compared on request.
    void add(const std::string& own, ckpt::SliceKind kind, const SourceTensor& tensor, i64 tp_rank,
             i64 tp);
    // Sets the type of the weights; without it that of the first weight counts.
    void set_weights(DType dtype) { weights_ = dtype; }
    void set_optimizer_step(i64 step) { optimizer_step_ = step; }
    void set_loss_scale(io::Json state) { loss_scale_ = std::move(state); }
    // Writes the checkpoint.
    ConversionReport write();

  private:
    const ConversionRequest& request_;
    MegatronHead head_;
    NativeImport import_;
    std::optional<DType> weights_;
    i64 optimizer_step_ = -1;
    io::Json loss_scale_;
};

}  // namespace lm::convert
