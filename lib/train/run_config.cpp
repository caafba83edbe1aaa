// SPDX-License-Identifier: Apache-2.0
#include "train/run_config.hpp"

#include "base/error.hpp"
#include "base/version.hpp"
#include "data/data_paths.hpp"
#include "data/mock_source.hpp"

namespace lm::train {
namespace {

// What the run needs to know of the tokenizer: it never tokenizes.
struct Vocabulary {
    std::optional<i64> size;
    std::optional<i64> eod;
    std::string digest;
};

std::shared_ptr<const text::Tokenizer> named_tokenizer(const DataFlags& flags) {
    if (flags.tokenizer_type == "ByteTokenizer") return text::make_byte_tokenizer();
    if (!flags.tokenizer_type.empty() && flags.tokenizer_type != "GPT2BPETokenizer") {
        usage_error("--tokenizer-type", "'{}' is unknown: use GPT2BPETokenizer or ByteTokenizer",
                    flags.tokenizer_type);
    }
    if (flags.vocab_file.empty() != flags.merge_file.empty()) {
        usage_error("--vocab-file", "goes with --merge-file: give both or none");
    }
    if (flags.tokenizer_type.empty() && flags.vocab_file.empty()) return nullptr;
    const bool own = !flags.vocab_file.empty();
    return text::load_gpt2_tokenizer(
        own ? flags.vocab_file : share_file("tokenizers/gpt2/vocab.json"),
        own ? flags.merge_file : share_file("tokenizers/gpt2/merges.txt"),
        text::SpecialInText::plain);
}

std::vector<std::string> groups_of(std::string_view option, const std::vector<std::string>& given,
                                   const std::string& file) {
    if (file.empty()) return given;
    const std::string file_option = std::string(option) + "-path";
    if (!given.empty()) usage_error(file_option, "excludes {}", option);
    return data::read_group_file(file_option, file);
}

data::DataConfig data_config(const DataFlags& flags, u64 seed) {
    return {.data_path = flags.data_path,
            .split = flags.split,
            .seed = seed,
            .order = data::parse_data_order(flags.order),
            .train_path = flags.train_path,
            .valid_path = flags.valid_path,
            .test_path = flags.test_path,
            .train_groups = groups_of("--train-weighted-split-paths", flags.train_groups,
                                      flags.train_groups_file),
            .valid_groups = groups_of("--valid-weighted-split-paths", flags.valid_groups,
                                      flags.valid_groups_file),
            .test_groups = groups_of("--test-weighted-split-paths", flags.test_groups,
                                     flags.test_groups_file)};
}

bool is_mock(const data::DataConfig& data) {
    return data.data_path.empty() && data.train_path.empty() && data.train_groups.empty();
}

Vocabulary find_vocabulary(const DataFlags& flags, const data::DataConfig& data) {
    if (const auto tokenizer = named_tokenizer(flags)) {
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

optim::ScheduleRequest schedule_request(const ScheduleFlags& flags, i64 seq_length) {
    optim::ScheduleRequest request;
    request.seq_length = seq_length;
    request.global_batch = flags.global_batch.value_or(flags.micro_batch);
    if (!flags.rampup.empty()) {
        if (flags.rampup.size() != 3) {
            usage_error("--rampup-batch-size", "takes START INCREMENT SAMPLES, not {} values",
                        flags.rampup.size());
        }
        request.ramp_start = flags.rampup[0];
        request.ramp_increment = flags.rampup[1];
        request.ramp_samples = flags.rampup[2];
    }
    request.train_samples = flags.train_samples;
    request.train_iters = flags.train_iters;
    request.train_tokens = flags.train_tokens;
    request.lr = flags.lr;
    request.min_lr = flags.min_lr;
    request.decay_style = optim::parse_decay_style(flags.lr_decay_style);
    request.warmup_samples = flags.lr_warmup_samples;
    request.warmup_iters = flags.lr_warmup_iters;
    request.warmup_fraction = flags.lr_warmup_fraction;
    request.warmup_init = flags.lr_warmup_init;
    request.anneal_style = optim::parse_anneal_style(flags.lr_wsd_decay_style);
    request.anneal_samples = flags.lr_wsd_decay_samples;
    request.anneal_iters = flags.lr_wsd_decay_iters;
    request.decay_samples = flags.lr_decay_samples;
    request.decay_iters = flags.lr_decay_iters;
    request.decay_tokens = flags.lr_decay_tokens;
    return request;
}

optim::AdamWConfig adamw_config(const ScheduleFlags& flags) {
    const auto below_one = [](std::string_view flag, double value) {
        if (!(value >= 0.0 && value < 1.0)) usage_error(flag, "{} is not in [0, 1)", value);
        return value;
    };
    const auto not_negative = [](std::string_view flag, double value) {
        if (!(value >= 0.0)) usage_error(flag, "{} is negative", value);
        return value;
    };
    if (!(flags.adam_eps > 0)) usage_error("--adam-eps", "{} is not positive", flags.adam_eps);
    return {.beta1 = below_one("--adam-beta1", flags.adam_beta1),
            .beta2 = below_one("--adam-beta2", flags.adam_beta2),
            .eps = flags.adam_eps,
            .weight_decay = not_negative("--weight-decay", flags.weight_decay),
            .clip_grad = not_negative("--clip-grad", flags.clip_grad)};
}

void check_output(const OutputFlags& output) {
    at_least("--log-interval", output.log_interval, 1);
    at_least("--eval-interval", output.eval_interval, 1);
    at_least("--eval-iters", output.eval_iters, 0);
    if (output.save_interval) at_least("--save-interval", *output.save_interval, 1);
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
        checked_mul(config.output.eval_iters, config.schedule.ramp().global_batch());
    // Megatron's orders hang on how many samples a run asks for in all (formats.md 2.6).
    const i64 validations = config.data.order == data::DataOrder::stateless
                                ? 1
                                : end.iteration / config.output.eval_interval + 1;
    config.data.valid_samples = checked_mul(config.validation_samples, validations);
    config.data.test_samples = config.validation_samples;
}

}  // namespace

RunConfig resolve(const TrainFlags& flags, std::string command_line) {
    data::DataConfig data = data_config(flags.data, static_cast<u64>(flags.model.seed));
    if (is_mock(data) && !flags.data.mock_data) {
        usage_error("--data-path",
                    "must be given: the PREFIX of tokens that lm-preprocess made (or --mock-data)");
    }
    if (!is_mock(data) && flags.data.mock_data) usage_error("--mock-data", "excludes --data-path");
    const Vocabulary vocabulary = find_vocabulary(flags.data, data);
    const spec::ModelConfig model = config::resolve_model(flags.model, vocabulary.size);
    config::require_trainable(model);
    const spec::ParallelConfig parallel =
        config::resolve_parallel(flags.parallel, flags.model, model);
    config::require_one_rank(parallel);
    config::require_fp32(config::resolve_precision(flags.precision));
    at_least("--micro-batch-size", flags.schedule.micro_batch, 1);
    check_output(flags.output);
    data.seq_length = model.seq_length;
    data.test_optional = !flags.model.options->given("--split");
    data.vocab_size = model.vocab_size;
    const i64 threads = flags.threads.value_or(available_cores());
    at_least("--threads", threads, 1);
    if (threads > 1024) usage_error("--threads", "{} is more than 1024", threads);

    RunConfig config{
        .trainer = {.model = model,
                    .parallel = parallel,
                    .micro_batch = flags.schedule.micro_batch,
                    .adamw = adamw_config(flags.schedule),
                    .seed = static_cast<u64>(flags.model.seed),
                    .document_attention = flags.data.reset_attention_mask,
                    .n_threads = static_cast<int>(threads)},
        .data = std::move(data),
        .batch = {.micro_batch = flags.schedule.micro_batch,
                  .eod_id = vocabulary.eod,
                  .reset_position_ids = flags.data.reset_position_ids,
                  .reset_attention_mask = flags.data.reset_attention_mask,
                  .eod_mask_loss = flags.data.eod_mask_loss},
        .schedule = optim::Schedule(schedule_request(flags.schedule, model.seq_length)),
        .tokenizer = {.end_of_document = vocabulary.eod.value_or(-1), .digest = vocabulary.digest},
        .output = flags.output,
        .command_line = std::move(command_line)};
    config.schedule.ramp().check(flags.schedule.micro_batch, parallel.dp);
    config.batch.check();
    set_sample_counts(config, flags.schedule);
    return config;
}

std::shared_ptr<const text::Tokenizer> tokenizer_of(const RunConfig& config,
                                                    const DataFlags& flags) {
    if (auto tokenizer = named_tokenizer(flags)) return tokenizer;
    const auto facts = data::data_facts(data::data_prefixes(config.data));
    if (!facts) return nullptr;
    DataFlags same;
    same.tokenizer_type = facts->tokenizer.type;
    if (same.tokenizer_type != "ByteTokenizer" && same.tokenizer_type != "GPT2BPETokenizer") {
        return nullptr;
    }
    auto tokenizer = named_tokenizer(same);
    return tokenizer->digest() == facts->tokenizer.digest ? tokenizer : nullptr;
}

data::DataSets open_data(const RunConfig& config) {
    if (!is_mock(config.data)) return data::open_data(config.data);
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

io::OrderedJson schedule_json(const RunConfig& config) {
    const optim::LearningRate& rate = config.schedule.learning_rate();
    const optim::AdamWConfig& adamw = config.trainer.adamw;
    return {{"train_samples", config.schedule.end().samples},
            {"global_batch_size", config.schedule.ramp().global_batch()},
            {"rampup_batch_size", config.schedule.ramp().stages().size()},
            {"micro_batch_size", config.trainer.micro_batch},
            {"seq_length", config.trainer.model.seq_length},
            {"lr", rate.max},
            {"min_lr", rate.min},
            {"lr_decay_style", name_of(rate.style)},
            {"lr_warmup_init", rate.init},
            {"lr_warmup_samples", rate.warmup_samples},
            {"lr_decay_samples", rate.decay_samples},
            {"lr_decay_tokens", rate.decay_tokens},
            {"adam_beta1", adamw.beta1},
            {"adam_beta2", adamw.beta2},
            {"adam_eps", adamw.eps},
            {"weight_decay", adamw.weight_decay},
            {"clip_grad", adamw.clip_grad},
            {"attention_dropout", config.trainer.model.attention_dropout},
            {"hidden_dropout", config.trainer.model.hidden_dropout},
            {"seed", config.trainer.seed},
            {"data_path", data::data_prefixes(config.data)},
            {"data_order", name_of(config.data.order)},
            {"split", config.data.split},
            {"reset_position_ids", config.batch.reset_position_ids},
            {"reset_attention_mask", config.batch.reset_attention_mask},
            {"eod_mask_loss", config.batch.eod_mask_loss}};
}

io::OrderedJson to_json(const RunConfig& config) {
    const spec::MemoryPlan memory = memory_plan(config.trainer);
    return {{"model", ckpt::to_json(config.trainer.model)},
            {"micro_batch_size", config.trainer.micro_batch},
            {"threads", config.trainer.n_threads},
            {"train_iterations", config.schedule.total_iterations()},
            {"schedule", schedule_json(config)},
            {"memory_bytes",
             {{"weights", memory.weights},
              {"masters", memory.masters},
              {"gradients", memory.gradients},
              {"optimizer", memory.optimizer},
              {"activations", memory.activations},
              {"workspace", memory.workspace},
              {"total", memory.total()}}},
            {"save", config.output.save},
            {"load", config.output.load},
            {"command_line", config.command_line}};
}

}  // namespace lm::train
