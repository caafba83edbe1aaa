// SPDX-License-Identifier: Apache-2.0
#include "metrics/interval.hpp"

namespace lm::metrics {

void Interval::add(const IterationRecord& iteration) {
    ++n_;
    if (iteration.stepped) {
        ++stepped_;
        loss_ += iteration.loss;
    }
    not_finite_ += !iteration.finite;
    elapsed_s_ += iteration.elapsed_s;
    samples_ += static_cast<double>(iteration.samples);
    tokens_ += static_cast<double>(iteration.tokens);
    flops_ += iteration.flops;
    model_flops_ += iteration.model_flops;
}

void Interval::finish(StepRecord& record, double peak_flops) {
    const double rate = elapsed_s_ > 0 ? 1.0 / elapsed_s_ : 0.0;
    record.loss.reset();
    if (stepped_ > 0) record.loss = loss_ / static_cast<double>(stepped_);
    record.step_s = n_ > 0 ? elapsed_s_ / static_cast<double>(n_) : 0.0;
    record.samples_per_s = samples_ * rate;
    record.tokens_per_s = tokens_ * rate;
    record.flops_per_s = flops_ * rate;
    record.mfu.reset();
    if (peak_flops > 0) record.mfu = model_flops_ * rate / peak_flops;
    record.skipped_iterations = n_ - stepped_;
    record.nan_iterations = not_finite_;
    *this = Interval();
}

}  // namespace lm::metrics
