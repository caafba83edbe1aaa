// SPDX-License-Identifier: Apache-2.0
// Measures each operation on a GPU in the shapes of a model of bench/cuda.md. Prints one JSON
// object per line: {"op", "ms", "mb" (minimum memory traffic), "gb_s", "gflop", "tflop_s"}; "ms" is
// the median of several runs, timed by the device. bench/gpu.py runs this program.
//     bench_device_ops [--cudnn] gpt2-124m|gpt2-1558m|llama-1b [DIVISOR [GROUP]]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "comm/self/group.hpp"
#include "cost/memory.hpp"
#include "cost/workspace.hpp"
#include "data/sampling/row_order.hpp"
#include "device/ops.hpp"
#include "spec/numerics.hpp"
#include "train/start/open_device.hpp"

using namespace lm;
using device::View;

namespace {

struct Model {
    std::string name;
    i64 batch, length, hidden, heads, groups, ffn, parameters;
    bool llama;
    i64 vocab = 50304;
    int n_runs = 11;
};
const Model models[] = {{"gpt2-124m", 64, 1024, 768, 12, 12, 3072, 124'475'904, false},
                        {"gpt2-1558m", 16, 1024, 1600, 25, 25, 6400, 400'000'000, false},
                        {"llama-1b", 4, 4096, 2048, 16, 4, 5632, 400'000'000, true}};

// Returns the model with all its sizes divided by `divisor`, for the emulated GPU.
Model divided(Model m, i64 divisor) {
    if (divisor == 1) return m;
    constexpr i64 fewest = 16;
    m.length = std::max(fewest, m.length / std::max<i64>(1, divisor / m.batch));
    m.batch = std::max<i64>(1, m.batch / divisor);
    m.vocab = std::max<i64>(512, m.vocab / divisor);
    m.parameters /= divisor;
    m.n_runs = 1;
    return m;
}

// Returns the workspace that lm-train plans for the model with that attention.
i64 workspace_bytes(const Model& m, spec::GpuAttention attention) {
    spec::ModelConfig config{.n_layers = 1,
                             .hidden = m.hidden,
                             .ffn_hidden = m.ffn,
                             .n_heads = m.heads,
                             .n_groups = m.groups,
                             .seq_length = m.length,
                             .vocab_size = m.vocab};
    config.attention_dropout = 0;
    config.resolve();
    const cost::StepShape step{
        .micro_batch = m.batch, .seq_length = m.length, .compute = DType::bf16};
    return cost::cuda_workspace_bytes(config, {}, step, 0, attention);
}

class Bench {
  public:
    Bench(const Model& m, i64 divisor, spec::GpuAttention attention)
        : world_(comm::self("world")),
          config_{.precision = {DType::bf16}, .cuda = true, .attention = attention},
          device_(train::open_device(config_, *world_)),
          model(divided(m, divisor)),
          workspace_(device_->allocate(workspace_bytes(model, attention), "workspace")),
          context_{*device_, workspace_.view(DType::uint8, {workspace_.bytes()})} {
        config_.model.attention_dropout = 0;
        train::choose_kernels(config_, *device_, *world_);
        noise_.resize(i64{1} << 22);
        for (size_t i = 0; i < noise_.size(); ++i) {
            const u64 bits = mix(1, i);
            noise_[i] = bf16_from_fp32(static_cast<float>(bits % 2001) / 1000 - 1);
        }
    }
    device::Context& context() { return context_; }

    // half(): bf16 with random values, because the power consumption of products, and with it the
    // clock frequency, depends on the values. full(): fp32 zeros.
    View half(const Shape& shape) {
        const View view = make(shape, DType::bf16);
        const auto piece = static_cast<i64>(noise_.size());
        const View flat = flat_of(view);
        for (i64 begin = 0; begin < flat.numel(); begin += piece) {
            const i64 end = std::min(begin + piece, flat.numel());
            device_->copy_from_host(flat.rows(begin, end), noise_.data());
        }
        return view;
    }
    View full(const Shape& shape) { return make(shape, DType::fp32); }
    View ints(const Shape& shape, i64 step, i64 limit) {
        const View view = make(shape, DType::int32);
        device_->copy_from_host(view, integers(view.numel(), step, limit).data());
        return view;
    }
    // Returns the row numbers [n] int32 sorted by the keys ints({n}, step, limit).
    View order(i64 n, i64 step, i64 limit) {
        std::vector<i32> rows(static_cast<size_t>(n));
        data::order_rows(integers(n, step, limit), limit, rows);
        const View view = make({n}, DType::int32);
        device_->copy_from_host(view, rows.data());
        return view;
    }
    void reset() { buffers_.clear(); }

    void report(const std::string& op, double bytes, double flop,
                const std::function<void()>& body) {
        std::vector<double> times(static_cast<size_t>(model.n_runs));
        body();
        for (double& time : times) device_->measure(body, time);
        device_->synchronize();
        std::ranges::sort(times);
        const double s = times[times.size() / 2];
        fmt::print("{{\"model\": \"{}\", \"op\": \"{}\", \"ms\": {:.4f}", model.name, op, s * 1e3);
        fmt::print(", \"mb\": {:.1f}, \"gb_s\": {:.0f}", bytes / 1e6, bytes / s / 1e9);
        if (flop > 0) {
            fmt::print(", \"gflop\": {:.1f}, \"tflop_s\": {:.1f}", flop / 1e9, flop / s / 1e12);
        }
        fmt::print("}}\n");
        std::fflush(stdout);
    }

  private:
    static std::vector<i32> integers(i64 n, i64 step, i64 limit) {
        std::vector<i32> values(static_cast<size_t>(n));
        for (size_t i = 0; i < values.size(); ++i) {
            values[i] = static_cast<i32>(static_cast<i64>(i) * step % limit);
        }
        return values;
    }
    View make(const Shape& shape, DType dtype) {
        buffers_.push_back(device_->allocate(View{nullptr, dtype, shape}.bytes(), "bench"));
        return buffers_.back().view(0, dtype, shape);
    }
    static View flat_of(const View& view) { return {view.data, view.dtype, {view.numel()}}; }

    std::unique_ptr<comm::Group> world_;
    train::TrainerConfig config_;
    std::unique_ptr<device::Device> device_;

  public:
    const Model model;

  private:
    device::Buffer workspace_;
    device::Context context_;
    std::vector<device::Buffer> buffers_;
    std::vector<u16> noise_;
};

double product(i64 a, i64 b, i64 c = 1) {
    return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
}

void flat(Bench& bench) {
    bench.reset();
    const i64 n = bench.model.parameters;
    const View p = bench.full({n}), g = bench.full({n}), m = bench.full({n}), v = bench.full({n});
    const View w = bench.half({n}), sum = bench.full({2});
    const View total{sum.data, DType::fp64, {1}};
    const device::AdamWPart whole[] = {{.size = n}};
    bench.report("adamw", product(n, 30), 0, [&] {
        device::adamw(
            bench.context(),
            {.master = p, .weight = w, .grad = g, .m = m, .v = v, .parts = whole, .lr = 1e-6});
    });
    bench.report("sum_squares", product(n, 4), 0, [&] {
        device::sum_squares(bench.context(), {g, total});
    });
    bench.report("cast fp32 to bf16", product(n, 6), 0, [&] {
        device::cast(bench.context(), {g, w});
    });
    bench.report("fill fp32", product(n, 4), 0, [&] { device::fill(bench.context(), {g, 0.0}); });
    bench.report("scale bf16", product(n, 4), 0, [&] { device::scale(bench.context(), {w, 1.0}); });
}

void norms(Bench& bench) {
    bench.reset();
    const auto& m = bench.model;
    const i64 rows = m.batch * m.length, c = m.hidden;
    const View branch = bench.half({rows, c}), residual = bench.half({rows, c});
    const View sum = bench.half({rows, c}), y = bench.half({rows, c});
    const View weight = bench.half({c}), bias = m.llama ? View{} : bench.half({c});
    const View mean = m.llama ? View{} : bench.full({rows}), rstd = bench.full({rows});
    const View dweight = bench.full({c}), dbias = m.llama ? View{} : bench.full({c});
    const auto norm = m.llama ? device::Norm::rms_norm : device::Norm::layer_norm;
    bench.report("residual_norm_forward", product(rows, c, 8), 0, [&] {
        device::residual_norm_forward(
            bench.context(), {norm, 1e-5, branch, residual, {}, sum, weight, bias, y, mean, rstd});
    });
    bench.report("residual_norm_backward", product(rows, c, 8), 0, [&] {
        device::residual_norm_backward(
            bench.context(),
            {norm, y, sum, weight, mean, rstd, residual, branch, {}, {}, dweight, dbias});
    });
    if (m.llama) return;
    const View branch_bias = bench.full({c});
    bench.report("residual_norm_backward, with the branch's bias", product(rows, c, 8), 0, [&] {
        device::residual_norm_backward(bench.context(), {.norm = norm,
                                                         .dy = y,
                                                         .sum = sum,
                                                         .weight = weight,
                                                         .mean = mean,
                                                         .rstd = rstd,
                                                         .dsum_in = residual,
                                                         .dsum = branch,
                                                         .dweight = dweight,
                                                         .dbias = dbias,
                                                         .dbranch_bias = branch_bias});
    });
}

void attention(Bench& bench) {
    bench.reset();
    const auto& m = bench.model;
    const i64 d = m.hidden / m.heads, width = (m.heads + 2 * m.groups) * d;
    const View qkv = bench.half({m.batch, m.length, width});
    const View dqkv = bench.half({m.batch, m.length, width});
    const View out = bench.half({m.batch, m.length, m.hidden});
    const View dout = bench.half({m.batch, m.length, m.hidden});
    const View lse = bench.full({m.batch, m.heads, m.length});
    const double scale = 0.125;
    const double pairs = product(m.batch, m.heads, m.length) * static_cast<double>(m.length) / 2;
    const double token_bytes = static_cast<double>(m.batch * m.length) * 2;
    const auto w = static_cast<double>(width), h = static_cast<double>(m.hidden);
    bench.report("attention_forward", token_bytes * (w + h), pairs * 4 * static_cast<double>(d),
                 [&] {
                     device::attention_forward(
                         bench.context(), {qkv, out, lse, m.heads, m.groups, d, scale, {}, {}, {}});
                 });
    bench.report("attention_backward", token_bytes * (2 * w + 2 * h),
                 pairs * 10 * static_cast<double>(d), [&] {
                     device::attention_backward(
                         bench.context(),
                         {dout, qkv, out, lse, dqkv, m.heads, m.groups, d, scale, {}, {}, {}});
                 });
    if (!m.llama) return;
    const View positions = bench.ints({m.batch, m.length}, 1, m.length);
    const View angles = bench.full({m.length, d});
    bench.report("rotary", product(m.batch * m.length, (m.heads + m.groups) * d, 4), 0, [&] {
        device::rotary(bench.context(), {qkv, positions, angles, m.heads + m.groups, d, false});
    });
}

// `f` is the activation after the layer. `before` is the activation that produced the layer's
// input; a second measurement of backward includes its fused gradient.
void linear(Bench& bench, const std::string& name, i64 n, i64 k, i64 m, device::Activation f,
            device::Activation before) {
    bench.reset();
    const View x = bench.half({n, k}), w = bench.half({m, k}), y = bench.half({n, m});
    const bool active = f != device::Activation::none;
    const bool biased = !bench.model.llama && m != bench.model.vocab;
    const View bias = biased ? bench.half({m}) : View{};
    const View pre = active ? bench.half({n, m}) : View{};
    const View dw = bench.full({m, k}), dbias = biased ? bench.full({m}) : View{};
    const double flop = 2 * product(n, k, m);
    const double bytes = 2 * (product(n, k) + product(m, k) + product(n, m));
    bench.report(name + " forward", bytes, flop, [&] {
        device::linear_forward(bench.context(), {x, w, bias, y, f, pre});
    });
    bench.report(name + " backward, input", bytes, flop, [&] {
        device::linear_backward_input(bench.context(), {y, w, x, device::Activation::none, {}});
    });
    if (before != device::Activation::none) {
        const View made_of = bench.half({n, k});
        bench.report(name + " backward, input, with GELU's", bytes + 2 * product(n, k), flop, [&] {
            device::linear_backward_input(bench.context(), {y, w, x, before, made_of});
        });
    }
    bench.report(name + " backward, weight", bytes + 6 * product(m, k), flop, [&] {
        device::linear_backward_weight(bench.context(), {y, x, dw, {}, true});
    });
    if (!biased) return;
    bench.report(name + " backward, weight, with bias", bytes + 6 * product(m, k), flop, [&] {
        device::linear_backward_weight(bench.context(), {y, x, dw, dbias, true});
    });
}

void linears(Bench& bench) {
    const auto& m = bench.model;
    const i64 rows = m.batch * m.length;
    const i64 qkv = (m.heads + 2 * m.groups) * (m.hidden / m.heads);
    using enum device::Activation;
    linear(bench, "qkv", rows, m.hidden, qkv, none, none);
    const auto gelu = m.llama ? none : gelu_tanh;
    linear(bench, "up", rows, m.hidden, m.llama ? 2 * m.ffn : m.ffn, gelu, none);
    linear(bench, "down", rows, m.ffn, m.hidden, none, gelu);
    linear(bench, "head", std::min<i64>(rows, 16384), m.hidden, m.vocab, none, none);
}

void activations(Bench& bench) {
    bench.reset();
    const auto& m = bench.model;
    const i64 rows = m.batch * m.length;
    const View x = bench.half({rows, (m.llama ? 2 : 1) * m.ffn}), y = bench.half({rows, m.ffn});
    if (!m.llama) {
        bench.report("gelu", product(rows, m.ffn, 4), 0, [&] {
            device::activation_forward(bench.context(), {x, y, device::Activation::gelu_tanh});
        });
        return;
    }
    const View dx = bench.half({rows, 2 * m.ffn});
    const auto gate = device::Activation::swiglu;
    bench.report("swiglu", product(rows, m.ffn, 6), 0, [&] {
        device::gated_forward(bench.context(), {gate, x, y});
    });
    bench.report("swiglu backward", product(rows, m.ffn, 10), 0, [&] {
        device::gated_backward(bench.context(), {gate, y, x, dx});
    });
}

void ends(Bench& bench) {
    bench.reset();
    const auto& m = bench.model;
    const i64 vocab = m.vocab;
    const i64 rows = std::min<i64>(m.batch * m.length, 16384);
    const View logits = bench.half({rows, vocab}), targets = bench.ints({rows}, 7919, vocab - 47);
    const View row_max = bench.full({rows}), row_sum = bench.full({rows});
    const View target_logit = bench.full({rows}), weight = bench.full({rows});
    bench.report("cross_entropy_stats", product(rows, vocab, 2), 0, [&] {
        device::cross_entropy_stats(
            bench.context(), {logits, targets, 0, vocab - 47, row_max, row_sum, target_logit});
    });
    bench.report("cross_entropy_backward", product(rows, vocab, 4), 0, [&] {
        device::cross_entropy_backward(
            bench.context(), {logits, targets, 0, vocab - 47, row_max, row_sum, weight, 1.0});
    });
    const View losses = bench.full({rows});
    bench.report("cross_entropy", product(rows, vocab, 4), 0, [&] {
        device::cross_entropy(bench.context(), {logits, targets, vocab - 47, weight, 1.0, row_max,
                                                row_sum, target_logit, losses});
    });
    bench.reset();
    const View tokens = bench.ints({rows}, 7919, vocab - 47);
    const View places = bench.ints({rows}, 1, m.length);
    const View token_order = bench.order(rows, 7919, vocab - 47);
    const View place_order = bench.order(rows, 1, m.length);
    const View table = bench.half({vocab, m.hidden}),
               place_table = bench.half({m.length, m.hidden});
    const View out = bench.half({rows, m.hidden});
    const View dtable = bench.full({vocab, m.hidden}), dplaces = bench.full({m.length, m.hidden});
    bench.report("embedding_forward", product(rows, m.hidden, 6), 0, [&] {
        device::embedding_forward(bench.context(), {tokens, table, 0, places, place_table, out});
    });
    bench.report("embedding_backward", product(rows, m.hidden, 12), 0, [&] {
        device::embedding_backward(
            bench.context(), {tokens, token_order, out, dtable, 0, places, place_order, dplaces});
    });
}

}  // namespace

int main(int argc, char** argv) {
    try {
        const bool cudnn = argc > 1 && argv[1] == std::string("--cudnn");
        if (cudnn) {
            --argc;
            ++argv;
        }
        const std::string name = argc > 1 ? argv[1] : "gpt2-124m";
        const auto* const model = std::ranges::find(models, name, &Model::name);
        if (model == std::end(models)) throw std::runtime_error("no such model: " + name);
        Bench bench(*model, argc > 2 ? std::atoi(argv[2]) : 1,
                    cudnn ? spec::GpuAttention::cudnn : spec::GpuAttention::flash);
        const std::pair<std::string, void (*)(Bench&)> groups[] = {
            {"flat", flat},           {"norm", norms},     {"activation", activations},
            {"attention", attention}, {"linear", linears}, {"ends", ends}};
        const std::string only = argc > 3 ? argv[3] : "";
        for (const auto& [group, run] : groups) {
            if (only.empty() || only == group) run(bench);
        }
    } catch (const std::exception& error) {
        fmt::print(stderr, "bench_device_ops: {}\n", error.what());
        return 3;
    }
    return 0;
}
