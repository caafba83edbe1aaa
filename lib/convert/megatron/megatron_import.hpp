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
#include "io/json.hpp"

namespace lm::convert {

// A named tensor value of a torch file.
struct NamedValue {
    std::string name;  // keys joined by dots: "language_model.embedding.word_embeddings.weight"
    const PickleValue* value = nullptr;
};
// Returns the tensors in `dict` and the dicts nested in it, in the order of the dicts.
std::vector<NamedValue> flat_tensors(const PickleValue& dict);

// Returns the value of an int, a float, or a tensor of one element; nullopt for any other value.
std::optional<double> number_of(const PickleValue* value, const TorchFile& file);

// Returns the directory with the tokenizer's files of the checkpoint `path`: `path` itself, or if
// it is one step without such files, its run.
std::string tokenizer_directory(const std::string& path);

// The model and the counters that the file of a rank states.
struct MegatronHead {
    MegatronModel model;
    i64 iteration = 0;
    i64 schedule_samples = -1;  // samples that the learning rate schedule has counted; -1: unknown
    QkvOrder qkv = QkvOrder::groups;
};
// Reads arguments and counters from the file of one rank. `tp` and `pp` are the numbers of ranks
// and stages if the arguments do not state them.
MegatronHead read_head(const TorchFile& file, const ConversionRequest& request, i64 tp = 1,
                       i64 pp = 1);

class MegatronImport {
  public:
    MegatronImport(const ConversionRequest& request, MegatronHead head);

    const MegatronHead& head() const { return head_; }
    const spec::ModelConfig& config() const { return head_.model.config; }
    bool gated() const { return is_gated(config().activation); }
    // Adds the part of the tensor `own` that a tensor-parallel rank stores. When every rank stores
    // the whole tensor, only rank 0's copy is imported; the other copies are compared with rank 0's
    // if request.replicas is set.
    void add(const std::string& own, ckpt::SliceKind kind, const SourceTensor& tensor, i64 tp_rank,
             i64 tp);
    // Adds the last stage's copy of a rank's part of the tied word embeddings. The values of the
    // first stage are imported. With Replicas::rank0, the copy is compared with these values.
    void add_tied_copy(ckpt::SliceKind kind, const SourceTensor& tensor, i64 tp_rank, i64 tp);
    // Adds `tensor`, the part of the whole tensor `own` that starts at (row, col). The word
    // embedding and the head have `vocab_rows` rows.
    void add_part(const std::string& own, ckpt::SliceKind kind, const SourceTensor& tensor, i64 row,
                  i64 col, i64 vocab_rows);
    // Returns the description of the whole tensor `own` with `vocab_rows` rows of the vocabulary.
    // Throws Error(failure) naming `path` when the model has no such tensor.
    MappedTensor whole(const std::string& own, i64 vocab_rows, const std::string& path) const;
    // Returns the description of the part of `own` that a tensor-parallel rank has; nullopt when
    // the model does not have the tensor.
    std::optional<MappedTensor> part(const std::string& own, i64 tp_rank, i64 vocab_rows) const;
    // Returns the name of the first tensor whose 16-bit weights are not equal to its rounded
    // masters; an empty text when there is none. Throws Error(failure) when tensors are missing.
    std::string tensor_with_other_masters() const;
    // Replaces the tensors by the tensors of `other`, which is a copy of this object with further
    // tensors added.
    void replace_sources(MegatronImport other) { import_ = std::move(other.import_); }
    // Sets the type of the weights. The default is the type of the first weight that add() gets.
    void set_weights(DType dtype) { weights_ = dtype; }
    void set_optimizer_step(i64 step) { optimizer_step_ = step; }
    void set_loss_scale(io::Json state) { loss_scale_ = std::move(state); }
    // Imports the state of Megatron's grad_scaler. `scaler` nullptr: the checkpoint has none.
    void set_loss_scale(const PickleValue* scaler, const TorchFile& file);
    // Writes the checkpoint to request.out.
    ConversionReport write();
    // Reads all tensors and writes nothing.
    ImportVerification verify() const;
    bool has(ckpt::SliceKind kind) const { return import_.has(kind); }
    const NativeImport& sources() const { return import_; }
    DType weights() const { return request_.dtype.value_or(weights_.value_or(DType::fp32)); }
    const std::vector<spec::TensorSpec>& tensors() const { return import_.tensors().table(); }
    i64 optimizer_step() const { return optimizer_step_ >= 0 ? optimizer_step_ : head_.iteration; }

  private:
    // Throws when a tensor with a row for each token has fewer rows than the model's vocabulary.
    void require_rows(i64 vocab_rows, const SourceTensor& tensor) const;

    const ConversionRequest& request_;
    MegatronHead head_;
    NativeImport import_;
    std::optional<DType> weights_;
    i64 optimizer_step_ = -1;
    io::Json loss_scale_;
};

}  // namespace lm::convert
