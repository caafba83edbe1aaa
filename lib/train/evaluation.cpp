// SPDX-License-Identifier: Apache-2.0
#include "train/evaluation.hpp"

#include <fmt/format.h>

#include "base/clock.hpp"
#include "cli/signals.hpp"

namespace lm::train {
namespace {

// Returns whether a signal has asked any rank to stop. Collective.
bool stop_is_requested(comm::Group& world) {
    double requested = cli::stop_requested() != cli::StopRequest::none ? 1.0 : 0.0;
    world.all_reduce({&requested, DType::fp64, {1}}, comm::Reduction::max);
    return requested != 0;
}

}  // namespace

bool Evaluation::validate(const optim::Counters& done) {
    return evaluate(data_.valid, first_validation_sample(done), done,
                    fmt::format("iteration {}", done.iteration));
}

bool Evaluation::test(const optim::Counters& done) {
    return evaluate(data_.test, 0, done, "the end of training for test data");
}

bool Evaluation::evaluate(const std::vector<data::NamedSource>& sets, i64 first_sample,
                          const optim::Counters& done, const std::string& when) {
    trainer_.set_seq_length(config_.trainer.model.seq_length);
    for (const data::NamedSource& set : sets) {
        const Stopwatch watch;
        data::Loader loader(*set.source, config_.batch_options(), first_sample,
                            config_.trainer.parallel.dp, trainer_.grid().at.dp);
        LoaderBatches batches(loader);
        const std::optional<double> loss = mean_loss(batches);
        if (!loss) return false;
        log_.validation(set.name, when, done, *loss, config_.validation_samples(),
                        watch.elapsed_s());
    }
    return true;
}

// Returns the mean over --eval-iters global batches, or nullopt when a signal stopped the
// evaluation.
std::optional<double> Evaluation::mean_loss(BatchSource& batches) {
    const i64 batch = config_.schedule.ramp().global_batch;
    const i64 n_batches = config_.validation.iters;
    double sum = 0;
    for (i64 i = 0; i < n_batches; ++i) {
        if (stop_is_requested(world_)) return std::nullopt;
        sum += trainer_.evaluate(batches, config_.trainer.micro_batches_of(batch));
    }
    return sum / static_cast<double>(n_batches);
}

// Returns the sample from which a validation starts. With the stateless data order each validation
// reads the same samples, so that the losses of a run can be compared. With Megatron's data orders,
// each validation continues after the previous one, as in Megatron.
i64 Evaluation::first_validation_sample(const optim::Counters& done) const {
    if (config_.data_order() == data::DataOrder::stateless) return 0;
    const i64 earlier = (done.iteration - 1) / config_.validation.interval;
    return earlier * config_.validation_samples();
}

}  // namespace lm::train
