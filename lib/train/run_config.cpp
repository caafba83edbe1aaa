// SPDX-License-Identifier: Apache-2.0
#include "train/run_config.hpp"

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/shape.hpp"
#include "config/deepspeed.hpp"
#include "config/rank_counts.hpp"
#include "data/indexed/dataset_metadata.hpp"
#include "data/sampling/data_paths.hpp"
#include "data/sampling/mock_source.hpp"
#include "optim/schedule_summary.hpp"
#include "train/schedule_request.hpp"
#include "train/unused_flags.hpp"

namespace lm::train {
namespace {

constexpr i64 worth_sharing_bytes = i64{16} << 20;

// What the run needs to know of the tokenizer: it never tokenizes.
struct Vocabulary {
    std::optional<i64> size;
    std::optional<i64> eod;
    std::string digest;
};

std::shared_ptr<const text::Tokenizer> named_tokenizer(const text::TokenizerChoice& choice) {
    if (!choice.type && !choice.vocab_file && !choice.merge_file && !choice.model) return nullptr;
    return text::load_tokenizer(choice);
}

std::vector<std::string> groups_of(std::string_view option, const std::vector<std::string>& given,
                                   const std::string& file) {
    if (file.empty()) return given;
    const std::string file_option = std::string(option) + "-path";
    if (!given.empty()) usage_error(file_option, "excludes {}", option);
    return data::read_group_file(file_option, file);
}

data::DataConfig data_config(const DataFlags& flags, u64 seed) {
    return {
        .data_path = flags.data_path,
        .split = flags.split,
        .seed = seed,
        .order = data::parse_data_order(flags.order),
        .index_cache = {.directory = flags.cache_path == "none" ? "" : flags.cache_path},
        .train_path = flags.train_path,
        .valid_path = flags.valid_path,
        .test_path = flags.test_path,
        .train_groups =
            groups_of("--train-weighted-split-paths", flags.train_groups, flags.train_groups_file),
        .valid_groups =
            groups_of("--valid-weighted-split-paths", flags.valid_groups, flags.valid_groups_file),
        .test_groups =
            groups_of("--test-weighted-split-paths", flags.test_groups, flags.test_groups_file)};
}

bool is_mock(const data::DataConfig& data) {
    return data.data_path.empty() && data.train_path.empty() && data.train_groups.empty();
}

void check_mock(const data::DataConfig& data, bool mock_data) {
    if (is_mock(data) && !mock_data) {
        usage_error("--data-path",
                    "must be given: the PREFIX of tokens that lm-preprocess made (or --mock-data)");
    }
    if (!is_mock(data) && mock_data) usage_error("--mock-data", "excludes --data-path");
}

// The same tokenizer can come in other files, as GPT-2's does; but its end of document is one.
void compare_with_data(const text::Tokenizer& named, const std::string& prefix) {
    const auto metadata = data::read_metadata(prefix);
    if (!metadata || metadata->tokenizer.digest == named.digest()) return;
    if (metadata->eod_id && named.eod() && *metadata->eod_id != *named.eod()) {
        usage_error(data::metadata_path(prefix),
                    "the data was made with another tokenizer ({}, end of document {}) than the "
                    "one named (end of document {}): name that one, or none",
                    metadata->tokenizer.type, *metadata->eod_id, *named.eod());
    }
    warn("{}: the data was made with another tokenizer ({}, {} ids) than the one named ({} ids)",
         data::metadata_path(prefix), metadata->tokenizer.type, metadata->tokenizer.vocab_size,
         named.vocab_size());
}

Vocabulary find_vocabulary(const DataFlags& flags, const data::DataConfig& data) {
    if (const auto tokenizer = named_tokenizer(flags.tokenizer)) {
        const auto prefixes = data::data_prefixes(data);
        for (const std::string& prefix : std::set<std::string>(prefixes.begin(), prefixes.end())) {
            compare_with_data(*tokenizer, prefix);
        }
        return {tokenizer->vocab_size(), tokenizer->eod(), tokenizer->digest()};
    }
    if (is_mock(data)) return {};
    if (const auto facts = data::data_facts(data::data_prefixes(data))) {
        return {facts->tokenizer.vocab_size, facts->eod_id, facts->tokenizer.digest};
    }
    return {};
}

i64 at_least(std::string_view flag, i64 value, i64 least) {
    if (value < least) usage_error(flag, "must be at least {}, but is {}", least, value);
    return value;
}

void check_output(const OutputFlags& output) {
    at_least("--log-interval", output.log_interval, 1);
    at_least("--eval-interval", output.eval_interval, 1);
    at_least("--eval-iters", output.eval_iters, 0);
    at_least("--tensorboard-queue-size", output.tensorboard_queue_size, 1);
    if (output.save_interval) at_least("--save-interval", *output.save_interval, 1);
    if (output.save_interval && !output.save_schedule.empty()) {
        usage_error("--save-schedule", "contradicts --save-interval: give one of the two");
    }
    if (output.exit_interval) at_least("--exit-interval", *output.exit_interval, 1);
    if (output.exit_duration_min && *output.exit_duration_min < 0) {
        usage_error("--exit-duration-in-mins", "{} is negative", *output.exit_duration_min);
    }
    const bool stops_early = output.exit_interval || output.exit_duration_min;
    if (output.save.empty() && !output.benchmark && (stops_early || !output.save_switch.empty())) {
        usage_error(output.exit_interval       ? "--exit-interval"
                    : output.exit_duration_min ? "--exit-duration-in-mins"
                                               : "--save-switch-path",
                    "nothing is saved without --save DIR");
    }
    if (output.save.empty() && (output.save_interval || !output.save_schedule.empty())) {
        usage_error(output.save_interval ? "--save-interval" : "--save-schedule",
                    "nothing is saved without --save DIR");
    }
    if (output.fresh && output.exit_on_missing) {
        usage_error("--fresh", "contradicts --exit-on-missing-checkpoint: give one of the two");
    }
    if (output.load.empty() && output.exit_on_missing) {
        note("--exit-on-missing-checkpoint: ignored: there is no --load");
    }
    if (output.load.empty() && (output.fresh || output.finetune || output.no_load_optim)) {
        usage_error(output.fresh      ? "--fresh"
                    : output.finetune ? "--finetune"
                                      : "--no-load-optim",
                    "goes with --load DIR");
    }
}

void set_sample_counts(RunConfig& config, const ScheduleFlags& flags) {
    const optim::Counters& end = config.schedule.end();
    // Megatron asks for --train-samples, though a last batch that is not whole is never taken.
    config.data.train_samples = flags.train_samples.value_or(end.samples);
    if (config.output.eval_iters == 0 || config.output.benchmark) return;
    config.validation_samples =
        checked_mul(config.output.eval_iters, config.schedule.ramp().global_batch);
    config.data.valid_samples =
        config.data.order == data::DataOrder::stateless
            ? config.validation_samples
            : optim::megatron_validation_samples(config.schedule, config.output.eval_interval,
                                                 config.output.eval_iters);
    config.data.test_samples = config.validation_samples;
}

// From the flags to a run, one kind of flag after the other; what fits badly goes to `problems`.
class Resolver {
  public:
    Resolver(const TrainFlags& flags, i64 n_ranks, Problems& problems)
        : flags_(flags), n_ranks_(n_ranks), problems_(problems) {}

    std::optional<RunConfig> resolve(std::string command_line) {
        problems_.check([&] { check_unused_flags(flags_); });
        problems_.check([&] { config::apply_deepspeed(flags_); });
        const bool output_makes_sense = check_numbers();
        resolve_data();
        resolve_model();
        if (model_) resolve_ranks();
        resolve_schedule();
        for (const auto& later : flags_.model.options->given_later()) {
            problems_.check_built([&] { usage_error(later.name, "{}", later.reason); });
        }
        if (!model_ || !schedule_ || !output_makes_sense || micro_batch() < 1) {
            return std::nullopt;
        }
        problems_.check([&] { check_rows(); });
        RunConfig config = make(std::move(command_line));
        problems_.check([&] { config.batch.check(); });
        problems_.check([&] { set_sample_counts(config, flags_.schedule); });
        return config;
    }

  private:
    // 0: not given.
    i64 micro_batch() const { return flags_.schedule.micro_batch.value_or(0); }

    // False: the plan of such a run would make no sense.
    bool check_numbers() {
        problems_.check([&] {
            const std::optional<i64>& micro_batch = flags_.schedule.micro_batch;
            if (!micro_batch) usage_error("--micro-batch-size", "must be given");
            at_least("--micro-batch-size", *micro_batch, 1);
        });
        problems_.check([&] {
            const i64 threads = at_least("--threads", flags_.threads.value_or(1), 1);
            if (threads > 1024) usage_error("--threads", "{} is more than 1024", threads);
        });
        return problems_.check([&] { check_output(flags_.output); });
    }

    void resolve_data() {
        problems_.check([&] {
            data_ = data_config(flags_.data, static_cast<u64>(flags_.model.seed));
            data_.test_optional = !flags_.model.options->given("--split");
            data_.n_threads = static_cast<int>(flags_.threads.value_or(available_cores()));
            check_mock(data_, flags_.data.mock_data);
            vocabulary_ = find_vocabulary(flags_.data, data_);
        });
    }

    void resolve_model() {
        problems_.check([&] { model_ = config::resolve_model(flags_.model, vocabulary_.size); });
        problems_.check([&] { precision_ = config::resolve_precision(flags_.precision); });
        problems_.check([&] {
            if (precision_.weights == DType::fp16) flags_.loss_scale.check();
        });
        if (!model_) return;
        data_.seq_length = model_->seq_length;
        data_.vocab_size = model_->vocab_size;
    }

    void resolve_ranks() {
        auto cut_problems = config::cut_problems(flags_.parallel, *model_);
        for (std::string& text : cut_problems) problems_.add(std::move(text));
        if (cut_problems.empty()) {
            problems_.check([&] {
                parallel_ = config::resolve_parallel(flags_.parallel, flags_.model, *model_);
            });
        }
        const i64 tensor = flags_.parallel.tensor;
        const i64 pipeline = flags_.parallel.pipeline;
        if (tensor < 1 || pipeline < 1) return;
        per_replica_ = checked_mul(tensor, pipeline);
        const auto replicas =
            flags_.output.dry_run ? config::replicas_of : config::started_replicas;
        problems_.check([&] { parallel_.dp = replicas(n_ranks_, tensor, pipeline).dp; });
        problems_.check(
            [&] { parallel_.zero_stage = config::resolve_zero_stage(flags_.data_parallel); });
    }

    void resolve_schedule() {
        // What these lack is a problem already: a schedule without them would find false ones.
        const auto seq_length =
            model_ ? model_->seq_length : config::seq_length_of(flags_.model).value_or(0);
        if (seq_length > 0 && (flags_.schedule.global_batch || micro_batch() > 0)) {
            problems_.check(
                [&] { schedule_.emplace(schedule_request(flags_.schedule, seq_length)); });
        }
        problems_.check([&] { adamw_ = adamw_config(flags_.schedule); });
        if (!schedule_ || micro_batch() < 1) return;
        for (std::string& text : config::batch_problems(schedule_->ramp(), micro_batch(),
                                                        {parallel_.dp, per_replica_})) {
            problems_.add(std::move(text));
        }
        n_micro_batches_ = schedule_->ramp().global_batch / (micro_batch() * parallel_.dp);
        problems_.check([&] { check_accumulation(); });
        for (const spec::RampStep& stage : schedule_->ramp().stages()) {
            problems_.check([&] {
                spec::check_pipeline({parallel_.pp, parallel_.n_chunks,
                                      stage.batch / (micro_batch() * parallel_.dp)});
            });
        }
    }

    void check_accumulation() const {
        const auto& steps = flags_.schedule.accumulation_steps;
        if (!steps || *steps == n_micro_batches_) return;
        usage_error(
            flags_.deepspeed_config,
            "gradient_accumulation_steps: is {}, but a batch of {} is {} micro-batches of {} "
            "on each of {} data-parallel ranks",
            *steps, schedule_->ramp().global_batch, n_micro_batches_, micro_batch(), parallel_.dp);
    }

    parallel::DataParallelConfig data_parallel() const {
        const config::DataParallelFlags& flags = flags_.data_parallel;
        return {.bucket_elements =
                    flags.bucket_elements.value_or(parallel::default_bucket_elements(parallel_.dp)),
                .overlap_grad_reduce = flags.overlap_grad_reduce,
                .overlap_param_gather = flags.overlap_param_gather};
    }

    // Tensor ranks can share the rows of a micro-batch of every length that the run will see.
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

    RunConfig make(std::string command_line) {
        const bool share_index = flags_.data.cache_path.empty() && !flags_.output.dry_run &&
                                 data_.order != data::DataOrder::stateless;
        return {
            .trainer = {.model = *model_,
                        .parallel = parallel_,
                        .data_parallel = data_parallel(),
                        .micro_batch = micro_batch(),
                        .n_micro_batches = std::max<i64>(1, n_micro_batches_),
                        .precision = precision_,
                        .loss_scale = flags_.loss_scale,
                        .adamw = adamw_,
                        .seed = static_cast<u64>(flags_.model.seed),
                        .document_attention = flags_.data.reset_attention_mask,
                        .n_threads = static_cast<int>(flags_.threads.value_or(available_cores())),
                        .cuda = flags_.device == "cuda",
                        .attention = flags_.attention(),
                        .allow_tf32 = flags_.allow_tf32,
                        .autotune = flags_.autotune},
            .precision = precision_,
            .data = std::move(data_),
            .share_index = share_index,
            .batch = {.micro_batch = micro_batch(),
                      .eod_id = vocabulary_.eod,
                      .reset_position_ids = flags_.data.reset_position_ids,
                      .reset_attention_mask = flags_.data.reset_attention_mask,
                      .eod_mask_loss = flags_.data.eod_mask_loss},
            .schedule = *schedule_,
            .check_replicas = flags_.data_parallel.check_replicas,
            .tokenizer = {.end_of_document = vocabulary_.eod.value_or(-1),
                          .digest = vocabulary_.digest},
            .output = flags_.output,
            .command_line = std::move(command_line)};
    }

    TrainFlags flags_;
    i64 n_ranks_;
    Problems& problems_;
    data::DataConfig data_;
    Vocabulary vocabulary_;
    std::optional<spec::ModelConfig> model_;
    spec::Precision precision_;
    spec::ParallelConfig parallel_;
    i64 per_replica_ = 1;      // ranks
    i64 n_micro_batches_ = 1;  // of a full batch on one replica
    std::optional<optim::Schedule> schedule_;
    optim::AdamWConfig adamw_;
};

}  // namespace

std::optional<RunConfig> resolve(const TrainFlags& flags, std::string command_line, i64 n_ranks,
                                 Problems& problems) {
    return Resolver(flags, n_ranks, problems).resolve(std::move(command_line));
}

RunConfig resolve(const TrainFlags& flags, std::string command_line, i64 n_ranks) {
    if (flags.output.world_size) usage_error("--world-size", "goes with --dry-run");
    Problems problems(Problems::Mode::stop);
    return *resolve(flags, std::move(command_line), n_ranks, problems);
}

std::shared_ptr<const text::Tokenizer> tokenizer_of(const RunConfig& config,
                                                    const DataFlags& flags) {
    if (auto tokenizer = named_tokenizer(flags.tokenizer)) return tokenizer;
    const auto facts = data::data_facts(data::data_prefixes(config.data));
    if (!facts) return nullptr;
    const std::string& type = facts->tokenizer.type;
    if (type != "ByteTokenizer" && type != "GPT2BPETokenizer") return nullptr;
    auto tokenizer = text::load_tokenizer({.type = type});
    return tokenizer->digest() == facts->tokenizer.digest ? tokenizer : nullptr;
}

data::DataSets open_data(const RunConfig& config) {
    if (!is_mock(config.data)) {
        data::DataConfig data = config.data;
        if (config.share_index) {
            data.index_cache = {data::private_index_directory(), worth_sharing_bytes};
        }
        return data::open_data(data);
    }
    data::DataSets sets;
    const auto mock = [&config](u64 seed) {
        return std::make_unique<data::MockSource>(config.data.seq_length, config.data.vocab_size,
                                                  seed);
    };
    sets.train = mock(config.data.seed);
    if (config.data.valid_samples > 0)
        sets.valid.push_back({"validation", mock(config.data.seed + 1)});
    return sets;
}

}  // namespace lm::train
