// SPDX-License-Identifier: Apache-2.0
#include "train/config/unused_flags.hpp"

#include <initializer_list>

#include "base/error.hpp"
#include "base/log.hpp"

namespace lm::train {
namespace {

using Names = std::initializer_list<std::string_view>;

class Given {
  public:
    explicit Given(const config::TrainFlags& flags) : names_(flags.model.given) {}

    void refuse(bool used, Names names, std::string_view owner) const {
        for (const std::string_view name : names) {
            if (!used && names_.contains(name)) usage_error(name, "needs {}", owner);
        }
    }
    bool has(std::string_view name) const { return names_.contains(name); }
    void ignore(bool used, Names names, std::string_view why) const {
        for (const std::string_view name : names) {
            if (!used && names_.contains(name)) note("{}: ignored: {}", name, why);
        }
    }

  private:
    const cli::GivenNames& names_;
};

void check_curriculum(const Given& given, const config::CurriculumFlags& curriculum) {
    given.refuse(
        !curriculum.type.empty(),
        {"--curriculum-schedule", "--curriculum-min-difficulty", "--curriculum-max-difficulty",
         "--curriculum-total-steps", "--curriculum-difficulty-step", "--curriculum-root-degree",
         "--curriculum-difficulties", "--curriculum-max-steps"},
        "--curriculum-learning-type");
    const bool discrete = curriculum.schedule == "fixed_discrete";
    given.refuse(discrete, {"--curriculum-difficulties", "--curriculum-max-steps"},
                 "--curriculum-schedule fixed_discrete");
    given.refuse(!discrete,
                 {"--curriculum-min-difficulty", "--curriculum-max-difficulty",
                  "--curriculum-total-steps", "--curriculum-difficulty-step"},
                 "--curriculum-schedule fixed_linear or fixed_root");
    given.refuse(curriculum.schedule == "fixed_root", {"--curriculum-root-degree"},
                 "--curriculum-schedule fixed_root");
}

}  // namespace

void check_unused_flags(const config::TrainFlags& flags, bool on_gpus) {
    const Given given(flags);
    check_curriculum(given, flags.schedule.curriculum);
    given.ignore(on_gpus,
                 {"--attention-backend", "--allow-tf32", "--autotune", "--tensor-comm-sms"},
                 "this run computes on the CPU");
    given.ignore(!flags.device.deterministic_mode, {"--autotune"},
                 "--deterministic-mode uses the first algorithm that cuBLASLt proposes");
    if (on_gpus && flags.device.deterministic_mode && flags.device.attention_backend == "fused") {
        note(
            "--attention-backend fused: ignored: --deterministic-mode uses lm-train's attention "
            "kernels instead of cuDNN's");
    }
    if (on_gpus && (flags.device.attention_backend == "unfused" ||
                    flags.device.attention_backend == "local")) {
        note("--attention-backend {}: ignored: attention is always a fused kernel",
             flags.device.attention_backend);
    }
    given.refuse(!flags.checkpoints.save.empty(),
                 {"--save-failures", "--save-retry", "--async-save-buffer"}, "--save DIR");
    given.refuse(!flags.logging.codecarbon_dir.empty(),
                 {"--codecarbon-intensity", "--codecarbon-country", "--codecarbon-cpu-power"},
                 "--codecarbon-dir DIR");
    given.refuse(!flags.data.paths.data_path.empty() || !flags.data.blend_file.empty() ||
                     flags.data.mock_data,
                 {"--split"}, "--data-path");
    given.ignore(flags.schedule.lr_decay_style == "WSD",
                 {"--lr-wsd-decay-style", "--lr-wsd-decay-samples", "--lr-wsd-decay-iters"},
                 "it has an effect with --lr-decay-style WSD only");
    given.ignore(flags.data.order != "stateless", {"--data-cache-path"},
                 "--data-order stateless has no index");
    given.ignore(flags.precision.fp16 || !flags.deepspeed_config.empty(),
                 {"--loss-scale", "--initial-loss-scale", "--min-loss-scale", "--loss-scale-window",
                  "--hysteresis"},
                 "only --fp16 scales the loss");
    given.ignore(
        !given.has("--loss-scale"),
        {"--initial-loss-scale", "--min-loss-scale", "--loss-scale-window", "--hysteresis"},
        "--loss-scale sets a fixed scale");
    given.ignore(flags.parallel.tensor > 1, {"--sequence-parallel"},
                 "it has an effect with --tensor-model-parallel-size above 1 only");
}

}  // namespace lm::train
