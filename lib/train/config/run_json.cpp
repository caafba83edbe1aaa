// SPDX-License-Identifier: Apache-2.0
#include "train/config/run_json.hpp"

#include <type_traits>

#include "ckpt/format/model_json.hpp"
#include "config/field_json.hpp"

namespace lm::train {
namespace {

using config::Block;
using io::OrderedJson;

config::Resolved resolved_of(const RunConfig& config) {
    const TrainerConfig& trainer = config.trainer;
    return {.model = trainer.model,
            .parallel = trainer.parallel,
            .schedule = config.schedule,
            .skipped = config.skipped,
            .micro_batch = trainer.micro_batch,
            .validation_samples = config.validation_samples(),
            .weights = trainer.precision.weights,
            .seed = trainer.seed,
            .cuda = trainer.cuda,
            .deterministic = trainer.deterministic,
            .attention = trainer.attention,
            .allow_tf32 = trainer.allow_tf32,
            .autotune = trainer.autotune,
            .tensor_comm_sms = trainer.tensor_comm_sms,
            .n_threads = trainer.n_threads};
}

// Returns the section of type Section in `config`; nullptr when RunConfig does not store it.
template <typename Section>
const Section* section_of(const RunConfig& config) {
    if constexpr (std::is_same_v<Section, config::ValidationFlags>) return &config.validation;
    if constexpr (std::is_same_v<Section, config::CheckpointFlags>) return &config.checkpoints;
    if constexpr (std::is_same_v<Section, config::LoggingFlags>) return &config.logging;
    if constexpr (std::is_same_v<Section, config::ActionFlags>) return &config.action;
    if constexpr (std::is_same_v<Section, config::StoppingFlags>) return &config.stopping;
    if constexpr (std::is_same_v<Section, data::DataPaths>) return &config.data.paths;
    if constexpr (std::is_same_v<Section, config::DataFlags>) return &config.data;
    if constexpr (std::is_same_v<Section, config::DocumentFlags>) return &config.trainer.documents;
    if constexpr (std::is_same_v<Section, config::RankCheckFlags>) return &config.rank_checks;
    if constexpr (std::is_same_v<Section, spec::DataParallelConfig>) {
        return &config.trainer.data_parallel;
    }
    if constexpr (std::is_same_v<Section, spec::AdamWConfig>) return &config.trainer.adamw;
    if constexpr (std::is_same_v<Section, spec::LossScaleConfig>) return &config.trainer.loss_scale;
    return nullptr;
}

// Returns all fields of `block` in the order of the tables.
OrderedJson block_json(const RunConfig& config, Block block) {
    const config::Resolved resolved = resolved_of(config);
    OrderedJson json = OrderedJson::object();
    config::for_each_section([&]<typename S>(const config::Fields<S>& fields) {
        const bool scales_loss = config.trainer.precision.weights == DType::fp16;
        if (std::is_same_v<S, spec::LossScaleConfig> && !scales_loss) return;
        if (std::is_same_v<S, config::ParallelFlags> && block == Block::parallel) {
            for (const spec::Dimension& each : spec::dimensions)
                json[each.key] = resolved.parallel.*each.size;
        }
        config::add_json(json, block, fields, section_of<S>(config), resolved);
    });
    return json;
}

OrderedJson memory_json(const cost::MemoryPlan& memory) {
    return {{"weights", memory.weights},         {"masters", memory.masters},
            {"gradients", memory.gradients},     {"optimizer", memory.optimizer},
            {"activations", memory.activations}, {"workspace", memory.workspace},
            {"total", memory.total()},           {"save_buffer", memory.save_buffer}};
}

}  // namespace

OrderedJson training_json(const RunConfig& config) {
    return block_json(config, Block::training);
}

OrderedJson to_json(const RunConfig& config) {
    OrderedJson json = {{"model", ckpt::to_json(config.trainer.model)}};
    const auto add = [&](Block block) { json[name_of(block)] = block_json(config, block); };
    add(Block::parallel);
    json.update(block_json(config, Block::run));
    json["train_iterations"] = config.schedule.total_iterations();
    for (const Block block : {Block::training, Block::validation, Block::checkpoints,
                              Block::stopping, Block::logging}) {
        add(block);
    }
    json["memory_bytes"] = memory_json(memory_plan(config.trainer));
    json["command_line"] = config.command_line;
    return json;
}

}  // namespace lm::train
