// SPDX-License-Identifier: Apache-2.0
#include "train/config/run_config.hpp"

#include <algorithm>
#include <initializer_list>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/shape.hpp"
#include "ckpt/history/steps.hpp"
#include "config/deepspeed.hpp"
#include "config/rank_counts.hpp"
#include "config/schedule_flags.hpp"
#include "cost/nccl.hpp"
#include "io/file.hpp"
#include "spec/pipeline_schedule.hpp"
#include "spec/schedule_summary.hpp"
#include "train/config/run_data.hpp"
#include "train/config/start_choice.hpp"

namespace lm::train {
namespace {

using Names = std::initializer_list<std::string_view>;

class Given {
  public:
    explicit Given(const config::TrainFlags& flags) : names_(flags.given) {}

    void refuse(bool used, Names names, std::string_view owner) {
        for (const std::string_view name : names) {
            if (names_.contains(name) && !used)
                problems_.push_back(fmt::format("{}: needs {}", name, owner));
        }
    }
    void throw_problems() const { lm::throw_problems(problems_); }
    bool has(std::string_view name) const { return names_.contains(name); }
    void ignore(bool used, Names names, std::string_view why) const {
        for (const std::string_view name : names) {
            if (names_.contains(name) && !used) note("{}: ignored: {}", name, why);
        }
    }

  private:
    const cli::GivenNames& names_;
    std::vector<std::string> problems_;
};

void check_curriculum(Given& given, const config::CurriculumFlags& curriculum) {
    given.refuse(
        !curriculum.type.empty(),
        {"--curriculum-schedule", "--curriculum-min-difficulty", "--curriculum-max-difficulty",
         "--curriculum-total-steps", "--curriculum-difficulty-step", "--curriculum-root-degree",
         "--curriculum-difficulties", "--curriculum-max-steps"},
        "--curriculum-learning-type");
    const auto kind = value_in(spec::curriculum_kinds, curriculum.schedule);
    const bool discrete = kind == spec::Curriculum::Kind::fixed_discrete;
    given.refuse(discrete, {"--curriculum-difficulties", "--curriculum-max-steps"},
                 "--curriculum-schedule fixed_discrete");
    given.refuse(!discrete,
                 {"--curriculum-min-difficulty", "--curriculum-max-difficulty",
                  "--curriculum-total-steps", "--curriculum-difficulty-step"},
                 "--curriculum-schedule fixed_linear or fixed_root");
    given.refuse(kind == spec::Curriculum::Kind::fixed_root, {"--curriculum-root-degree"},
                 "--curriculum-schedule fixed_root");
}

// For a given flag without effect, throws Error(usage) if only lm-train has this flag or if
// Megatron also refuses it; otherwise prints a note. Call it before a DeepSpeed configuration is
// applied. `on_gpus`: the run computes on GPUs.
void check_unused_flags(const config::TrainFlags& flags, bool on_gpus) {
    Given given(flags);
    check_curriculum(given, flags.schedule.curriculum);
    given.ignore(on_gpus,
                 {"--attention-backend", "--allow-tf32", "--autotune", "--tensor-comm-sms"},
                 "this run computes on the CPU");
    given.ignore(!flags.device.deterministic_mode, {"--autotune"},
                 "--deterministic-mode uses the first algorithm that cuBLASLt proposes");
    const auto attention = value_in(spec::gpu_attentions, flags.device.attention_backend);
    if (on_gpus && flags.device.deterministic_mode && attention == spec::GpuAttention::cudnn) {
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
    const auto decay_style = value_in(spec::decay_styles, flags.schedule.lr_decay_style);
    given.ignore(decay_style == spec::DecayStyle::wsd,
                 {"--lr-wsd-decay-style", "--lr-wsd-decay-samples", "--lr-wsd-decay-iters"},
                 "it has an effect with --lr-decay-style WSD only");
    given.ignore(value_in(data::data_orders, flags.data.order) != data::DataOrder::stateless,
                 {"--data-cache-path"}, "--data-order stateless has no index");
    given.ignore(flags.precision.fp16 || !flags.deepspeed_config.empty(),
                 {"--loss-scale", "--initial-loss-scale", "--min-loss-scale", "--loss-scale-window",
                  "--hysteresis"},
                 "only --fp16 scales the loss");
    given.ignore(
        !given.has("--loss-scale"),
        {"--initial-loss-scale", "--min-loss-scale", "--loss-scale-window", "--hysteresis"},
        "--loss-scale sets a fixed scale");
    given.ignore(!flags.documents.inter_document_masking,
                 {"--reset-position-ids", "--reset-attention-mask"},
                 "--dataloader-inter-document-masking does both at the documents of the index");
    given.ignore(flags.parallel.tensor > 1, {"--sequence-parallel"},
                 "it has an effect with --tensor-model-parallel-size above 1 only");
    given.throw_problems();
}

std::optional<spec::Curriculum> curriculum_of(const config::CurriculumFlags& flags,
                                              i64 seq_length) {
    if (flags.type.empty()) return std::nullopt;
    spec::Curriculum curriculum;
    curriculum.from_deepspeed = flags.from_deepspeed;
    curriculum.kind = spec::parse_curriculum_kind(
        flags.from_deepspeed ? "curriculum_learning: schedule_type" : "--curriculum-schedule",
        flags.schedule);
    if (curriculum.kind == spec::Curriculum::Kind::fixed_discrete) {
        curriculum.lengths = flags.difficulties;
        curriculum.max_steps = flags.max_steps;
        return curriculum;
    }
    const auto needed = [](std::string_view flag, const std::optional<i64>& value) {
        if (!value) usage_error(flag, "is missing: --curriculum-learning-type needs it");
        return *value;
    };
    curriculum.min = needed("--curriculum-min-difficulty", flags.min_difficulty);
    curriculum.max = flags.max_difficulty.value_or(seq_length);
    curriculum.total_steps = needed("--curriculum-total-steps", flags.total_steps);
    curriculum.difficulty_step = flags.difficulty_step;
    curriculum.root_degree = flags.root_degree;
    return curriculum;
}

// Returns the request. Throws Error(usage) with all invalid values and all missing flags.
spec::ScheduleRequest schedule_request(const config::ScheduleFlags& flags, i64 seq_length) {
    spec::ScheduleRequest request;
    request.seq_length = seq_length;
    request.train_samples = flags.train_samples;
    request.train_iters = flags.train_iters;
    request.train_tokens = flags.train_tokens;
    request.lr = flags.lr;
    request.min_lr = flags.min_lr;
    request.decay_style = spec::parse_decay_style(flags.lr_decay_style);
    request.decoupled_lr = flags.decoupled_lr;
    request.decoupled_min_lr = flags.decoupled_min_lr;
    request.start_weight_decay = flags.start_weight_decay;
    request.end_weight_decay = flags.end_weight_decay;
    request.weight_decay_style = spec::parse_weight_decay_style(flags.weight_decay_style);
    request.warmup_samples = flags.lr_warmup_samples;
    request.warmup_iters = flags.lr_warmup_iters;
    request.warmup_tokens = flags.lr_warmup_tokens;
    request.warmup_fraction = flags.lr_warmup_fraction;
    request.warmup_init = flags.lr_warmup_init;
    request.anneal_style = spec::parse_anneal_style(flags.lr_wsd_decay_style);
    request.anneal_samples = flags.lr_wsd_decay_samples;
    request.anneal_iters = flags.lr_wsd_decay_iters;
    request.decay_samples = flags.lr_decay_samples;
    request.decay_iters = flags.lr_decay_iters;
    request.decay_tokens = flags.lr_decay_tokens;
    check_all([&] { request.ramp = config::batch_ramp(flags, seq_length); },
              [&] { request.curriculum = curriculum_of(flags.curriculum, seq_length); },
              [&] { request.check(); });
    return request;
}

// Returns a problem for each missing flag that every training needs: its length and --lr.
std::vector<std::string> missing_schedule_flags(const config::ScheduleFlags& flags) {
    std::vector<std::string> problems;
    if (!flags.train_samples && !flags.train_iters && !flags.train_tokens) {
        problems.emplace_back(
            "--train-samples: the length of the training is missing: give --train-samples, "
            "--train-iters or --train-tokens");
    }
    if (!flags.lr) problems.emplace_back("--lr: the maximum learning rate is missing");
    return problems;
}

void check_energy(const config::LoggingFlags& flags) {
    check_at_least("--codecarbon-intensity", flags.codecarbon_intensity, 0);
    check_at_least("--codecarbon-cpu-power", flags.codecarbon_cpu_power, 0);
    const std::string& country = flags.codecarbon_country;
    const bool has_letters_only = std::ranges::all_of(
        country, [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); });
    if (!country.empty() && (country.size() > 3 || !has_letters_only)) {
        usage_error("--codecarbon-country",
                    "expected the ISO code of a country, such as FRA, got {}", country);
    }
}

// Returns whether all intervals are valid.
bool check_intervals(const config::TrainFlags& flags, Problems& problems) {
    bool valid = true;
    const auto at_least = [&](std::string_view flag, const auto& value, auto least) {
        valid &= problems.check([&] { check_at_least(flag, value, least); });
    };
    at_least("--log-interval", flags.logging.interval, 1);
    at_least("--eval-interval", flags.validation.interval.value, 1);
    valid &= problems.check(
        [&] { check_from_to("--timing-log-level", flags.logging.timing_level, 0, 2); });
    at_least("--eval-iters", flags.validation.iters, 0);
    at_least("--tensorboard-queue-size", flags.logging.tensorboard_queue_size, 1);
    const config::StoppingFlags& stopping = flags.stopping;
    at_least("--exit-interval", stopping.exit_interval, 1);
    at_least("--error-injection-rate", stopping.injection_rate, 0);
    at_least("--exit-duration-in-mins", stopping.exit_duration_min, 0);
    return valid;
}

// Returns the checkpoint of --load, of which only the manifest is needed; nullopt when there is
// none.
std::optional<ckpt::Checkpoint> manifest_of(const config::CheckpointFlags& flags) {
    const ckpt::Share first_part{.count = i64{1} << 40};
    return ckpt::open_if_any(flags.load, first_part);
}

// Returns the number of samples after which a run with these flags starts.
i64 samples_before(config::CheckpointFlags flags) {
    choose_start(flags);
    if (flags.load.empty() || flags.finetune || !io::exists(flags.load)) return 0;
    const auto checkpoint = manifest_of(flags);
    return checkpoint ? checkpoint->manifest().counters.consumed_samples : 0;
}

// Returns the vocabulary of the run's checkpoint; an unknown one without a checkpoint.
Vocabulary saved_vocabulary(config::CheckpointFlags flags) {
    choose_start(flags);
    if (flags.load.empty() || !io::exists(flags.load)) return {};
    const auto checkpoint = manifest_of(flags);
    if (!checkpoint) return {};
    const ckpt::TokenizerInfo& tokenizer = checkpoint->manifest().tokenizer;
    Vocabulary vocabulary{.size = checkpoint->manifest().model.vocab_size,
                          .digest = tokenizer.digest};
    if (tokenizer.end_of_document >= 0) vocabulary.eod = tokenizer.end_of_document;
    return vocabulary;
}

// With --use-checkpoint-args, returns the model of the checkpoint of --load and prints a note;
// throws Error(usage) without --load. Returns nullopt without the flag, and when there is no
// checkpoint.
std::optional<spec::ModelConfig> saved_model(config::CheckpointFlags flags) {
    constexpr std::string_view flag = "--use-checkpoint-args";
    if (!flags.use_saved_model) return std::nullopt;
    choose_start(flags);
    if (flags.load.empty()) usage_error(flag, "needs --load DIR");
    const auto checkpoint = manifest_of(flags);
    if (!checkpoint) {
        note("{}: {} has no checkpoint: the flags describe the model", flag, flags.load);
        return std::nullopt;
    }
    note("{}: using the model configuration of {}", flag, checkpoint->path());
    return checkpoint->manifest().model;
}

// Resolves the flags section by section. Adds every error to `problems`.
class Resolver {
  public:
    Resolver(const config::TrainFlags& flags, const StartedRanks& ranks, Problems& problems)
        : flags_(flags), ranks_(ranks), problems_(problems) {}

    std::optional<RunConfig> resolve(std::string command_line) {
        problems_.check([&] { check_unused_flags(flags_, ranks_.have_gpus); });
        read_deepspeed_ = problems_.check([&] { config::apply_deepspeed(flags_, ranks_.n); });
        const bool output_is_valid = check_numbers();
        resolve_data();
        resolve_model();
        if (model_) resolve_ranks();
        resolve_schedule();
        if (!model_ || !schedule_ || !output_is_valid || micro_batch() < 1) {
            return std::nullopt;
        }
        problems_.check([&] { check_rows(); });
        RunConfig config = make(std::move(command_line));
        problems_.check([&] { config.batch_options().check(); });
        problems_.check([&] { (void)config.all_validation_samples(); });
        return config;
    }

  private:
    // Returns the value of --micro-batch-size, or 0 when the flag is not given.
    i64 micro_batch() const { return flags_.schedule.micro_batch.value_or(0); }
    i64 n_threads() const { return flags_.device.threads.value_or(ranks_.cores); }

    // Adds problems of invalid flags. Returns false when a flag for intervals, energy, saves,
    // loading or skipped iterations is invalid, because the plan depends on these flags.
    bool check_numbers() {
        problems_.check([&] {
            const std::optional<i64>& micro_batch = flags_.schedule.micro_batch;
            if (!micro_batch && !read_deepspeed_) return;  // the file may state it
            if (!micro_batch)
                usage_error("--micro-batch-size",
                            "is missing: give the number of samples that a rank computes at once");
            check_at_least("--micro-batch-size", *micro_batch, 1);
        });
        problems_.check([&] { check_from_to("--threads", n_threads(), 1, 1024); });
        problems_.check([&] {
            check_from_to("--tensor-comm-sms", flags_.device.tensor_comm_sms.value_or(0), 0, 1024);
        });
        bool valid = check_intervals(flags_, problems_);
        const auto check = [&](auto&& each) { valid &= problems_.check(each); };
        check([&] { check_energy(flags_.logging); });
        check([&] { check_local_save_flags(flags_.checkpoints); });
        check([&] { saves_ = resolve_saves(flags_); });
        check([&] { save_buffer_ = save_buffer_limit(flags_); });
        check([&] { check_load_flags(flags_.checkpoints); });
        check([&] { apply_load_step(flags_.checkpoints); });
        check([&] {
            skipped_ = config::parse_skip_ranges(flags_.stopping.skip_ranges,
                                                 flags_.stopping.iterations_to_skip);
        });
        return valid;
    }

    void resolve_data() {
        const bool valid = problems_.check([&] {
            config::read_data_files(flags_.data);
            data_order_ = data::parse_data_order(flags_.data.order);
            check_mock(flags_.data);
            require_datasets(flags_.data.paths);
            vocabulary_ = find_vocabulary(flags_.data, flags_.model.vocab_size);
        });
        // The tokenizer of the checkpoint stands in for one that cannot be read, so that no other
        // problem follows from it.
        if (!valid) Problems().check([&] { vocabulary_ = saved_vocabulary(flags_.checkpoints); });
    }

    void resolve_model() {
        problems_.check([&] { flags_.model.saved = saved_model(flags_.checkpoints); });
        problems_.check([&] {
            model_ = config::resolve_model(flags_.model, vocabulary_.size, flags_.parallel.tensor);
        });
        problems_.check(
            [&] { precision_ = config::resolve_precision(flags_.precision, flags_.megatron); });
        problems_.check([&] {
            if (precision_.weights == DType::fp16) flags_.loss_scale.check();
        });
        problems_.check([&] { check_attention(); });
    }

    // Transformer Engine, too, has no fused attention in fp32, and ends a run of Megatron-LM with
    // this flag. Dropout, which its kernels have and cuDNN here has not, only prints a note.
    void check_attention() const {
        if (!ranks_.have_gpus || flags_.device.attention() != spec::GpuAttention::cudnn) return;
        if (is_half(precision_.weights)) return;
        usage_error("--attention-backend fused",
                    "cuDNN has no attention in fp32: give --bf16 or --fp16, or --attention-backend "
                    "flash for the kernels of lm-train");
    }

    void resolve_ranks() {
        auto layout_problems = config::layout_problems(flags_.parallel, *model_);
        for (std::string& text : layout_problems) problems_.add(std::move(text));
        if (layout_problems.empty()) {
            problems_.check([&] {
                parallel_ = config::resolve_parallel(flags_.parallel, flags_.model, *model_);
            });
        }
        const spec::ParallelConfig sizes = config::sizes_of(flags_.parallel);
        if (sizes.tp < 1 || sizes.pp < 1) return;
        per_replica_ = sizes.ranks_per_replica();
        const auto replicas =
            flags_.action.dry_run ? config::replicas_of : config::started_replicas;
        problems_.check([&] { parallel_.dp = replicas(ranks_.n, sizes).dp; });
        problems_.check([&] { flags_.rank_checks.check(); });
        problems_.check([&] {
            parallel_.zero_stage = config::resolve_zero_stage(flags_.zero, flags_.data_parallel);
        });
    }

    void resolve_schedule() {
        // A missing sequence length or batch size was reported before. A schedule without them
        // would report problems that do not exist.
        for (std::string& text : missing_schedule_flags(flags_.schedule)) {
            problems_.add(std::move(text));
        }
        const auto seq_length =
            model_ ? model_->seq_length : config::seq_length_of(flags_.model).value_or(0);
        if (seq_length > 0 && (flags_.schedule.global_batch || micro_batch() > 0)) {
            problems_.check(
                [&] { schedule_.emplace(schedule_request(flags_.schedule, seq_length)); });
        }
        problems_.check([&] { flags_.optimizer.check(); });
        if (micro_batch() < 1 || (!read_deepspeed_ && !flags_.schedule.global_batch)) return;
        // The batch sizes are checked even if the learning rate is not valid.
        spec::BatchRamp ramp;
        if (!problems_.check([&] { ramp = config::batch_ramp(flags_.schedule, seq_length); }))
            return;
        const config::Ranks sizes{parallel_.dp, per_replica_};
        auto found = config::batch_problems(ramp, micro_batch(), sizes);
        // A resumed run may have more ranks than the first batch sizes of a ramp allow. Only then
        // does it matter here where the run starts.
        i64 consumed = 0;
        if (!found.empty() && ramp.start != 0 &&
            problems_.check([&] { consumed = samples_before(flags_.checkpoints); })) {
            found = config::batch_problems(ramp, micro_batch(), sizes, consumed);
        }
        for (std::string& text : found) problems_.add(std::move(text));
        problems_.check([&] { check_validation_batch(); });
        n_micro_batches_ = ramp.global_batch / (micro_batch() * parallel_.dp);
        problems_.check([&] { check_accumulation(ramp.global_batch); });
        for (const spec::RampStep& stage : ramp.stages(consumed)) {
            problems_.check([&] {
                const i64 n = stage.batch / (micro_batch() * parallel_.dp);
                spec::check_pipeline({parallel_.pp, parallel_.n_chunks, n});
            });
        }
    }

    void check_validation_batch() const {
        const auto& batch = flags_.validation.global_batch;
        const i64 unit = micro_batch() * parallel_.dp;
        if (!batch || (*batch > 0 && *batch % unit == 0)) return;
        usage_error(
            "--eval-global-batch-size",
            "{} is not a multiple of {}, the samples of one micro-batch on each data-parallel rank "
            "(data-parallel ranks: {})",
            *batch, unit, parallel_.dp);
    }

    void check_accumulation(i64 global_batch) const {
        const auto& steps = flags_.schedule.accumulation_steps;
        if (!steps || *steps == n_micro_batches_) return;
        usage_error(
            flags_.deepspeed_config,
            "gradient_accumulation_steps: is {}, but a batch of {} is {} micro-batches of {} "
            "on each of {} data-parallel ranks",
            *steps, global_batch, n_micro_batches_, micro_batch(), parallel_.dp);
    }

    spec::DataParallelConfig data_parallel() const {
        spec::DataParallelConfig resolved = flags_.data_parallel;
        if (!resolved.bucket_elements) {
            resolved.bucket_elements = parallel::default_bucket_elements(parallel_.dp);
        }
        return resolved;
    }

    // Checks that the tensor ranks can divide the rows of a micro-batch, for every sequence length
    // of the run.
    void check_rows() const {
        const i64 micro_batch = this->micro_batch();
        config::require_equal_rows(parallel_, micro_batch, model_->seq_length);
        const auto& curriculum = schedule_->curriculum();
        if (!curriculum || !parallel_.sequence_parallel) return;
        const i64 last = schedule_->total_iterations();
        for (i64 i = 1; i <= last && !curriculum->finished(i); ++i) {
            config::require_equal_rows(parallel_, micro_batch, curriculum->seq_length(i));
        }
    }

    // Returns the directory of measured algorithms; empty: none.
    std::string autotune() const {
        const std::string& given = flags_.device.autotune;
        if (!ranks_.have_gpus || flags_.device.deterministic_mode || given == "off") return {};
        if (!given.empty() || flags_.checkpoints.save.empty()) return given;
        return flags_.checkpoints.save + "/autotune";
    }

    RunConfig make(std::string command_line) {
        return {.trainer = {.model = *model_,
                            .parallel = parallel_,
                            .data_parallel = data_parallel(),
                            .micro_batch = micro_batch(),
                            .n_micro_batches = std::max<i64>(1, n_micro_batches_),
                            .precision = precision_,
                            .loss_scale = flags_.loss_scale,
                            .adamw = flags_.optimizer,
                            .seed = static_cast<u64>(flags_.model.seed),
                            .documents = flags_.documents,
                            .n_threads = static_cast<int>(n_threads()),
                            .cuda = ranks_.have_gpus,
                            .deterministic = flags_.device.deterministic_mode,
                            .attention = flags_.device.attention(),
                            .allow_tf32 = flags_.device.allow_tf32,
                            .save_buffer = save_buffer_,
                            .autotune = autotune(),
                            .tensor_comm_sms = flags_.device.tensor_comm_sms.value_or(
                                cost::tensor_comm_sms(*model_, parallel_))},
                .data = flags_.data,
                .data_order = data_order_,
                .schedule = *schedule_,
                .saves = saves_,
                .skipped = skipped_,
                .tokenizer = {.end_of_document = vocabulary_.eod.value_or(-1),
                              .digest = vocabulary_.digest},
                .rank_checks = flags_.rank_checks,
                .validation = flags_.validation,
                .checkpoints = flags_.checkpoints,
                .stopping = flags_.stopping,
                .logging = flags_.logging,
                .action = flags_.action,
                .command_line = std::move(command_line)};
    }

    config::TrainFlags flags_;
    StartedRanks ranks_;
    Problems& problems_;
    SaveRules saves_;
    i64 save_buffer_ = 0;
    bool read_deepspeed_ = true;  // the file of --deepspeed_config, if one is given, has no problem
    std::vector<config::IterationRange> skipped_;
    data::DataOrder data_order_ = data::DataOrder::stateless;
    Vocabulary vocabulary_;
    std::optional<spec::ModelConfig> model_;
    spec::Precision precision_;
    spec::ParallelConfig parallel_;
    i64 per_replica_ = 1;      // ranks of one replica of the model
    i64 n_micro_batches_ = 1;  // micro-batches of a full batch on one replica
    std::optional<spec::Schedule> schedule_;
};

}  // namespace

std::optional<RunConfig> resolve(const config::TrainFlags& flags, std::string command_line,
                                 const StartedRanks& ranks, Problems& problems) {
    return Resolver(flags, ranks, problems).resolve(std::move(command_line));
}

RunConfig resolve(const config::TrainFlags& flags, std::string command_line,
                  const StartedRanks& ranks) {
    if (flags.action.world_size) usage_error("--world-size", "needs --dry-run");
    Problems problems;
    std::optional<RunConfig> config = resolve(flags, std::move(command_line), ranks, problems);
    problems.throw_found();
    return std::move(*config);
}

data::BatchOptions RunConfig::batch_options() const {
    const i64 eod = tokenizer.end_of_document;
    const config::DocumentFlags& documents = trainer.documents;
    return {
        .micro_batch = trainer.micro_batch,
        .eod_id = eod < 0 ? std::nullopt : std::optional(eod),
        .reset_position_ids = documents.reset_position_ids || documents.inter_document_masking,
        .reset_attention_mask = documents.reset_attention_mask || documents.inter_document_masking,
        .eod_mask_loss = documents.eod_mask_loss,
        .documents_of_index = documents.inter_document_masking,
        .n_ids = trainer.cuda ? trainer.model.vocab_size : 0};
}

i64 RunConfig::validation_batch() const {
    return validation.global_batch.value_or(schedule.ramp().global_batch);
}

i64 RunConfig::validation_samples() const {
    if (action.benchmark) return 0;
    return checked_mul(validation.iters, validation_batch());
}

i64 RunConfig::all_validation_samples() const {
    if (validation_samples() == 0 || data_order == data::DataOrder::stateless) {
        return validation_samples();
    }
    return checked_mul(spec::megatron_validations(schedule, validation.interval),
                       validation_samples());
}

}  // namespace lm::train
