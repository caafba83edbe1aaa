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
    double lr = 0;  // the highest rate; a schedule computes the rate of each step
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

}  // namespace lm::convert
