// SPDX-License-Identifier: Apache-2.0
#include "train/loop/evaluation.hpp"

#include <fmt/format.h>

#include <array>

#include "base/clock.hpp"
#include "base/log.hpp"

namespace lm::train {

bool Evaluation::validate(const spec::Counters& done) {
    // With the stateless data order each validation reads the same samples, so that the losses of a
    // run can be compared. With Megatron's data orders, each validation continues after the
    // previous one.
    const std::string when = fmt::format("iteration {}", done.iteration);
    const i64 interval = config_.validation.interval;
    if (config_.data_order == data::DataOrder::stateless) {
        return evaluate(data_.valid, 0, done, when);
    }
    // As Megatron does, evaluates once more after the last iteration.
    const bool at_end = config_.schedule.finished(done);
    const bool at_interval = done.iteration % interval == 0;
    if (!at_end || at_interval) {
        if (!evaluate(data_.valid, first_sample((done.iteration - 1) / interval), done, when))
            return false;
    }
    return !at_end || evaluate(data_.valid, first_sample(done.iteration / interval), done,
                               when + " on validation set");
}

bool Evaluation::test(const spec::Counters& done) {
    return evaluate(data_.test, 0, done, "the end of training for test data");
}

void Evaluation::note_share(double elapsed_s, double run_s) {
    sum_s_ += elapsed_s;
    const double share = sum_s_ / run_s;
    if (noted_ || world_.rank() != 0 || run_s < 60 || share < 0.05) return;
    noted_ = true;
    note(
        "evaluations take {:.0f} % of the time: to reduce this share, give a larger "
        "--eval-interval or a smaller --eval-iters",
        100 * share);
}

bool Evaluation::evaluate(const std::vector<data::NamedSource>& sets, i64 first_sample,
                          const spec::Counters& done, const std::string& when) {
    trainer_.set_seq_length(config_.trainer.model.seq_length);
    for (const data::NamedSource& set : sets) {
        const Stopwatch watch;
        data::Loader loader(*set.source, config_.batch_options(), first_sample,
                            config_.trainer.parallel.dp, trainer_.grid().at.dp);
        LoaderBatches batches(loader);
        const std::optional<double> loss = mean_loss(batches, done);
        if (!loss) return false;
        log_.validation(set.name, when, done, *loss, config_.validation_samples(),
                        watch.elapsed_s());
    }
    return true;
}

// Returns whether any rank has to stop. Sets batch_s_ to the longest time of all ranks. Collective.
bool Evaluation::stop_is_requested(const spec::Counters& done) {
    std::array<double, 2> numbers{stops_.must_end_evaluation(done) ? 1.0 : 0.0, batch_s_};
    world_.all_reduce({numbers.data(), DType::fp64, {2}}, comm::Reduction::max);
    batch_s_ = numbers[1];
    return numbers[0] != 0;
}

// Returns the mean loss over the unmasked tokens of --eval-iters global batches, as Megatron-LM's
// evaluate() does, or nullopt when the run has to stop. With a loss mask, batches differ in their
// numbers of unmasked tokens, so the mean of their means is another value. Collective.
std::optional<double> Evaluation::mean_loss(BatchSource& batches, const spec::Counters& done) {
    const i64 n_micro_batches = config_.trainer.micro_batches_of(config_.validation_batch());
    const i64 n_batches = config_.validation.iters;
    const double first_s = micro_batch_s_ * static_cast<double>(n_micro_batches);
    LossSum sum;
    for (i64 i = 0; i < n_batches; ++i) {
        if (stop_is_requested(done)) return std::nullopt;
        const Stopwatch watch;
        stops_.step().begin_iteration(batch_s_ > 0 ? batch_s_ : first_s, n_micro_batches);
        const std::optional<LossSum> loss = trainer_.evaluate(
            batches, n_micro_batches, [this] { return stops_.step().ends_step(); });
        if (!loss) return std::nullopt;
        sum += *loss;
        batch_s_ = watch.elapsed_s();
    }
    return sum.mean();
}

i64 Evaluation::first_sample(i64 earlier) const {
    return earlier * config_.validation_samples();
}

}  // namespace lm::train
