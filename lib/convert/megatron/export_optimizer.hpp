// SPDX-License-Identifier: Apache-2.0
// The settings of the optimizer in exported optimizer states: the hyperparameters of the parameter
// groups and the loss scale, as PyTorch's AdamW, Megatron and DeepSpeed store them.
#pragma once

#include <optional>

#include "ckpt/format/manifest.hpp"
#include "convert/torch/torch_writer.hpp"
#include "spec/optimizer_config.hpp"

namespace lm::convert {

struct ExportedLossScale {
    double scale = 1;
    i64 steps_since_overflow = 0;
    i64 hysteresis_left = 2;
    spec::LossScaleConfig config;
};

struct ExportedOptimizer {
    double lr = 0;  // the highest rate: a schedule computes the rate of the next step
    spec::AdamWConfig adam;
    std::optional<ExportedLossScale> loss_scale;  // nullopt: no dynamic scale
};

// Reads the settings of the run that saved the checkpoint. A setting that the manifest does not
// state, as in a checkpoint that was imported, has the default of lm-train.
ExportedOptimizer exported_optimizer(const ckpt::Manifest& manifest, const std::string& path);

// Writes entries of a parameter group: lr, betas, eps, weight_decay and bias_correction.
void write_hyperparameters(PickleWriter& pickle, const ExportedOptimizer& optimizer, bool decays);
// Write entries of DeepSpeed's optimizer file for one data-parallel rank, which DeepSpeed expects:
// partition_count and group_paddings of the two groups, ds_version; param_groups, of which the
// first has weight decay; the loss scale of fp16.
void write_partition_counts(PickleWriter& pickle);
void write_base_groups(PickleWriter& pickle, const ExportedOptimizer& optimizer);
void write_loss_scaler(PickleWriter& pickle, const ExportedLossScale& scale);

}  // namespace lm::convert
