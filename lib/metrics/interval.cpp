// SPDX-License-Identifier: Apache-2.0
#include "metrics/interval.hpp"

namespace lm::metrics {

void Interval::add(const IterationRecord& iteration) {
    ++sums_.n;
    if (iteration.stepped) {
        ++sums_.stepped;
        sums_.loss += iteration.loss;
    }
    sums_.not_finite += !iteration.finite;
    sums_.elapsed_s += iteration.elapsed_s;
    sums_.samples += static_cast<double>(iteration.samples);
    sums_.tokens += static_cast<double>(iteration.tokens);
    sums_.flops += iteration.flops;
    sums_.model_flops += iteration.model_flops;
}

void Interval::finish(StepRecord& record, double peak_flops) {
    const IntervalSums s = sums_;
    sums_ = {};
    const double rate = s.elapsed_s > 0 ? 1.0 / s.elapsed_s : 0.0;
    record.loss.reset();
    if (s.stepped > 0) record.loss = s.loss / static_cast<double>(s.stepped);
    record.step_s = s.n > 0 ? s.elapsed_s / static_cast<double>(s.n) : 0.0;
    record.samples_per_s = s.samples * rate;
    record.tokens_per_s = s.tokens * rate;
    record.flops_per_s = s.flops * rate;
    record.mfu.reset();
    if (peak_flops > 0) record.mfu = s.model_flops * rate / peak_flops;
    record.skipped_iterations = s.n - s.stepped;
    record.nan_iterations = s.not_finite;
}

}  // namespace lm::metrics
