// SPDX-License-Identifier: Apache-2.0
#include "convert/megatron/export_optimizer.hpp"

#include "io/json.hpp"

namespace lm::convert {

ExportedOptimizer exported_optimizer(const ckpt::Manifest& manifest, const std::string& path) {
    const io::Json state = io::parse_json(manifest.state, path);
    const io::Json none = io::Json::object();
    const io::Json& run = state.contains("schedule") ? state.at("schedule") : none;
    const auto number = [&](const io::Json& object, const char* key, double absent) {
        const auto it = object.find(key);
        return it != object.end() && it->is_number() ? it->get<double>() : absent;
    };
    ExportedOptimizer result;
    result.lr = number(run, "lr", 0);
    spec::AdamWConfig& adam = result.adam;
    adam.beta1 = number(run, "adam_beta1", adam.beta1);
    adam.beta2 = number(run, "adam_beta2", adam.beta2);
    adam.eps = number(run, "adam_eps", adam.eps);
    adam.weight_decay = number(run, "weight_decay", adam.weight_decay);
    const auto scale = state.find("loss_scale");
    if (scale == state.end() || !scale->is_object()) return result;
    ExportedLossScale& out = result.loss_scale.emplace();
    const auto whole = [&](const io::Json& object, const char* key, i64 absent) {
        return static_cast<i64>(number(object, key, static_cast<double>(absent)));
    };
    out.scale = number(*scale, "scale", 1);
    out.steps_since_overflow = whole(*scale, "steps_since_overflow", 0);
    out.config.min = number(run, "min_loss_scale", out.config.min);
    out.config.window = whole(run, "loss_scale_window", out.config.window);
    out.config.hysteresis = whole(run, "hysteresis", out.config.hysteresis);
    out.hysteresis_left = whole(*scale, "hysteresis_left", out.config.hysteresis);
    return result;
}

void write_hyperparameters(PickleWriter& pickle, const ExportedOptimizer& optimizer, bool decays) {
    const spec::AdamWConfig& adam = optimizer.adam;
    pickle.key("lr");
    pickle.real(optimizer.lr);
    pickle.key("betas");
    pickle.open_tuple();
    pickle.real(adam.beta1);
    pickle.real(adam.beta2);
    pickle.close_tuple();
    pickle.key("eps");
    pickle.real(adam.eps);
    pickle.key("weight_decay");
    pickle.real(decays ? adam.weight_decay : 0);
    pickle.key("bias_correction");
    pickle.boolean(true);
}

void write_partition_counts(PickleWriter& pickle) {
    for (const auto& [key, value] : {std::pair{"partition_count", 1}, {"group_paddings", 0}}) {
        pickle.key(key);
        pickle.open_list();
        for (int group = 0; group < 2; ++group) pickle.integer(value);
        pickle.close_list();
    }
    // DeepSpeed refuses optimizer states of versions before 0.3.17, because these had another
    // layout.
    pickle.key("ds_version");
    pickle.text("0.3.17");
}

void write_base_groups(PickleWriter& pickle, const ExportedOptimizer& optimizer) {
    pickle.key("param_groups");
    pickle.open_list();
    for (i64 group = 0; group < 2; ++group) {
        pickle.open_dict();
        write_hyperparameters(pickle, optimizer, group == 0);
        pickle.key("params");
        pickle.open_list();
        pickle.integer(group);
        pickle.close_list();
        pickle.close_dict();
    }
    pickle.close_list();
}

// Writes a DynamicLossScaler of fp16/loss_scaler.py. The number of steps since the last overflow is
// cur_iter - 1 - last_overflow_iter.
void write_loss_scaler(PickleWriter& pickle, const ExportedLossScale& scale) {
    const auto integer = [&](const char* key, i64 value) {
        pickle.key(key);
        pickle.integer(value);
    };
    const auto real = [&](const char* key, double value) {
        pickle.key(key);
        pickle.real(value);
    };
    const auto flag = [&](const char* key, bool value) {
        pickle.key(key);
        pickle.boolean(value);
    };
    flag("dynamic_loss_scale", true);
    flag("overflow", false);
    pickle.key("loss_scaler");
    pickle.open_object("deepspeed.runtime.fp16.loss_scaler", "DynamicLossScaler");
    real("cur_scale", scale.scale);
    integer("cur_iter", scale.steps_since_overflow);
    integer("last_overflow_iter", -1);
    real("scale_factor", 2);
    integer("scale_window", scale.config.window);
    real("min_scale", scale.config.min);
    integer("delayed_shift", scale.config.hysteresis);
    integer("cur_hysteresis", scale.hysteresis_left);
    flag("consecutive_hysteresis", false);
    flag("raise_error_at_min_scale", true);
    flag("dynamic", true);
    pickle.key("dtype");
    pickle.type(DType::fp16);
    pickle.close_object();
}

}  // namespace lm::convert
