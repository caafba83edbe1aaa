// SPDX-License-Identifier: Apache-2.0
// The export to Megatron's layouts: the tensors of a pipeline stage in the order of Megatron's
// modules, the arguments, and files of tensors that are streamed from a checkpoint.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ckpt/checkpoint.hpp"
#include "convert/conversion.hpp"
#include "convert/megatron/megatron_names.hpp"
#include "convert/native_export.hpp"
#include "convert/torch/torch_writer.hpp"

namespace lm::convert {

enum class MegatronSection { embedding, layer, norm, head, tied_copy };

// A tensor as one rank holds it.
struct MegatronTensor {
    MegatronSection section = MegatronSection::layer;
    i64 layer = 0;     // index of the layer in the model
    i64 local = 0;     // index of the layer in the stage
    std::string name;  // within the section: "self_attention.dense.weight", "weight"
    MappedTensor map;
    bool decays() const { return map.rank == 2; }
};

// The ranks of an export, and their tensors.
class MegatronLayout {
  public:
    // Throws Error(usage) when the sizes do not divide the model.
    MegatronLayout(const spec::ModelConfig& config, i64 tp, i64 pp);

    i64 tp() const { return tp_; }
    i64 pp() const { return pp_; }
    i64 padded_vocab() const { return padded_vocab_; }
    std::vector<MegatronTensor> tensors(i64 tp_rank, i64 stage) const;
    // Writes Megatron's arguments as an argparse.Namespace. `weights` is their params_dtype.
    void write_args(PickleWriter& pickle, const ckpt::Manifest& manifest, DType weights) const;

  private:
    void add(std::vector<MegatronTensor>& all, MegatronTensor tensor, const std::string& own,
             i64 tp_rank) const;
    void add_layer(std::vector<MegatronTensor>& all, i64 layer, i64 local, i64 tp_rank) const;

    ModelTensors model_;
    i64 tp_;
    i64 pp_;
    i64 padded_vocab_;
};

// Writes the places of the parameters of a group in its flat partition of one data-parallel rank,
// which DeepSpeed's bf16 optimizer and ds_to_universal.py read.
void write_slice_mapping(PickleWriter& pickle, const std::vector<const MegatronTensor*>& group,
                         const std::function<std::string(const MegatronTensor&)>& name);

// A file of torch.save whose pickle is written first and whose tensors are streamed afterwards.
class MegatronFile {
  public:
    explicit MegatronFile(const ckpt::Checkpoint& checkpoint, const ConversionRequest& request,
                          ConversionReport& report)
        : checkpoint_(checkpoint), request_(request), report_(report) {}

    PickleWriter& pickle() { return pickle_; }
    // Adds the tensor `map` of `kind`, converted to `dtype`.
    void tensor(const MappedTensor& map, ckpt::SliceKind kind, DType dtype);
    // Adds a flat fp32 tensor that concatenates the given ones.
    void flat(const std::vector<const MappedTensor*>& maps, ckpt::SliceKind kind);
    void write(const std::string& path);

  private:
    struct Source {
        MappedTensor map;
        ckpt::SliceKind kind;
        DType dtype;
    };
    const ckpt::Checkpoint& checkpoint_;
    const ConversionRequest& request_;
    ConversionReport& report_;
    PickleWriter pickle_;
    std::vector<Source> sources_;
};

}  // namespace lm::convert
