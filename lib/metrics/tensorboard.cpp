// SPDX-License-Identifier: Apache-2.0
#include "metrics/tensorboard.hpp"

#include <utility>

#include "spec/tensor_table.hpp"

namespace lm::metrics {

namespace {

i64 gigaflos_of(const TensorBoardOptions& options, i64 samples) {
    return static_cast<i64>(options.gigaflos_per_sample * static_cast<double>(samples));
}

}  // namespace

double gigaflos_per_sample(const spec::ModelConfig& model) {
    const spec::ParameterCount count = spec::count_parameters(model);
    return 6.0 * static_cast<double>(count.total() - count.embedding) *
           static_cast<double>(model.seq_length) / 1e9;
}

TensorBoard TensorBoard::open(TensorBoardOptions options) {
    const auto create = [&](const char* directory, auto position) {
        std::optional<i64> resume_step;
        if (options.resume) resume_step = position(*options.resume);
        return EventFile::create(options.directory + directory, resume_step);
    };
    EventFile by_iteration = create("", [](const Axes& x) { return x.iteration; });
    EventFile by_samples = create("/vs-samples", [](const Axes& x) { return x.samples; });
    EventFile by_tokens = create("/vs-tokens", [](const Axes& x) { return x.tokens; });
    EventFile by_gigaflos =
        create("/vs-gigaflos", [&](const Axes& x) { return gigaflos_of(options, x.samples); });
    return {std::move(options), std::move(by_iteration), std::move(by_samples),
            std::move(by_tokens), std::move(by_gigaflos)};
}

TensorBoard::TensorBoard(TensorBoardOptions options, EventFile by_iteration, EventFile by_samples,
                         EventFile by_tokens, EventFile by_gigaflos)
    : options_(std::move(options)),
      by_iteration_(std::move(by_iteration)),
      by_samples_(std::move(by_samples)),
      by_tokens_(std::move(by_tokens)),
      by_gigaflos_(std::move(by_gigaflos)) {}

TensorBoard::~TensorBoard() {
    flush();
}

void TensorBoard::flush() {
    for (EventFile* file : {&by_iteration_, &by_samples_, &by_tokens_, &by_gigaflos_})
        file->flush();
}

void TensorBoard::add(EventFile& file, i64 x, std::string_view tag, double value) {
    file.scalar(x, tag, value);
    if (file.queued() >= options_.queue_size) file.flush();
}

void TensorBoard::add_axes(const Axes& x, const std::string& tag, double value, bool by_tokens) {
    add(by_iteration_, x.iteration, tag, value);
    add(by_samples_, x.samples, tag + " vs samples", value);
    if (by_tokens) add(by_tokens_, x.tokens, tag + " vs tokens", value);
}

void TensorBoard::add_gigaflos(i64 samples, const std::string& tag, double value) {
    add(by_gigaflos_, gigaflos(samples), tag + " vs gigaflos (without embeddings)", value);
}

// Adds a value to a series by iteration and by samples, because Megatron-LM has no axis of tokens.
void TensorBoard::add_plain(const Axes& x, const std::string& tag,
                            const std::optional<double>& value) {
    if (value) add_axes(x, tag, *value, false);
}

// Adds the values with the tags of Megatron-LM's training_log().
void TensorBoard::add_megatron_lm(const StepRecord& r) {
    const Axes x{r.iteration, r.consumed_samples, r.consumed_tokens};
    add_plain(x, "learning-rate", r.learning_rate);
    add_plain(x, "batch-size", static_cast<double>(r.global_batch));
    add_plain(x, "lm loss", r.loss);
    add_plain(x, "loss-scale", r.loss_scale.value_or(1.0));
    add_plain(x, "world-size", static_cast<double>(options_.world_size));
    add_plain(x, "grad-norm", r.grad_norm);
    add_plain(x, "num-zeros", r.num_zeros);
    add_plain(x, "params-norm", r.params_norm);
}

i64 TensorBoard::gigaflos(i64 samples) const {
    return gigaflos_of(options_, samples);
}

// Writes the world size at `iteration` and 0 at the next iteration, so that each start is a visible
// peak.
void TensorBoard::add_world_size(i64 iteration) {
    constexpr std::string_view tag = "iteration-time/world_size at restart";
    add(by_iteration_, iteration, tag, static_cast<double>(options_.world_size));
    add(by_iteration_, iteration + 1, tag, 0.0);
    first_ = false;
}

void TensorBoard::iteration(const StepRecord& r) {
    if (first_) add_world_size(r.iteration);
    const Axes x{r.iteration, r.consumed_samples, r.consumed_tokens};
    const double iteration = static_cast<double>(r.iteration);
    add(by_samples_, x.samples, "steps-vs-samples/y=steps,x=samples", iteration);
    add(by_iteration_, x.iteration, "steps-vs-samples/y=samples,x=steps",
        static_cast<double>(x.samples));
    add(by_tokens_, x.tokens, "steps-vs-tokens/y=steps,x=tokens", iteration);
    add(by_iteration_, x.iteration, "steps-vs-tokens/y=tokens,x=steps",
        static_cast<double>(x.tokens));
    add_axes(x, "learning-rate/learning-rate", r.learning_rate);
    if (options_.batch_size) {
        add_axes(x, "batch-size/batch-size", static_cast<double>(r.global_batch), false);
    }
    if (r.loss) {
        const std::string tag = "lm-loss-training/lm loss";
        add_axes(x, tag, *r.loss);
        add_gigaflos(x.samples, tag, *r.loss);
    }
    if (r.loss_scale) add_axes(x, "loss-scale/loss-scale", *r.loss_scale);
    if (r.grad_norm) add_axes(x, "grad-norm/grad-norm", *r.grad_norm);
    if (r.num_zeros) add_axes(x, "num-zeros/num-zeros", *r.num_zeros);
    if (r.params_norm) add_axes(x, "params-norm/params-norm", *r.params_norm);
    if (r.seq_length)
        add(by_iteration_, x.iteration, "curriculum_seqlen", static_cast<double>(*r.seq_length));
    if (options_.megatron_lm) add_megatron_lm(r);
}

void TensorBoard::interval(const StepRecord& r) {
    const i64 x = r.iteration;
    const double dp_size = static_cast<double>(options_.dp_size);
    if (options_.timers) {
        add_axes({x, r.consumed_samples, r.consumed_tokens}, "iteration-time/iteration-time",
                 r.step_s);
    }
    add(by_iteration_, x, "iteration-time/samples per second", r.samples_per_s);
    add(by_iteration_, x, "iteration-time/samples per second per replica",
        r.samples_per_s / dp_size);
    add(by_iteration_, x, "iteration-time/tokens per second", r.tokens_per_s);
    add(by_iteration_, x, "iteration-time/tokens per second per replica", r.tokens_per_s / dp_size);
    add(by_iteration_, x, "iteration-time/TFLOPs per gpu (estimated)", r.flops_per_s / 1e12);
    if (r.mfu) add(by_iteration_, x, "iteration-time/MFU", *r.mfu);
    if (options_.megatron_lm) {
        if (options_.timers) add(by_iteration_, x, "iteration-time", r.step_s);
        add(by_iteration_, x, "throughput", r.flops_per_s / 1e12);
    }
    flush();
}

void TensorBoard::timer(i64 iteration, const std::string& phase, double seconds) {
    add(by_iteration_, iteration, "timers/" + phase + "-time", seconds);
}

void TensorBoard::validation(const ValidationRecord& r) {
    const Axes x{r.iteration, r.consumed_samples, r.consumed_tokens};
    const std::string group =
        "lm-loss-validation/" + (r.name == "validation" ? "" : r.name + "/") + "lm loss validation";
    const auto series = [&](const std::string& tag, double value) {
        add_axes(x, tag, value);
        add_gigaflos(x.samples, tag, value);
    };
    series(group, r.loss);
    if (options_.validation_ppl) series(group + " ppl", perplexity(r.loss));
    if (options_.megatron_lm) {
        const std::string tag = "lm loss validation" + (r.name == "validation" ? "" : "-" + r.name);
        add_plain(x, tag, r.loss);
        if (options_.validation_ppl) add_plain(x, tag + " ppl", perplexity(r.loss));
    }
    flush();
}

}  // namespace lm::metrics
