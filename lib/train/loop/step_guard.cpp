// SPDX-License-Identifier: Apache-2.0
// Why a step is computed again to find a bad number, and not watched while it is computed.
//
// When a loss is NaN, the question is which number was the first: in which layer, on which rank,
// from which samples. The loss alone has no answer, because one NaN spreads to every value after
// it, and by the sum of the gradient norms to all ranks. The usual tools watch every step.
// PyTorch's anomaly detection and hooks that test the output of each module read all activations
// again, which is too slow to be on when the fault occurs for the first time after three weeks.
// Megatron-LM tests the loss and the gradients of each rank (--check-for-nan-in-loss-and-grad),
// which names a rank, or a bucket of gradients, and no layer.
//
// Here a normal step pays nothing. The sums of the loss and of the squared gradients, which exist
// for the log and for clipping, are the detector (model/pass.hpp). Only if one of them is not
// finite, the step is repeated with StepProbe switched on, which looks at the result of each
// module. A search may be slow, and it is: it copies the residual stream to the host.
//
// It works because a step is a function of what still exists. The trainer judges the gradients
// before the update, so weights and moments are unchanged. The batch is given by the number of its
// first sample, and the dropout masks by samples and layers (base/rng.cpp). So the repetition
// computes the same numbers, on a CPU to the bit, and a repetition that is finite means that the
// machine, not the model, was wrong: the fault was transient. Megatron-LM's rerun state machine
// draws the same conclusion.
//
// A repetition with one change answers other questions:
//
// - The samples of the next data-parallel rank (--rerun-suspect): equal losses exclude the host as
//   the cause, and different ones name it where the pairs of ranks allow that (wrong_replica()).
// - The lowest loss scale: with fp16 an overflow becomes finite, any other cause does not.
// - A loss scale larger by 1/16, at the first overflow of a series: finite values mean that the
//   fault was transient.
//
// The price: the gradients of a step must stay until the verdict, so the optimizer cannot update a
// layer while backward computes the next one, which would save the buffer of gradients (clipping by
// the global norm forbids that, too). A bad step costs the time of one to three more. On GPUs
// without --deterministic-mode a repetition rounds differently, so results within 0.1 % count as
// the same (rounding_tolerance), and a fault with a smaller effect is not seen.
//
// Limits. The place is as exact as the probe: the embedding, an attention, an MLP, a norm, the
// loss, the gradient of a tensor. The operations inside of an attention or an MLP are not told
// apart, and most of them are fused anyway. A number that is wrong but finite is no NaN: spikes are
// repeated only with --rerun-suspect, and silent damage of weights is the task of --check-replicas.
#include "train/loop/step_guard.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/machine.hpp"
#include "cli/main.hpp"
#include "data/sampling/loader.hpp"
#include "parallel/together.hpp"

namespace lm::train {
namespace {

// Returns `value`. Replaces a NaN by the positive quiet NaN, because the sign of a computed NaN
// depends on the instruction set.
double without_sign(double value) {
    return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

// Returns a number that is larger for a value that is computed later in the step. Its last 18 bits
// are `rank`, so that two ranks never have the same number. All such numbers are exact in fp64.
double order_of(const NonFinite& found, int rank) {
    const i64 phase = static_cast<i64>(found.phase);
    const i64 micro_batch = std::min<i64>(found.micro_batch, 0xffff);
    const i64 place = (phase << 32) + (micro_batch << 16) + std::min<i64>(found.position, 0xffff);
    return static_cast<double>((place << 18) + rank);
}

// Returns a text such as "embedding 0.12, layers 0.3 0.31, head 0.2".
std::string norms_text(const std::vector<double>& norms) {
    const std::vector<double> layers(norms.begin() + 1, norms.end() - 1);
    return fmt::format("embedding {:.3g}, layers {:.3g}, head {:.3g}", norms.front(),
                       fmt::join(layers, " "), norms.back());
}

}  // namespace

bool same_result(double a, double b, bool repeats_bits) {
    if (std::bit_cast<u64>(without_sign(a)) == std::bit_cast<u64>(without_sign(b))) return true;
    if (repeats_bits || !std::isfinite(a) || !std::isfinite(b)) return false;
    return std::abs(a - b) <= rounding_tolerance * std::max(std::abs(a), std::abs(b));
}

std::optional<i64> wrong_replica(const std::vector<ReplicaPair>& pairs) {
    const auto n = static_cast<i64>(pairs.size());
    std::vector<i64> not_finite(pairs.size()), different(pairs.size());
    i64 n_different = 0;
    for (i64 i = 0; i < n; ++i) {
        const i64 next = (i + 1) % n;
        const ReplicaPair pair = pairs[static_cast<size_t>(i)];
        if (pair == ReplicaPair::equal) continue;
        ++n_different;
        ++different[static_cast<size_t>(i)];
        ++different[static_cast<size_t>(next)];
        if (pair == ReplicaPair::different) continue;
        const i64 wrong = pair == ReplicaPair::first_not_finite ? i : next;
        ++not_finite[static_cast<size_t>(wrong)];
    }
    const auto only = [](const std::vector<i64>& counts, i64 least) -> std::optional<i64> {
        if (std::ranges::count_if(counts, [&](i64 count) { return count >= least; }) != 1)
            return {};
        return std::ranges::max_element(counts) - counts.begin();
    };
    if (std::ranges::any_of(not_finite, [](i64 count) { return count > 0; })) {
        return only(not_finite, 1);
    }
    return n_different == 0 ? std::nullopt : only(different, n_different);
}

// Returns whether two results of a step count as equal (same_result()).
bool StepGuard::same(const StepResult& a, const StepResult& b) const {
    return same(a.loss, b.loss) && same(a.gradient_norm, b.gradient_norm);
}

bool StepGuard::same(double a, double b) const {
    return same_result(a, b, !config_.trainer.cuda || config_.trainer.deterministic);
}

void StepGuard::begin(i64 iteration) {
    scale_before_ = trainer_.loss_scaler().state();
    trainer_.probe().begin_iteration(iteration);
    if (config_.stopping.injection_rate == 0) return;
    trainer_.probe().plant(injected_fault(config_.stopping, config_.trainer.seed, iteration,
                                          config_.trainer.parallel, world_.rank()));
}

StepGuard::Verdict StepGuard::judge(const Step& step, StepResult& result) {
    const bool fp16 = config_.trainer.precision.weights == DType::fp16;
    if (!std::isfinite(result.loss) || (!fp16 && !result.finite)) {
        return judge_non_finite(step, result, origin(step, result, scale_before_.scale));
    }
    if (!result.finite) return judge_overflow(step, result);
    memory_.overflows_in_a_row = memory_.non_finite_in_a_row = 0;
    const auto spike = memory_.spikes.add(result.loss, result.gradient_norm);
    if (spike) return judge_spike(step, result, *spike);
    memory_.in_spike = false;
    return Verdict::update;
}

// ---- fp16 -------------------------------------------------------------------------------------

// Judges an fp16 step that has a finite loss and gradients that are not finite. In a backward pass,
// an infinity from an overflow can become a NaN (Inf - Inf, 0 * Inf). So the values do not show
// whether the loss scale is the cause.
StepGuard::Verdict StepGuard::judge_overflow(const Step& step, StepResult& result) {
    const optim::LossScaleState scale_after = trainer_.loss_scaler().state();
    const std::string found = other_cause(step, result);
    trainer_.set_loss_scale(scale_after);
    if (!found.empty()) return judge_non_finite(step, result, found);
    result.overflow = true;
    if (++memory_.overflows_in_a_row >= max_overflows_in_a_row) stop_at_overflows(step, result);
    return Verdict::drop;
}

// Returns an empty text when the loss scale is the cause; otherwise a description of the cause.
// Repeats the step with the lowest loss scale. If the repetition is not finite, the scale is not
// the cause. Then repeats the step with a slightly larger scale. If that repetition is finite, the
// fault was transient. Omits the second repetition if the previous step also overflowed. `result`:
// the result of the step.
std::string StepGuard::other_cause(const Step& step, const StepResult& result) {
    // A GPU without --deterministic-mode rounds a repeated step differently. This factor is far
    // above that difference, and below the factor 2 by which the loss scale changes.
    constexpr double margin = 17.0 / 16;
    const bool in_series = memory_.overflows_in_a_row > 0;
    std::vector<double> norms;
    if (!in_series) norms = trainer_.gradient_norms(result);
    std::ranges::transform(norms, norms.begin(), without_sign);
    const double lowest = trainer_.loss_scaler().lowest();
    const StepResult with_lowest = repeat(step, 0, lowest);
    if (!with_lowest.finite) {
        return origin(step, with_lowest, lowest) +
               fmt::format(", also with a loss scale of {}", lowest);
    }
    if (in_series || !repeat(step, 0, margin * scale_before_.scale).finite) return {};
    return fmt::format("a repeated step is finite, so the fault was transient, gradient norms: {}",
                       norms_text(norms));
}

void StepGuard::stop_at_overflows(const Step& step, const StepResult& result) const {
    throw JointError(
        Exit::self_stopped,
        fmt::format("iteration {}: the gradients of {} steps in a row overflowed fp16, and the "
                    "loss scale is now {}: use --bf16, {}or resume from an earlier checkpoint "
                    "with a lower --lr or other data",
                    step.iteration, memory_.overflows_in_a_row, result.loss_scale,
                    config_.trainer.loss_scale.fixed ? "a lower --loss-scale, " : ""));
}

// ---- values that are not finite ---------------------------------------------------------------

// Returns the verdict of `reaction`. `go_on`: the verdict if the reaction is to continue. If the
// reaction is not stop, prints a warning that contains `flag`, the flag that sets the reaction.
StepGuard::Verdict StepGuard::act(config::Reaction reaction, std::string_view flag, Verdict go_on) {
    using config::Reaction;
    if (world_.rank() == 0 && reaction != Reaction::stop)
        warn("{}: {} {}", reason_, flag, name_in(config::reactions, reaction));
    switch (reaction) {
        case Reaction::stop:
            return Verdict::stop;
        case Reaction::skip:
            return Verdict::skip;
        case Reaction::roll_back:
            return Verdict::roll_back;
        case Reaction::go_on:
            break;
    }
    return go_on;
}

// Judges a step whose loss or gradient norm is not finite. `found`: the place or the cause.
StepGuard::Verdict StepGuard::judge_non_finite(const Step& step, const StepResult& result,
                                               const std::string& found) {
    reason_ = fmt::format(
        "iteration {}: loss {} and gradient norm {} are not both finite: {}: no weight was changed",
        step.iteration, without_sign(result.loss), without_sign(result.gradient_norm), found);
    log_.event({{"kind", "nan"},
                {"iteration", step.iteration},
                {"first_sample", step.first_sample},
                {"samples", step.batch.global_batch},
                {"origin", found},
                {"policy", config_.stopping.on_nan}});
    last_was_spike_ = false;
    stop_at_wrong_rank();
    if (++memory_.non_finite_in_a_row >= max_non_finite_in_a_row) stop_at_non_finite(step);
    const Verdict action = act(config_.stopping.reaction_to_nan(), "--on-nan", Verdict::drop);
    if (action == Verdict::stop) {
        // The step has changed no weight, so a resumed run would compute the same result again.
        throw JointError(
            Exit::self_stopped,
            fmt::format("{}: samples {} to {}: {}, or a lower --lr; --on-nan skip skips such a "
                        "batch automatically",
                        reason_, step.first_sample, step.first_sample + step.batch.global_batch - 1,
                        remedy(step.iteration)));
    }
    // With skip and roll_back the run continues as if it had never trained on the batch, so the
    // loss scale goes back to its value before the step.
    if (action != Verdict::drop) trainer_.restore(scale_before_);
    return action;
}

// Ends the run when compare_ranks() has found a rank that computes wrong results. The data is not
// the cause, so a start on other hosts continues, whatever --on-nan and --on-spike state.
void StepGuard::stop_at_wrong_rank() const {
    if (wrong_rank_.empty()) return;
    if (newest_step_) newest_step_();  // finishes a pending save
    throw JointError(Exit::failure,
                     fmt::format("{}: {} computes wrong results: exclude this host, and run again",
                                 reason_, wrong_rank_));
}

void StepGuard::stop_at_non_finite(const Step& step) const {
    throw JointError(
        Exit::self_stopped,
        fmt::format(
            "{}: {} such steps in a row: --on-nan {} stops the training: {}, or a lower --lr",
            reason_, memory_.non_finite_in_a_row, config_.stopping.on_nan, remedy(step.iteration)));
}

// Returns the commands with which a user resumes from the newest step and skips the batches after
// that step, up to and including `iteration`. Without such a step, the commands skip `iteration`
// only. Collective.
std::string StepGuard::remedy(i64 iteration) const {
    const std::optional<i64> step = newest_step_ ? newest_step_() : std::nullopt;
    std::string text;
    if (world_.rank() == 0) {
        const std::string& save = config_.checkpoints.save;
        if (step)
            text = fmt::format("run lm-ckpt latest {} {}, then ", cli::shell_word(save), *step);
        text += fmt::format("repeat the training command with --skip-train-iteration-range {}-{}",
                            step ? *step + 1 : iteration, iteration);
    }
    return parallel::broadcast_text(world_, text, 0);
}

// Computes the gradients of the samples of `step` again, with a loss scale of `loss_scale`. The
// data-parallel rank r computes the samples of rank (r + dp_shift) % dp. Collective.
StepResult StepGuard::repeat(const Step& step, i64 dp_shift, double loss_scale) {
    const i64 dp = config_.trainer.parallel.dp;
    data::Loader loader(*data_.train, config_.batch_options(), step.first_sample, dp,
                        (trainer_.grid().at.dp + dp_shift) % dp);
    LoaderBatches batches(loader);
    batches.set_seq_length(step.batch.seq_length);
    optim::LossScaleState scale = scale_before_;
    scale.scale = loss_scale;
    trainer_.set_loss_scale(scale);
    return trainer_.compute_gradients(batches,
                                      config_.trainer.micro_batches_of(step.batch.global_batch));
}

// Repeats `step`, whose result with the loss scale `loss_scale` was `result`, to find the first
// value that is not finite. Returns a description of the value for the message. Collective.
std::string StepGuard::origin(const Step& step, const StepResult& result, double loss_scale) {
    const optim::LossScaleState scale_after = trainer_.loss_scaler().state();
    const std::vector<double> losses = local_losses();
    const std::string in_gradients = first_of_all(trainer_.probe().scan_gradients());
    trainer_.probe().start_search();
    const StepResult again = repeat(step, 0, loss_scale);
    const std::string first = first_of_all(trainer_.probe().end_search());
    std::string text = first;
    if (text.empty()) {
        text = "a repeated step is finite, so the fault was transient";
        std::vector<size_t> ranks;
        for (size_t i = 0; i < losses.size(); ++i) {
            if (!std::isfinite(losses[i])) ranks.push_back(i);
        }
        if (!ranks.empty())
            text += fmt::format(", in the loss of rank {}", fmt::join(ranks, ", rank "));
        if (ranks.empty() && !in_gradients.empty()) text += ", " + in_gradients;
    } else if (config_.stopping.rerun_suspect) {
        text += same(again, result) ? ", the same in a repeated step (persistent)"
                                    : ", other values in a repeated step";
        text += compare_ranks(step, local_losses(), loss_scale);
    }
    trainer_.set_loss_scale(scale_after);
    return text;
}

// Returns Trainer::local_loss() of each rank. Collective.
std::vector<double> StepGuard::local_losses() {
    double own = trainer_.local_loss();
    std::vector<double> all(static_cast<size_t>(world_.size()));
    world_.all_gather({&own, DType::fp64, {1}}, {all.data(), DType::fp64, {world_.size()}});
    return all;
}

// Repeats the step so that each data-parallel rank computes the samples of the next data-parallel
// rank. Returns a text that states whether both ranks compute equal losses from these samples; an
// empty text without data parallelism. `losses`: local_losses() after the last computation of the
// step in which each rank had its own samples. Collective.
std::string StepGuard::compare_ranks(const Step& step, const std::vector<double>& losses,
                                     double loss_scale) {
    const spec::ParallelConfig& parallel = config_.trainer.parallel;
    if (parallel.dp == 1) return {};
    repeat(step, 1, loss_scale);
    const std::vector<double> shifted = local_losses();
    std::vector<std::string> differing;
    std::vector<ReplicaPair> pairs(static_cast<size_t>(parallel.dp));
    std::vector<i64> compared(static_cast<size_t>(parallel.dp));  // a rank of each replica
    for (i64 rank = 0; rank < world_.size(); ++rank) {
        spec::Coordinates at = spec::coordinates_of(parallel, rank);
        at.dp = (at.dp + 1) % parallel.dp;
        const i64 next = spec::rank_of(parallel, at);
        const double first = shifted[static_cast<size_t>(rank)];
        const double second = losses[static_cast<size_t>(next)];
        if (!same(first, second)) {
            const i64 own = spec::coordinates_of(parallel, rank).dp;
            compared[static_cast<size_t>(own)] = rank;
            compared[static_cast<size_t>(at.dp)] = next;
            pairs[static_cast<size_t>(own)] =
                std::isfinite(first) == std::isfinite(second) ? ReplicaPair::different
                : std::isfinite(second)                       ? ReplicaPair::first_not_finite
                                                              : ReplicaPair::second_not_finite;
            differing.push_back(fmt::format("{} and {}", rank, next));
        }
    }
    if (differing.empty()) return ", and the same losses on another data-parallel rank";
    if (const auto wrong = wrong_replica(pairs)) {
        const i64 rank = compared[static_cast<size_t>(*wrong)];
        wrong_rank_ =
            fmt::format("rank {} on {}", rank,
                        parallel::broadcast_text(world_, host_name(), static_cast<int>(rank)));
    }
    return fmt::format(", but ranks {} compute different losses from the same samples",
                       fmt::join(differing, "; "));
}

// Returns a description of the finding that is earliest in the order of computation among all
// ranks; an empty text when no rank has a finding. `own`: the finding of this rank. Collective.
std::string StepGuard::first_of_all(const std::optional<NonFinite>& own) {
    constexpr double none = -1e300;
    double order = own ? -order_of(*own, world_.rank()) : none;
    world_.all_reduce({&order, DType::fp64, {1}}, comm::Reduction::max);
    if (order == none) return {};
    const auto rank = static_cast<int>(static_cast<i64>(-order) & ((1 << 18) - 1));
    std::string text;
    if (world_.rank() == rank) {
        text = fmt::format("first in {} on rank {} ({})", own->object, rank, host_name());
        if (!own->samples.empty()) {
            text += fmt::format(", micro-batch {} of samples {}", own->micro_batch,
                                fmt::join(own->samples, " "));
        }
    }
    return parallel::broadcast_text(world_, text, rank);
}

// ---- spikes -----------------------------------------------------------------------------------

StepGuard::Verdict StepGuard::judge_spike(const Step& step, StepResult& result,
                                          const Spike& spike) {
    const std::vector<double> norms = trainer_.gradient_norms(result);
    reason_ = fmt::format(
        "iteration {}: spike: loss {:.4g} (z-score {:.1f}), gradient norm {:.4g} (z-score {:.1f}), "
        "samples {} to {}, gradient norms: {}",
        step.iteration, result.loss, spike.loss_z, result.gradient_norm, spike.norm_z,
        step.first_sample, step.first_sample + step.batch.global_batch - 1, norms_text(norms));
    log_.event({{"kind", "spike"},
                {"iteration", step.iteration},
                {"first_sample", step.first_sample},
                {"samples", step.batch.global_batch},
                {"lm_loss", result.loss},
                {"loss_z", spike.loss_z},
                {"grad_norm", result.gradient_norm},
                {"grad_norm_z", spike.norm_z},
                {"grad_norms", norms},
                {"policy", config_.stopping.on_spike}});
    if (config_.stopping.rerun_suspect) {
        const optim::LossScaleState scale_after = trainer_.loss_scaler().state();
        const double scale = scale_before_.scale;
        const StepResult again = repeat(step, 0, scale);
        const bool persistent = same(again, result);
        reason_ += persistent ? ": the same in a repeated step (persistent)"
                              : fmt::format(
                                    ": transient: a repeated step has loss {:.4g} and "
                                    "gradient norm {:.4g}",
                                    again.loss, again.gradient_norm);
        reason_ += compare_ranks(step, local_losses(), scale);
        stop_at_wrong_rank();
        // The update uses the gradients and the norm of a repetition, so that a transient fault
        // does not reach the weights. With data parallelism, compare_ranks() has overwritten the
        // gradients, so the step is repeated once more.
        result = config_.trainer.parallel.dp > 1 ? repeat(step, 0, scale) : again;
        trainer_.set_loss_scale(scale_after);
        if (!result.finite) {
            return judge_non_finite(step, result, "a repeated step of a spike is not finite");
        }
    }
    last_was_spike_ = true;
    const config::Reaction reaction = config_.stopping.reaction_to_spike();
    if (reaction == config::Reaction::go_on && memory_.in_spike && !config_.stopping.rerun_suspect)
        return Verdict::update;
    memory_.in_spike = true;
    const Verdict action = act(reaction, "--on-spike", Verdict::update);
    if (action != Verdict::update) trainer_.restore(scale_before_);
    return action;
}

// ---- refused iterations -----------------------------------------------------------------------

RefusedRange StepGuard::refused(i64 first, i64 last, bool rolled_back) const {
    return {.first = first,
            .last = last,
            .rolled_back = rolled_back,
            .spike = last_was_spike_,
            .in_a_row = last_was_spike_ ? memory_.spikes.in_a_row() : memory_.non_finite_in_a_row};
}

void StepGuard::skip_refused(const RefusedRange& range) {
    if (range.spike) {
        memory_.spikes.set_in_a_row(range.in_a_row);
        memory_.in_spike = true;
    } else {
        memory_.non_finite_in_a_row = range.in_a_row;
    }
}

std::string StepGuard::spike_stop_text(i64 iteration) const {
    return fmt::format(
        "{0}: --on-spike stop: the state from before this step was saved: repeat the training "
        "command with --skip-train-iteration-range {1}-{1} or --on-spike skip",
        reason_, iteration);
}

}  // namespace lm::train
