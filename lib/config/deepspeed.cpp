// SPDX-License-Identifier: Apache-2.0
#include "config/deepspeed.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/nearest_name.hpp"
#include "base/shape.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "spec/curriculum.hpp"

namespace lm::config {
namespace {

// Keys that have no effect here. gradient_accumulation_steps is ignored only with a batch ramp or
// the value "auto"; otherwise read_batches() reads it.
constexpr std::array ignored_keys = {"steps_per_print",
                                     "wall_clock_breakdown",
                                     "elastic_checkpoint",
                                     "dump_state",
                                     "zero_allow_untested_optimizer",
                                     "zero_force_ds_cpu_optimizer",
                                     "activation_checkpointing",
                                     "prescale_gradients",
                                     "gradient_predivide_factor",
                                     "sparse_gradients",
                                     "disable_allgather",
                                     "fp32_allreduce",
                                     "communication_data_type",
                                     "seq_parallel_communication_data_type",
                                     "memory_breakdown",
                                     "gradient_accumulation_steps",
                                     "data_types",
                                     "checkpoint",
                                     "use_node_local_storage",
                                     "comms_logger",
                                     "flops_profiler",
                                     "monitor_config",
                                     "tensorboard",
                                     "wandb",
                                     "csv_monitor",
                                     "comet",
                                     "aio",
                                     "nebula"};

// Blocks that Megatron's flags replace. Hugging Face's files have them with the value "auto" for
// all parameters.
constexpr std::array flag_blocks = {
    std::pair{"optimizer", "--lr, --adam-beta1, --adam-beta2, --adam-eps and --weight-decay"},
    std::pair{"scheduler", "--lr, --min-lr, --lr-warmup-iters and --lr-decay-style"}};

// The top-level keys that lm-train reads.
constexpr std::array top_level = {"train_micro_batch_size_per_gpu",
                                  "train_batch_size",
                                  "gradient_clipping",
                                  "gradient_accumulation_steps",
                                  "zero_optimization",
                                  "fp16",
                                  "bf16",
                                  "bfloat16",
                                  "curriculum_learning"};

// Keys of DeepSpeed that have no effect here. Their names resemble keys that lm-train reads, but
// they are not reported as misspelled.
constexpr std::array other_keys = {"loss_scale_raise_error_at_min", "consecutive_hysteresis"};

// The keys within blocks that lm-train reads. The note about ignored keys names no key of this
// list.
constexpr std::array known_in_blocks = {
    "zero_optimization.stage",
    "fp16.enabled",
    "fp16.loss_scale",
    "fp16.initial_scale_power",
    "fp16.loss_scale_window",
    "fp16.hysteresis",
    "fp16.min_loss_scale",
    "bf16.enabled",
    "bfloat16.enabled",
    "curriculum_learning.enabled",
    "curriculum_learning.curriculum_type",
    "curriculum_learning.schedule_type",
    "curriculum_learning.min_difficulty",
    "curriculum_learning.max_difficulty",
    "curriculum_learning.schedule_config",
};

class Reader {
  public:
    Reader(TrainFlags& flags, std::optional<i64> n_ranks)
        : flags_(flags), n_ranks_(n_ranks), path_(flags.deepspeed_config), given_(flags.given) {}

    void apply() {
        if (!io::exists(path_)) usage_error("--deepspeed_config", "{} does not exist", path_);
        const std::string text = io::read_input(path_);
        config_ = io::parse_json(text, path_);
        refuse_duplicate_keys(text);
        if (!config_.is_object())
            usage_error(path_, "is not a DeepSpeed configuration: it must be a JSON object");
        set("train_micro_batch_size_per_gpu", "--micro-batch-size", flags_.schedule.micro_batch);
        set("train_batch_size", "--global-batch-size", flags_.schedule.global_batch);
        set("gradient_clipping", "--clip-grad", flags_.optimizer.clip_grad);
        read_zero();
        read_precision();
        read_curriculum();
        check_rest();
    }

  private:
    template <typename... Args>
    [[noreturn]] void wrong(std::string_view key, fmt::format_string<Args...> format,
                            Args&&... args) const {
        usage_error(path_, "{}: {}", key, fmt::format(format, std::forward<Args>(args)...));
    }

    const io::Json* find(const char* key) {
        const auto at = config_.find(key);
        if (at == config_.end()) return nullptr;
        known_.emplace_back(key);
        return &*at;
    }

    // "auto" is Hugging Face's name for the value that a flag of the training script has.
    static bool is_auto(const io::Json& object, const char* key) {
        return object.is_object() && object.contains(key) && object[key] == "auto";
    }
    // Returns the value of the key in a block: `absent` without the key, `flag` for "auto".
    template <typename T>
    T get_or(const io::Json& block, const char* key, T absent, T flag) const {
        return is_auto(block, key) ? flag : io::json_get_or<T>(block, key, absent, path_);
    }

    // Returns the block with the name `key` if it exists and is enabled, else nullptr. `flag`: the
    // value of "auto".
    const io::Json* enabled(const char* key, bool flag = false) {
        const io::Json* block = find(key);
        return block && get_or(*block, "enabled", false, flag) ? block : nullptr;
    }

    static i64 value_of(i64 target) { return target; }
    static double value_of(double target) { return target; }
    static i64 value_of(const std::optional<i64>& target) { return target.value_or(0); }

    // Sets `target` to the value of the key. Throws Error(usage) when the flag was given with
    // another value.
    template <typename Target>
    void set(const char* key, std::string_view flag, Target& target) {
        const io::Json* json = find(key);
        if (!json || *json == "auto") return;
        using Value = decltype(value_of(target));
        const auto value = io::json_as<Value>(*json, key, path_);
        if (given_.contains(flag) && value != value_of(target)) {
            wrong(key, "is {}, but {} is {}: give the same value", value, flag, value_of(target));
        }
        target = value;
    }

    void read_zero() {
        const io::Json* zero = find("zero_optimization");
        if (!zero || is_auto(*zero, "stage")) return;
        const i64 stage = io::json_get_or<i64>(*zero, "stage", 0, path_);
        if (stage != 0 && stage != 1) {
            wrong("zero_optimization", "stage {} is not supported: use 0 or 1", stage);
        }
        std::optional<i64>& given = flags_.zero.stage;
        if (given.value_or(stage) != stage) {
            wrong("zero_optimization", "stage is {}, but --zero-stage is {}: give the same value",
                  stage, *given);
        }
        given = stage;
    }

    void read_precision() {
        const io::Json* fp16 = enabled("fp16", flags_.precision.fp16);
        const bool bf16 =
            enabled("bf16", flags_.precision.bf16) || enabled("bfloat16", flags_.precision.bf16);
        if (fp16 && bf16) wrong("bf16", "is enabled together with fp16: enable one of the two");
        if (fp16 && flags_.precision.bf16)
            wrong("fp16", "is enabled, but --bf16 is given: use one of the two");
        if (bf16 && flags_.precision.fp16)
            wrong("bf16", "is enabled, but --fp16 is given: use one of the two");
        flags_.precision.fp16 = flags_.precision.fp16 || fp16 != nullptr;
        flags_.precision.bf16 = flags_.precision.bf16 || bf16;
        if (fp16) read_loss_scale(*fp16);
    }

    // The loss scale in the file overrides Megatron's flags for the loss scale, as in the published
    // trainings that used a DeepSpeed file and these flags. A dynamic scale still grows and shrinks
    // by Megatron's rule.
    void read_loss_scale(const io::Json& fp16) {
        spec::LossScaleConfig& to = flags_.loss_scale;
        const spec::LossScaleConfig flags = std::exchange(to, {});
        const auto fixed = get_or<double>(fp16, "loss_scale", 0, flags.fixed.value_or(0));
        constexpr std::pair<const char*, const char*> overridden[] = {
            {"loss_scale", "--loss-scale"},
            {"initial_scale_power", "--initial-loss-scale"},
            {"min_loss_scale", "--min-loss-scale"},
            {"loss_scale_window", "--loss-scale-window"},
            {"hysteresis", "--hysteresis"}};
        for (const auto& [key, flag] : overridden) {
            if (given_.contains(flag) && !is_auto(fp16, key))
                note("{}: fp16: overrides {}", path_, flag);
        }
        to.fixed = fixed > 0 ? std::optional(fixed) : std::nullopt;
        to.initial =
            is_auto(fp16, "initial_scale_power")
                ? flags.initial
                : std::exp2(io::json_get_or<double>(fp16, "initial_scale_power", 16, path_));
        to.window = get_or(fp16, "loss_scale_window", to.window, flags.window);
        to.hysteresis = get_or(fp16, "hysteresis", to.hysteresis, flags.hysteresis);
        to.min = get_or(fp16, "min_loss_scale", to.min, flags.min);
    }

    void read_curriculum() {
        constexpr const char* key = "curriculum_learning";
        const io::Json* block = enabled(key);
        if (!block) return;
        CurriculumFlags& to = flags_.schedule.curriculum;
        if (!to.type.empty())
            wrong(key, "cannot be combined with --curriculum-learning-type: give one of the two");
        to.type = io::json_get_or<std::string>(*block, "curriculum_type", "seqlen", path_);
        if (to.type != "seqlen")
            wrong(key, "curriculum_type {} is not supported: use seqlen", to.type);
        to.from_deepspeed = true;
        to.schedule = io::json_get<std::string>(*block, "schedule_type", path_);
        to.min_difficulty = io::json_get<i64>(*block, "min_difficulty", path_);
        to.max_difficulty = io::json_get<i64>(*block, "max_difficulty", path_);
        const auto schedule = io::json_get<io::Json>(*block, "schedule_config", path_);
        if (value_in(spec::curriculum_kinds, to.schedule) ==
            spec::Curriculum::Kind::fixed_discrete) {
            to.difficulties = io::json_get<std::vector<i64>>(schedule, "difficulty", path_);
            to.max_steps = io::json_get<std::vector<i64>>(schedule, "max_step", path_);
            return;
        }
        to.total_steps = io::json_get<i64>(schedule, "total_curriculum_step", path_);
        to.difficulty_step = io::json_get<i64>(schedule, "difficulty_step", path_);
        to.root_degree = io::json_get_or<i64>(schedule, "root_degree", to.root_degree, path_);
    }

    // Throws Error(usage) for a key that an object has twice, as DeepSpeed does.
    void refuse_duplicate_keys(std::string_view text) const {
        std::vector<std::set<std::string>> objects;  // the keys of the open objects
        const auto visit = [&](int, io::Json::parse_event_t event, const io::Json& value) {
            using Event = io::Json::parse_event_t;
            if (event == Event::object_start) objects.emplace_back();
            if (event == Event::object_end) objects.pop_back();
            if (event == Event::key && !objects.back().insert(value.get<std::string>()).second) {
                wrong(value.get<std::string>(),
                      "appears twice in one object: remove one of the two");
            }
            return true;
        };
        [[maybe_unused]] const io::Json document = io::Json::parse(text, visit);
    }

    // Returns the number of data-parallel ranks; nullopt: unknown, or checked elsewhere.
    std::optional<i64> data_parallel() const {
        const spec::ParallelConfig sizes = sizes_of(flags_.parallel);
        if (!n_ranks_ || sizes.tp < 1 || sizes.pp < 1) return std::nullopt;
        const i64 n = *n_ranks_ / sizes.ranks_per_replica();
        return n < 1 ? std::nullopt : std::optional(n);
    }

    // Derives the batch size or the micro-batch size that neither the file nor a flag states, as
    // DeepSpeed does (DeepSpeedConfig._set_batch_related_parameters). With a batch ramp, ignores
    // gradient_accumulation_steps. resolve() of train/config/run_config.hpp later checks the steps
    // against the number of ranks.
    void read_batches() {
        constexpr const char* key = "gradient_accumulation_steps";
        ScheduleFlags& to = flags_.schedule;
        const auto at = config_.find(key);
        const bool has_steps = at != config_.end() && *at != "auto";
        if (!to.rampup.empty()) return;
        if (has_steps) known_.emplace_back(key);
        const i64 steps = has_steps ? io::json_as<i64>(*at, key, path_) : 1;
        if (steps < 1) wrong(key, "expected at least 1, got {}", steps);
        if (has_steps && !to.global_batch && !to.micro_batch) {
            wrong(key,
                  "needs a batch size: give train_batch_size or train_micro_batch_size_per_gpu");
        }
        const bool states_batch = to.global_batch && !given_.contains("--global-batch-size");
        const bool states_micro = to.micro_batch && !given_.contains("--micro-batch-size");
        if (const auto dp = data_parallel(); dp && (has_steps || states_batch || states_micro))
            derive_batch(steps, *dp);
        if (!has_steps) return;
        if (to.global_batch && to.micro_batch) check_accumulation(key, steps);
        to.accumulation_steps = steps;
    }

    void derive_batch(i64 steps, i64 dp) {
        ScheduleFlags& to = flags_.schedule;
        if (!to.batch_steps.empty()) return;
        if (to.micro_batch && !to.global_batch) {
            to.global_batch = checked_mul(checked_mul(*to.micro_batch, steps), dp);
            note("{}: the global batch size is {}: {} samples x {} steps x {} data-parallel ranks",
                 path_, *to.global_batch, *to.micro_batch, steps, dp);
        } else if (to.global_batch && !to.micro_batch) {
            const i64 unit = checked_mul(steps, dp);
            if (*to.global_batch < 1 || *to.global_batch % unit != 0) {
                wrong("train_batch_size",
                      "{} is not a multiple of {} steps x {} data-parallel ranks: give "
                      "train_micro_batch_size_per_gpu",
                      *to.global_batch, steps, dp);
            }
            to.micro_batch = *to.global_batch / unit;
            note("{}: the micro-batch size is {}: {} samples / {} steps / {} data-parallel ranks",
                 path_, *to.micro_batch, *to.global_batch, steps, dp);
        }
    }

    // Throws Error(usage) unless gradient_accumulation_steps x micro-batch size divides the global
    // batch.
    void check_accumulation(const char* key, i64 steps) const {
        const i64 batch = *flags_.schedule.global_batch;
        const i64 micro_batch = *flags_.schedule.micro_batch;
        const bool fits =
            micro_batch >= 1 && batch % steps == 0 && batch / steps % micro_batch == 0;
        if (!fits) {
            wrong(key, "is {}, but the batch size {} is not a multiple of {} x micro-batch size {}",
                  steps, batch, steps, micro_batch);
        }
    }

    // Throws Error(usage) when the unknown key `name` looks like a misspelling of a key in `known`.
    void refuse_misspelled(const std::string& name, const std::vector<std::string>& known) const {
        const std::string nearest = nearest_name(name, known);
        if (!nearest.empty()) wrong(name, "unknown key: did you mean {}?", nearest);
    }

    // Returns whether every parameter of a block of flag_blocks is "auto".
    static bool follows_flags(const io::Json& block) {
        if (!block.is_object() || !block.contains("params")) return false;
        return std::ranges::all_of(block["params"],
                                   [](const io::Json& value) { return value == "auto"; });
    }

    // Throws Error(usage) for a key that changes a result and is not supported.
    void check_unread(const std::string& key, const io::Json& value) const {
        if (std::ranges::find(ignored_keys, key) != ignored_keys.end()) return;
        const auto block =
            std::ranges::find(flag_blocks, key, &decltype(flag_blocks)::value_type::first);
        if (block != flag_blocks.end()) {
            if (follows_flags(value)) return;
            wrong(key,
                  "is not supported: remove the key, or write \"auto\" for each of its params, and "
                  "give {}",
                  block->second);
        }
        if (value.is_object() && value.value("enabled", io::Json()) == false) return;
        refuse_misspelled(key, {top_level.begin(), top_level.end()});
        wrong(key,
              "is not supported: remove the key, and give the flag of lm-train instead "
              "(lm-train --help-all lists all flags)");
    }

    void check_rest() {
        read_batches();
        std::string ignored;
        const auto ignore = [&ignored](const std::string& key) {
            ignored += (ignored.empty() ? "" : ", ") + key;
        };
        for (const auto& [key, value] : config_.items()) {
            if (std::ranges::find(known_, key) != known_.end()) {
                for (const std::string& inner : unread(key, value)) ignore(inner);
                continue;
            }
            check_unread(key, value);
            ignore(key);
        }
        if (!ignored.empty())
            note("{}: these keys have no effect here and are ignored: {}", path_, ignored);
    }

    // Returns the keys of `block` that have no effect here; an empty list when the block is not
    // enabled.
    std::vector<std::string> unread(const std::string& block, const io::Json& value) const {
        std::vector<std::string> keys;
        if (!value.is_object()) return keys;
        if (value.contains("enabled") && value["enabled"] == false) return keys;
        std::vector<std::string> known;
        for (const std::string_view name : known_in_blocks) {
            if (name.starts_with(block + ".")) known.emplace_back(name.substr(block.size() + 1));
        }
        for (const auto& [key, ignored] : value.items()) {
            if (std::ranges::find(known, key) != known.end()) continue;
            if (std::ranges::find(other_keys, key) == other_keys.end()) {
                const std::string nearest = nearest_name(key, known);
                if (!nearest.empty()) {
                    wrong(block, "{}: unknown key: did you mean {}?", key, nearest);
                }
            }
            keys.push_back(block + "." + key);
        }
        return keys;
    }

    TrainFlags& flags_;
    std::optional<i64> n_ranks_;
    std::string path_;
    io::Json config_;
    const cli::GivenNames& given_;
    std::vector<std::string> known_;
};

}  // namespace

void apply_deepspeed(TrainFlags& flags, std::optional<i64> n_ranks) {
    if (!flags.deepspeed_config.empty()) Reader(flags, n_ranks).apply();
}

}  // namespace lm::config
