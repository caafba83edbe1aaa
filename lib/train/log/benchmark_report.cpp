// SPDX-License-Identifier: Apache-2.0
#include "train/log/benchmark_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/units.hpp"
#include "cli/main.hpp"
#include "cost/activation_plan.hpp"
#include "cost/formulas.hpp"
#include "cost/peak_flops.hpp"
#include "train/step/training_memory.hpp"

namespace lm::train {

void BenchmarkReport::add(const TrainingLog::BatchSize& batch, double elapsed_s, bool timed) {
    last_ = batch;
    if (!std::exchange(warm_, true)) return;
    TimedWork& work = timed ? timed_ : measured_;
    work.s += elapsed_s;
    work.tokens += batch.global_batch * batch.seq_length;
    ++work.iterations;
}

// Returns the model FLOPs of the last step on all ranks, without recomputation.
double BenchmarkReport::model_flops(const spec::ModelConfig& model) const {
    return cost::model_flops_per_token(model, last_.seq_length) *
           static_cast<double>(last_.global_batch * last_.seq_length);
}

void BenchmarkReport::print_utilisation(const RunConfig& config, const std::string& device,
                                        double step_s) const {
    const spec::ParallelConfig& parallel = config.trainer.parallel;
    const auto n_gpus = static_cast<double>(parallel.n_ranks());
    const double model_rate = model_flops(config.trainer.model) / step_s / n_gpus;
    const double log_rate =
        cost::iteration_flops(config.trainer.model,
                              spec::padded_vocab(config.trainer.model, parallel),
                              last_.global_batch, last_.seq_length,
                              cost::recomputed_share(config.trainer.model, parallel)) /
        step_s / n_gpus;
    std::string text =
        fmt::format("{}: {:.1f} TFLOP/s (model), {:.1f} TFLOP/s (Megatron's formula)", device,
                    model_rate / 1e12, log_rate / 1e12);
    const DType dtype = config.trainer.precision.weights;
    if (const auto peak = cost::peak_flops(device, dtype)) {
        text += fmt::format(", MFU {:.1f} % of the peak of {:.0f} TFLOP/s in {}",
                            100 * model_rate / *peak, *peak / 1e12, name_of(dtype));
    } else {
        text += cost::is_slice(device) ? ", no MFU: the peak of a MIG slice is unknown"
                                       : ", no MFU: the peak of this device is unknown";
    }
    cli::write_stdout(text + (n_gpus > 1 ? fmt::format(", on each of {} GPUs\n", n_gpus) : "\n"));
}

void BenchmarkReport::print(Trainer& trainer, const RunConfig& config,
                            device::Device& device) const {
    if (measured_.iterations == 0) return;
    const double step_s = measured_.s / static_cast<double>(measured_.iterations);
    const double flops = model_flops(config.trainer.model);
    cli::write_stdout(fmt::format(
        "benchmark: {:.1f} tokens/s, {:.1f} ms per iteration over {} iterations, {:.1f} GFLOP/s "
        "(model), "
        "{} threads, buffers {}\n",
        static_cast<double>(measured_.tokens) / measured_.s, step_s * 1e3, measured_.iterations,
        flops / step_s / 1e9, config.trainer.n_threads, human_size(trainer.memory().total())));
    if (config.trainer.cuda) {
        print_utilisation(config, device.name(), step_s);
        cli::write_stdout(gpu_memory(config.trainer, trainer.grid().at, device).str() + "\n");
    }
    print_operations();
}

void BenchmarkReport::print_operations() const {
    if (timed_.iterations == 0) {
        cli::write_stdout("operations were not timed: that needs at least 3 iterations\n");
        return;
    }
    const auto n = static_cast<double>(timed_.iterations);
    cli::write_stdout(fmt::format(
        "operations: {:.1f} ms per iteration over {} other iterations, with each operation timed\n",
        timed_.s / n * 1e3, timed_.iterations));
    std::vector<device::Op> order;
    double in_ops_s = 0;
    for (int i = 0; i < static_cast<int>(device::Op::count); ++i) {
        order.push_back(static_cast<device::Op>(i));
        in_ops_s += op_times_.ops[static_cast<size_t>(i)].seconds;
    }
    const auto time = [this](device::Op op) { return op_times_.ops[static_cast<size_t>(op)]; };
    std::ranges::sort(order, [&](auto a, auto b) { return time(a).seconds > time(b).seconds; });
    cli::write_stdout(
        fmt::format("{:<26}{:>8}{:>12}{:>8}{:>12}\n", "operation", "calls", "ms", "%", "GFLOP/s"));
    for (const device::Op op : order) {
        const device::OpTime& t = time(op);
        if (t.calls == 0) continue;
        const std::string rate =
            t.flops > 0 ? fmt::format("{:.1f}", t.flops / t.seconds / 1e9) : "";
        cli::write_stdout(fmt::format("{:<26}{:>8.0f}{:>12.2f}{:>8.1f}{:>12}\n",
                                      device::name_of(op), static_cast<double>(t.calls) / n,
                                      t.seconds / n * 1e3, 100.0 * t.seconds / timed_.s, rate));
    }
    const double rest_s = timed_.s - in_ops_s;
    cli::write_stdout(fmt::format("{:<26}{:>8}{:>12.2f}{:>8.1f}\n", "everything else", "",
                                  rest_s / n * 1e3, 100.0 * rest_s / timed_.s));
}

}  // namespace lm::train
