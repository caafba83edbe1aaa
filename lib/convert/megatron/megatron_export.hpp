// SPDX-License-Identifier: Apache-2.0
// The export to Megatron's layouts: the tensors of a pipeline stage in the order of Megatron's
// modules, the arguments, and files of tensors that are streamed from a checkpoint.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/format/checkpoint.hpp"
#include "ckpt/format/manifest.hpp"
#include "convert/conversion.hpp"
#include "convert/megatron/megatron_names.hpp"
#include "convert/native_export.hpp"
#include "convert/torch/torch_writer.hpp"
#include "spec/optimizer_config.hpp"

namespace lm::convert {

struct ExportedLossScale {
    double scale = 1;
    i64 steps_since_overflow = 0;
    i64 hysteresis_left = 2;
    spec::LossScaleConfig config;
};

// The schedule of the run that saved a checkpoint, as Megatron's OptimizerParamScheduler states it:
// times in samples.
struct ExportedSchedule {
    double lr = 0;  // the highest rate
    double min_lr = 0;
    double warmup_samples = 0, decay_samples = 0, train_samples = 0;
    std::string decay_style = "constant";
    double start_weight_decay = 0, end_weight_decay = 0;
    std::string weight_decay_style = "constant";
};

struct ExportedOptimizer {
    ExportedSchedule schedule;
    spec::AdamWConfig adam;
    std::optional<ExportedLossScale> loss_scale;  // nullopt: no dynamic scale
};

// Reads the settings of the run that saved the checkpoint. The manifest of an imported checkpoint
// does not state all settings; a missing setting has the default of lm-train.
ExportedOptimizer exported_optimizer(const ckpt::Manifest& manifest, const std::string& path);

// Writes entries of a parameter group: lr, betas, eps, weight_decay and bias_correction.
void write_hyperparameters(PickleWriter& pickle, const ExportedOptimizer& optimizer, bool decays);
// Write entries that DeepSpeed expects in its optimizer file for one data-parallel rank.
// write_partition_counts(): partition_count and group_paddings of the two groups, and ds_version.
// write_base_groups(): param_groups, whose first group has weight decay. write_loss_scaler(): the
// loss scale of fp16.
void write_partition_counts(PickleWriter& pickle);
void write_base_groups(PickleWriter& pickle, const ExportedOptimizer& optimizer);
void write_loss_scaler(PickleWriter& pickle, const ExportedLossScale& scale);

enum class MegatronSection { embedding, layer, norm, head, tied_copy };

// The part of a tensor that one rank has.
struct MegatronTensor {
    MegatronSection section = MegatronSection::layer;
    i64 layer = 0;     // index of the layer in the model
    i64 local = 0;     // index of the layer in the stage
    std::string name;  // name in its section: "self_attention.dense.weight", "weight"
    MappedTensor map;
    bool decays() const { return map.rank == 2; }
};

// Returns which names of tensors an export to Megatron-LM uses. Throws Error(usage) when `wanted`
// are names of megatron-core, and megatron-core does not support the model.
MegatronNames megatron_names_of(const spec::ModelConfig& config,
                                std::optional<MegatronNames> wanted);

// The ranks of an export, and their tensors.
class MegatronLayout {
  public:
    // Throws Error(usage) when an argument is out of range, or when `pp` does not divide the
    // layers.
    MegatronLayout(const spec::ModelConfig& config, i64 tp, i64 pp, i64 vocab_multiple = 128,
                   MegatronNames names = MegatronNames::classic);

    i64 tp() const { return tp_; }
    i64 pp() const { return pp_; }
    MegatronNames names() const { return names_; }
    // Gives the last stage a copy of all tensors of a tied embedding, before the stage's other
    // tensors, as in DeepSpeed's pipeline. Without this call the last stage has only the word
    // embeddings, after its other tensors.
    void copy_tied_module() { whole_tied_module_ = true; }
    i64 padded_vocab() const { return padded_vocab_; }
    std::vector<MegatronTensor> tensors(i64 tp_rank, i64 stage) const;
    // Returns the bytes of the weights of all ranks and of `n_states` fp32 values for each weight.
    i64 n_bytes(DType weights, i64 n_states) const;
    // Writes Megatron's arguments as an argparse.Namespace. `weights` becomes the argument
    // params_dtype.
    void write_args(PickleWriter& pickle, const ckpt::Manifest& manifest, DType weights) const;

  private:
    void add(std::vector<MegatronTensor>& all, MegatronTensor tensor, const std::string& own,
             i64 tp_rank) const;
    void add_layer(std::vector<MegatronTensor>& all, i64 layer, i64 local, i64 tp_rank) const;

    ModelTensors model_;
    i64 tp_;
    i64 pp_;
    i64 vocab_multiple_;  // --make-vocab-size-divisible-by of Megatron
    MegatronNames names_;
    i64 padded_vocab_;
    bool whole_tied_module_ = false;
};

// Writes the place of each parameter of a group in the group's flat partition, for one
// data-parallel rank. ds_to_universal.py reads these places.
void write_slice_mapping(PickleWriter& pickle, const std::vector<const MegatronTensor*>& group,
                         const std::function<std::string(const MegatronTensor&)>& name);

// A file of torch.save whose pickle is written first and whose tensors are streamed afterwards.
class MegatronFile {
  public:
    // `n_total`: bytes of all files of the conversion, for request.progress.
    MegatronFile(const ckpt::Checkpoint& checkpoint, const ConversionRequest& request,
                 ConversionReport& report, i64 n_total)
        : checkpoint_(checkpoint), request_(request), report_(report), n_total_(n_total) {}

    PickleWriter& pickle() { return pickle_; }
    // Adds the tensor `map`: its values of `kind`, converted to `dtype`.
    void tensor(const MappedTensor& map, ckpt::SliceKind kind, DType dtype);
    // Adds a flat fp32 tensor that concatenates the given tensors.
    void flat(const std::vector<const MappedTensor*>& maps, ckpt::SliceKind kind);
    // Adds an fp32 tensor of one element. No other tensors may follow.
    void last_scalar(double value);
    void write(const std::string& path);

  private:
    const ckpt::Checkpoint& checkpoint_;
    const ConversionRequest& request_;
    ConversionReport& report_;
    i64 n_total_;
    PickleWriter pickle_;
    std::vector<ExportedTensor> sources_;
    std::vector<float> scalars_;  // follow the tensors of sources_
};

// Writes universal_checkpoint_info: regular expressions for the names of parameters, by which
// DeepSpeed's ds_to_universal joins the parts of the tensor ranks.
void write_universal_info(PickleWriter& pickle, const spec::ModelConfig& config);

}  // namespace lm::convert
