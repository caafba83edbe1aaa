// SPDX-License-Identifier: Apache-2.0
#include "train/changes.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.hpp"
#include "base/log.hpp"
#include "data/indexed/dataset_identity.hpp"

namespace lm::train {
namespace {

std::string text_of(const io::Json& value) {
    return value.is_null() || value.empty() ? "not given" : value.dump();
}

std::string flag_of(std::string_view key) {
    std::string flag = "--" + std::string(key);
    std::ranges::replace(flag, '_', '-');
    return flag;
}

// A scale that goes on has no use for where a new one starts: that is noted where it is restored.
constexpr std::string_view start_of_scale = "initial_loss_scale";

// As Megatron's OptimizerParamScheduler, which asks for the same flag.
constexpr std::array<std::string_view, 11> schedule_keys{"lr",
                                                         "min_lr",
                                                         "lr_decay_style",
                                                         "lr_warmup_init",
                                                         "lr_warmup_samples",
                                                         "lr_decay_samples",
                                                         "lr_decay_tokens",
                                                         "lr_wsd_decay_style",
                                                         "lr_wsd_decay_samples",
                                                         "weight_decay",
                                                         "curriculum_learning_type"};
// Which samples there are, and their order.
constexpr std::array<std::string_view, 4> data_keys{"seed", "data_order", "split", "seq_length"};

template <typename Keys>
bool is_one_of(const Keys& keys, std::string_view key) {
    return std::ranges::find(keys, key) != keys.end();
}

class Changes {
  public:
    Changes(const RunConfig& config, const ckpt::Checkpoint& checkpoint)
        : config_(config), checkpoint_(checkpoint), manifest_(checkpoint.manifest()) {}

    void check_tokenizer() const {
        const ckpt::TokenizerInfo& saved = manifest_.tokenizer;
        const ckpt::TokenizerInfo& now = config_.tokenizer;
        if (saved.digest.empty() || now.digest.empty() || saved.digest == now.digest) return;
        if (!config_.output.override_tokenizer) {
            usage_error(checkpoint_.path(),
                        "--load: its ids were made by another tokenizer ({}) than those of this "
                        "run's data ({}): give data of that tokenizer, or --override-tokenizer if "
                        "the two are the same in other files",
                        saved.digest, now.digest);
        }
        note("{}: another tokenizer ({}) from here on, was {}", checkpoint_.path(), now.digest,
             saved.digest);
    }

    void check_schedule(const io::Json& saved, const io::OrderedJson& now) const {
        for (const auto& [key, value] : now.items()) {
            const auto old = saved.find(key);
            if (old == saved.end() || *old == io::Json(value) || key == start_of_scale) continue;
            check_key(key, text_of(*old), text_of(io::Json(value)));
        }
    }

    void check_data(const io::Json& saved, const io::OrderedJson& now) const {
        if (config_.output.override_data) return;
        if (saved.size() != now.size()) {
            refuse_data("the training data", fmt::format("{} datasets", saved.size()),
                        fmt::format("{}", now.size()));
        }
        for (size_t i = 0; i < now.size(); ++i) check_dataset(saved[i], io::Json(now[i]));
    }

  private:
    void check_key(const std::string& key, const std::string& was, const std::string& is) const {
        if (is_one_of(schedule_keys, key) && !without_effect(key)) {
            if (!config_.output.override_schedule) {
                usage_error(flag_of(key),
                            "is {}, but was {} when {} was written: give that, or "
                            "--override-opt_param-scheduler for the schedule of this command line",
                            is, was, checkpoint_.path());
            }
        } else if (decides_samples(key) && !config_.output.override_data) {
            refuse_data(flag_of(key), was, is);
        }
        note("{}: was {} when the checkpoint was written, is {} from here on", flag_of(key), was,
             is);
    }

    // A rate that does not decay has no use for where it would.
    bool without_effect(std::string_view key) const {
        return key.starts_with("lr_decay_") && key != "lr_decay_style" &&
               config_.schedule.learning_rate().style == optim::DecayStyle::constant;
    }

    // Megatron's orders depend on how many samples are asked for too.
    bool decides_samples(std::string_view key) const {
        return is_one_of(data_keys, key) ||
               (key == "train_samples" && config_.data.order != data::DataOrder::stateless);
    }

    [[noreturn]] void refuse_data(std::string_view what, const std::string& was,
                                  const std::string& is) const {
        usage_error(what,
                    "{} was trained on other samples (was {}, is {}): after its {} samples the "
                    "order would be another one: give what it was, or --override-data to train on "
                    "this from here",
                    checkpoint_.path(), was, is, manifest_.counters.consumed_samples);
    }

    void check_dataset(const io::Json& saved, const io::Json& now) const {
        const auto prefix = io::json_get<std::string>(now, "prefix", checkpoint_.path());
        for (const char* key : {"weight", "from", "to"}) {
            if (saved.value(key, io::Json()) != now.value(key, io::Json())) {
                refuse_data(fmt::format("{}: its {}", prefix, key),
                            text_of(saved.value(key, io::Json())),
                            text_of(now.value(key, io::Json())));
            }
        }
        if (data::same_dataset(identity_from(saved), identity_from(now))) return;
        usage_error(prefix,
                    "is not the dataset that {} was trained on ({}, {} bytes; now {}): give that, "
                    "or --override-data to train on this from here",
                    checkpoint_.path(),
                    io::json_get<std::string>(saved, "prefix", checkpoint_.path()),
                    identity_from(saved).bin_bytes, identity_from(now).bin_bytes);
    }

    data::DatasetIdentity identity_from(const io::Json& object) const {
        const std::string& path = checkpoint_.path();
        return {.bin_bytes = io::json_get<i64>(object, "bin_bytes", path),
                .idx_bytes = io::json_get<i64>(object, "idx_bytes", path),
                .samples = io::json_get<std::string>(object, "samples", path),
                .digest = io::json_get<std::string>(object, "digest", path)};
    }

    const RunConfig& config_;
    const ckpt::Checkpoint& checkpoint_;
    const ckpt::Manifest& manifest_;
};

}  // namespace

io::OrderedJson training_data(const RunConfig& config) {
    io::OrderedJson datasets = io::OrderedJson::array();
    for (const data::DataPath& path : data::training_paths(config.data)) {
        const data::DatasetIdentity identity = data::identity_of(path.prefix);
        const data::Fraction fraction = path.fraction.value_or(data::Fraction{});
        datasets.push_back({{"prefix", path.prefix},
                            {"weight", path.weight},
                            {"from", fraction.begin},
                            {"to", fraction.end},
                            {"bin_bytes", identity.bin_bytes},
                            {"idx_bytes", identity.idx_bytes},
                            {"samples", identity.samples},
                            {"digest", identity.digest}});
    }
    return datasets;
}

void check_changes(const RunConfig& config, const io::OrderedJson& data,
                   const ckpt::Checkpoint& checkpoint) {
    const Changes changes(config, checkpoint);
    changes.check_tokenizer();
    if (config.output.finetune) return;
    const io::Json& state = checkpoint.manifest().state;
    if (const auto saved = state.find("schedule"); saved != state.end()) {
        changes.check_schedule(*saved, schedule_json(config));
    }
    if (const auto saved = state.find("data"); saved != state.end()) {
        changes.check_data(*saved, data);
    }
}

}  // namespace lm::train
