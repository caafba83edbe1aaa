// SPDX-License-Identifier: Apache-2.0
#include "train/resume/changes.hpp"

#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/problem_list.hpp"
#include "ckpt/format/model_json.hpp"
#include "data/indexed/dataset_identity.hpp"
#include "io/json.hpp"
#include "text/choice/tokenizer_choice.hpp"
#include "train/config/run_data.hpp"
#include "train/config/run_json.hpp"
#include "train/resume/past_batches.hpp"

namespace lm::train {
namespace {

std::string text_of(const io::Json& value) {
    // A count that the schedule holds as a floating-point number is printed as an integer.
    if (value.is_number_float()) return fmt::format("{}", value.get<double>());
    return value.is_null() || value.empty() ? "not given" : value.dump();
}

class Changes {
  public:
    Changes(const RunConfig& config, const ckpt::Checkpoint& checkpoint)
        : config_(config), checkpoint_(checkpoint), manifest_(checkpoint.manifest()) {}

    // Throws the problems; without one, prints the notes.
    void report() const {
        throw_problems(problems_);
        for (const std::string& text : notes_) note("{}", text);
    }

    // A step of lm-train states the digest of its tokenizer, an imported one only holds the files.
    void check_tokenizer() {
        const ckpt::TokenizerInfo& saved = manifest_.tokenizer;
        const ckpt::TokenizerInfo& now = config_.tokenizer;
        const bool is_known = !saved.digest.empty() || !saved.files.empty();
        if (!is_known || now.digest.empty() || saved.digest == now.digest) return;
        const std::string difference =
            fmt::format("the checkpoint has the tokenizer {}, but the data of this run has {}",
                        saved.digest.empty() ? "in its directory" : saved.digest, now.digest);
        if (config_.checkpoints.override_tokenizer) {
            notes_.push_back(fmt::format("{}: {}: --override-tokenizer treats the two as the same",
                                         checkpoint_.path(), difference));
            return;
        }
        switch (compare_tokenizers()) {
            case Comparison::same:
                return;
            case Comparison::same_ids:
                notes_.push_back(
                    fmt::format("{}: {}: both have the same ids", checkpoint_.path(), difference));
                return;
            case Comparison::unknown:
                if (!saved.digest.empty()) break;
                notes_.push_back(fmt::format("{}: {}: the two could not be compared",
                                             checkpoint_.path(), difference));
                return;
            case Comparison::different:
                break;
        }
        problems_.push_back(fmt::format(
            "{}: --load: {}: give data of the checkpoint's tokenizer, or --override-tokenizer if "
            "both are the same tokenizer in different files",
            checkpoint_.path(), difference));
    }

    void check_model() {
        check_block(config::Block::model, ckpt::to_json(manifest_.model, true),
                    ckpt::to_json(config_.trainer.model, true));
    }
    void check_training(const io::Json& saved) {
        check_block(config::Block::training, saved, training_json(config_));
    }

    void check_data(const io::Json& saved, const io::OrderedJson& now) {
        if (config_.checkpoints.override_data) return;
        if (saved.size() != now.size()) {
            return refuse_data("the number of training datasets", fmt::format("{}", saved.size()),
                               fmt::format("{}", now.size()));
        }
        for (size_t i = 0; i < now.size(); ++i) check_dataset(saved[i], io::Json(now[i]));
    }

  private:
    enum class Comparison { same, same_ids, different, unknown };
    // Compares the tokenizers of the checkpoint and of the data, as far as their files are there.
    Comparison compare_tokenizers() {
        try {
            const auto saved = tokenizer_of(checkpoint_);
            const auto now = tokenizer_of(config_);
            if (!saved || !now) return Comparison::unknown;
            if (saved->digest() == now->digest()) return Comparison::same;
            return text::have_same_ids(*saved, *now) ? Comparison::same_ids : Comparison::different;
        } catch (const Error& error) {
            notes_.emplace_back(error.what());
            return Comparison::unknown;
        }
    }

    void check_block(config::Block block, const io::Json& saved, const io::OrderedJson& now) {
        for (const auto& [key, value] : now.items()) {
            const auto old = saved.find(key);
            if (old == saved.end() || *old == io::Json(value)) continue;
            check_change(config::resume_rule(block, key), text_of(*old), text_of(io::Json(value)));
        }
    }

    void check_change(const config::ResumeRule& rule, const std::string& was,
                      const std::string& is) {
        using enum config::OnResume;
        if (rule.on_resume == ignored) return;
        // require_same_model() has checked these.
        if (rule.on_resume == refused || rule.on_resume == refused_rope) return;
        if (changes_schedule(rule.on_resume)) {
            if (!config_.checkpoints.override_schedule) {
                problems_.push_back(
                    fmt::format("{}: is {}{}, but was {} when {} was written: give that value, or "
                                "--override-opt_param-scheduler to use the new schedule",
                                rule.flag, is, cause(rule.flag), was, checkpoint_.path()));
                return;
            }
        } else if (changes_samples(rule.on_resume) && !config_.checkpoints.override_data) {
            return refuse_data(rule.flag, was, is);
        }
        notes_.push_back(fmt::format("{}: was {} when the checkpoint was written, is {} now{}",
                                     rule.flag, was, is, cause(rule.flag)));
    }

    // Returns a text such as " (from --train-tokens)" when exactly one other flag of the command
    // line can have set the value of `flag`. Returns "" when `flag` itself is on the command line.
    std::string cause(std::string_view flag) const {
        const bool decays = flag == "--lr-decay-samples";
        if ((!decays && flag != "--train-samples") || is_on_command_line(flag)) return "";
        if (decays) {
            for (const std::string_view end : {"--lr-decay-iters", "--lr-decay-tokens"})
                if (is_on_command_line(end)) return fmt::format(" (from {})", end);
        }
        std::string_view found;
        for (const std::string_view end : {"--train-samples", "--train-iters", "--train-tokens"}) {
            if (!is_on_command_line(end)) continue;
            if (!found.empty()) return "";
            found = end;
        }
        return found.empty() ? "" : fmt::format(" (from {})", found);
    }

    bool is_on_command_line(std::string_view flag) const {
        const std::string line = config_.command_line + " ";
        return line.find(fmt::format(" {} ", flag)) != line.npos ||
               line.find(fmt::format(" {}=", flag)) != line.npos;
    }

    bool changes_schedule(config::OnResume rule) const {
        const bool constant = config_.schedule.learning_rate().style == spec::DecayStyle::constant;
        return rule == config::OnResume::schedule ||
               (rule == config::OnResume::decay_end && !constant);
    }

    bool changes_samples(config::OnResume rule) const {
        return rule == config::OnResume::samples ||
               (rule == config::OnResume::sample_count &&
                config_.data_order != data::DataOrder::stateless);
    }

    void refuse_data(std::string_view what, const std::string& was, const std::string& is) {
        problems_.push_back(fmt::format(
            "{4}: is {2}, but {0} was trained with {1}: after {3} samples, this run would read "
            "other samples: give {1}, or --override-data to train on the other samples",
            checkpoint_.path(), was, is, manifest_.counters.consumed_samples, what));
    }

    void check_dataset(const io::Json& saved, const io::Json& now) {
        const auto prefix = io::json_get<std::string>(now, "prefix", checkpoint_.path());
        for (const char* key : {"weight", "from", "to"}) {
            if (saved.value(key, io::Json()) != now.value(key, io::Json())) {
                refuse_data(fmt::format("{}: its {}", prefix, key),
                            text_of(saved.value(key, io::Json())),
                            text_of(now.value(key, io::Json())));
            }
        }
        if (data::same_dataset(identity_from(saved), identity_from(now))) return;
        problems_.push_back(fmt::format(
            "{}: is not the dataset that {} was trained on ({}, {} bytes; this dataset has {} "
            "bytes): give that dataset, or --override-data to train on this one",
            prefix, checkpoint_.path(),
            io::json_get<std::string>(saved, "prefix", checkpoint_.path()),
            identity_from(saved).bin_bytes, identity_from(now).bin_bytes));
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
    std::vector<std::string> problems_, notes_;
};

}  // namespace

io::OrderedJson training_data(const RunConfig& config) {
    io::OrderedJson datasets = io::OrderedJson::array();
    for (const data::DataPath& path : data::training_paths(config.data.paths)) {
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

void adopt_schedule(RunConfig& config, const ckpt::Checkpoint& checkpoint) {
    const config::CheckpointFlags& flags = config.checkpoints;
    if (flags.finetune) {
        if (flags.use_saved_schedule)
            note("--use-checkpoint-opt_param-scheduler: ignored: --finetune starts a new schedule");
        return;
    }
    config.schedule = schedule_after(config.schedule, checkpoint);
    if (!flags.use_saved_schedule) return;
    const std::string& path = checkpoint.path();
    const io::Json state = io::parse_json(checkpoint.manifest().state, path);
    const auto saved = state.find(name_of(config::Block::training));
    if (saved == state.end() || !saved->contains("lr")) {
        note("{}: has no learning rate schedule: using the schedule of the flags", path);
        return;
    }
    const auto number = [&](const char* key) { return io::json_get<double>(*saved, key, path); };
    const auto text = [&](const char* key) { return io::json_get<std::string>(*saved, key, path); };
    spec::LearningRate rate{.max = number("lr"),
                            .min = number("min_lr"),
                            .init = number("lr_warmup_init"),
                            .style = spec::parse_decay_style(text("lr_decay_style")),
                            .warmup_samples = number("lr_warmup_samples"),
                            .decay_samples = number("lr_decay_samples"),
                            .decay_tokens = number("lr_decay_tokens"),
                            .anneal_samples = number("lr_wsd_decay_samples")};
    if (const auto tokens = saved->find("lr_warmup_tokens");
        tokens != saved->end() && tokens->is_number()) {
        rate.warmup_in_tokens = true;
        rate.warmup_tokens = tokens->get<double>();
    }
    if (rate.style == spec::DecayStyle::wsd) {
        rate.anneal = spec::parse_anneal_style(text("lr_wsd_decay_style"));
    }
    const auto given = [&](const char* key) { return !saved->value(key, io::Json()).is_null(); };
    std::optional<spec::RateRange> decoupled;
    if (given("decoupled_lr")) decoupled = {number("decoupled_lr"), number("decoupled_min_lr")};
    config.schedule.set_learning_rate(rate, decoupled);
    config.schedule.set_weight_decay(std::nullopt);
    if (given("start_weight_decay")) {
        const std::string style = text("weight_decay_incr_style");
        const bool same_length = config.schedule.end().samples == number("train_samples");
        config.schedule.set_weight_decay(spec::GrowingWeightDecay{
            .start = number("start_weight_decay"),
            .end = number("end_weight_decay"),
            .style = spec::parse_weight_decay_style(style),
            .samples = same_length ? static_cast<double>(config.schedule.planned_samples())
                                   : number("train_samples")});
    }
    config.trainer.adamw.weight_decay = number("weight_decay");
}

void check_changes(const RunConfig& config, const io::OrderedJson& data,
                   const ckpt::Checkpoint& checkpoint) {
    Changes changes(config, checkpoint);
    changes.check_tokenizer();
    const io::Json state = io::parse_json(checkpoint.manifest().state, checkpoint.path());
    const auto saved_data = state.find("data");
    const auto saved = state.find(name_of(config::Block::training));
    if (!config.checkpoints.finetune && saved != state.end()) {
        changes.check_model();
        changes.check_training(*saved);
    }
    if (!config.checkpoints.finetune && saved_data != state.end()) {
        changes.check_data(*saved_data, data);
    }
    changes.report();
}

}  // namespace lm::train
