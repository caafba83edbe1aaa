// SPDX-License-Identifier: Apache-2.0
// Measures each CPU operation in the shapes of GPT-2 124M (12 heads, 768, vocabulary 50304), B = 4,
// T = 256, and in the same run the limits of the machine: peak of multiply-adds, copy bandwidth,
// and oneDNN's product of whole matrices with its own threads.
//     bench_ops [THREADS [FILTER [TYPE]]]
// TYPE is fp32 (default), bf16 or fp16: the type of activations and weights.
// Times are the best of several runs. On a busy machine use the columns of CPU time (sum over all
// threads, divided by their number), which exclude waiting for a core.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dnnl.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "cpu/cpu_device.hpp"
#include "cpu/matmul.hpp"
#include "cpu/vector/vector_kernels.hpp"
#include "device/ops.hpp"

using namespace lm;
using device::View;

namespace {

constexpr i64 B = 4, T = 256, N = B * T, C = 768, H = 12, D = 64, F = 3072, V = 50304;
constexpr i64 head_rows = 512;

struct Time {
    double wall = 1e30;
    double cpu = 1e30;
};

double cpu_seconds() {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double wall_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

Time best_of(const std::function<void()>& body) {
    body();
    Time best;
    const double end = wall_seconds() + 1.0;
    for (int run = 0; run < 3 || (run < 50 && wall_seconds() < end); ++run) {
        const double wall = wall_seconds();
        const double cpu = cpu_seconds();
        body();
        best.wall = std::min(best.wall, wall_seconds() - wall);
        best.cpu = std::min(best.cpu, cpu_seconds() - cpu);
    }
    return best;
}

class Bench {
  public:
    Bench(int threads, std::string filter, DType type)
        : type_(type),
          device_(cpu::make_device(threads)),
          threads_(threads),
          filter_(std::move(filter)),
          pool_(device_->allocate(i64{3} << 30, "bench")),
          workspace_(device_->allocate(i64{64} << 20, "workspace")),
          context_{*device_, workspace_.view(DType::uint8, {workspace_.bytes()})} {}

    device::Context& context() { return context_; }
    // make() returns a view of the compute type; stat() returns one of fp32, for statistics and
    // gradients of parameters.
    View make(const Shape& shape) { return make(shape, type_); }
    View stat(const Shape& shape) { return make(shape, DType::fp32); }
    View make(const Shape& shape, DType dtype) {
        const View view = pool_.view(used_, dtype, shape);
        used_ += round_up(view.bytes(), 4096);
        const auto value = [](i64 i) { return static_cast<float>(i % 251 - 125) / 125; };
        for (i64 i = 0; dtype == DType::fp32 && i < view.numel(); ++i) {
            view.as<float>()[i] = value(i);
        }
        for (i64 i = 0; is_half(dtype) && i < view.numel(); ++i) {
            static_cast<u16*>(view.data)[i] =
                dtype == DType::bf16 ? bf16_from_fp32(value(i)) : fp16_from_fp32(value(i));
        }
        return view;
    }
    void reset() { used_ = 0; }
    bool wanted(const std::string& name) const { return name.find(filter_) != std::string::npos; }

    // `work`: FLOPs or bytes of one run.
    void report(const std::string& name, double work, const char* unit,
                const std::function<void()>& body) {
        if (!wanted(name)) return;
        const Time t = best_of(body);
        const double cpu = t.cpu / threads_;
        fmt::print("{:44} {:9.3f} ms {:7.1f} {} {:9.3f} ms cpu {:7.1f} {}\n", name, t.wall * 1e3,
                   work / t.wall / 1e9, unit, cpu * 1e3, work / cpu / 1e9, unit);
        std::fflush(stdout);
    }
    void flops(const std::string& name, double work, const std::function<void()>& body) {
        report(name, work, "GFLOP/s", body);
    }
    void bytes(const std::string& name, i64 work, const std::function<void()>& body) {
        report(name, static_cast<double>(work), "GB/s", body);
    }

    int threads() const { return threads_; }
    DType type() const { return type_; }
    i64 width() const { return size_of(type_); }  // bytes of an element

  private:
    DType type_;
    std::unique_ptr<device::Device> device_;
    int threads_;
    std::string filter_;
    device::Buffer pool_;
    device::Buffer workspace_;
    device::Context context_;
    i64 used_ = 0;
};

// ---- floors ------------------------------------------------------------------------------------

void floors(Bench& bench) {
    ThreadPool& pool = cpu::pool_of(bench.context());
    bench.reset();
    const i64 n = i64{1} << 26;
    const View x = bench.stat({n});
    const View y = bench.stat({n});
    bench.bytes("floor: copy (read + write)", 2 * n * 4, [&] {
        pool.run_ranges(n, 1 << 16, [&](i64 begin, i64 end, int) {
            std::memcpy(y.as<float>() + begin, x.as<float>() + begin,
                        static_cast<size_t>(end - begin) * 4);
        });
    });
    // A product whose operands stay in the L1 cache.
    bench.flops("floor: small product 60 x 64 x 64 in cache", 2.0 * 60 * 64 * 64 * 2000 * 16, [&] {
        pool.run(16, [&](i64 task, int) {
            float* const base = x.as<float>() + task * 65536;
            for (int i = 0; i < 2000; ++i) {
                cpu::vector_kernels().small_product(60, 64, 64, base, 64, 1, base + 8192, 64,
                                                    base + 16384, 64, false);
            }
        });
    });
}

// ---- matrix products ---------------------------------------------------------------------------

// Measures oneDNN's product of whole matrices: plain layouts, its own threads.
void whole_product(Bench& bench, const std::string& name, const cpu::Product& p, void* out) {
    if (!bench.wanted(name) || bench.type() == DType::fp16) return;
    using Dims = dnnl::memory::dims;
    const auto f32 = dnnl::memory::data_type::f32;
    const auto type = bench.type() == DType::bf16 ? dnnl::memory::data_type::bf16 : f32;
    dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
    const Dims a_stride = p.form == device::GemmForm::tn ? Dims{1, p.m} : Dims{p.k, 1};
    const Dims b_stride = p.form == device::GemmForm::nt ? Dims{1, p.k} : Dims{p.n, 1};
    const dnnl::memory::desc a({p.m, p.k}, type, a_stride);
    const dnnl::memory::desc b({p.k, p.n}, type, b_stride);
    const dnnl::memory::desc c({p.m, p.n}, p.c ? f32 : type, Dims{p.n, 1});
    bench.flops(name, 2.0 * static_cast<double>(p.m * p.n) * static_cast<double>(p.k), [&] {
        static const auto set_threads =
            reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
        if (set_threads) set_threads(bench.threads());
        static std::map<std::string, dnnl::matmul> made;
        if (!made.count(name)) {
            made[name] = dnnl::matmul(dnnl::matmul::primitive_desc({a, b, c}, engine));
        }
        made[name].execute(stream, {{DNNL_ARG_SRC, {a, engine, const_cast<void*>(p.a)}},
                                    {DNNL_ARG_WEIGHTS, {b, engine, const_cast<void*>(p.b)}},
                                    {DNNL_ARG_DST, {c, engine, p.c ? p.c : out}}});
        stream.wait();
        cpu::use_one_library_thread();
    });
}

void linear(Bench& bench, i64 n, i64 k, i64 m, device::Activation activation) {
    bench.reset();
    const View x = bench.make({n, k});
    const View w = bench.make({m, k});
    const View bias = bench.make({m});
    const View y = bench.make({n, m});
    const View pre = bench.make({n, m});
    const View dw = bench.stat({m, k});
    const View dbias = bench.stat({m});
    const double work = 2.0 * static_cast<double>(n * k) * static_cast<double>(m);
    const std::string shape = fmt::format("[{} x {}] x [{} x {}]^T", n, k, m, k);
    const bool active = activation != device::Activation::none;
    const bool head = m == V;
    using Form = device::GemmForm;
    bench.flops(fmt::format("linear_forward {}{}", shape, active ? " gelu" : ""), work, [&] {
        device::linear_forward(bench.context(),
                               {x, w, head ? View{} : bias, y, activation, active ? pre : View{}});
    });
    whole_product(bench, "  oneDNN linear_forward " + shape,
                  {.form = Form::nt, .m = n, .n = m, .k = k, .a = x.data, .b = w.data}, y.data);
    bench.flops("linear_backward_input " + shape, work, [&] {
        device::linear_backward_input(bench.context(), {y, w, x, device::Activation::none, {}});
    });
    whole_product(bench, "  oneDNN linear_backward_input " + shape,
                  {.form = Form::nn, .m = n, .n = k, .k = m, .a = y.data, .b = w.data}, x.data);
    bench.flops("linear_backward_weight " + shape, work, [&] {
        device::linear_backward_weight(bench.context(), {y, x, dw, head ? View{} : dbias, true});
    });
    whole_product(bench, "  oneDNN linear_backward_weight " + shape,
                  {Form::tn, m, k, n, y.data, x.data, dw.as<float>()}, nullptr);
}

// ---- attention ---------------------------------------------------------------------------------

void attention(Bench& bench, i64 batch, i64 length, double p) {
    bench.reset();
    const View qkv = bench.make({batch, length, 3 * H * D});
    const View dqkv = bench.make({batch, length, 3 * H * D});
    const View out = bench.make({batch, length, H * D});
    const View dout = bench.make({batch, length, H * D});
    const View lse = bench.stat({batch, H, length});
    const View ids = bench.make({batch}, DType::int64);
    device::Dropout dropout;
    dropout.p = p;
    dropout.sample_ids = ids;
    const std::string shape = fmt::format("B={} T={} p={}", batch, length, p);
    // (query, key) pairs under the causal mask; two products forward, five backward.
    const double pairs =
        static_cast<double>(batch * H) * static_cast<double>(length * (length + 1) / 2);
    bench.flops("attention_forward " + shape, pairs * 4 * D, [&] {
        device::attention_forward(bench.context(),
                                  {qkv, out, lse, H, H, D, 0.125, {}, {}, dropout});
    });
    bench.flops("attention_backward " + shape, pairs * 10 * D, [&] {
        device::attention_backward(bench.context(),
                                   {dout, qkv, out, lse, dqkv, H, H, D, 0.125, {}, {}, dropout});
    });
}

// ---- the rest ----------------------------------------------------------------------------------

void norms(Bench& bench, double p) {
    bench.reset();
    const Shape full{N, C};
    const View branch = bench.make(full), residual = bench.make(full), sum = bench.make(full);
    const View y = bench.make(full), dbranch = bench.make(full);
    const View weight = bench.make({C}), bias = bench.make({C});
    const View mean = bench.stat({N}), rstd = bench.stat({N});
    const View dweight = bench.stat({C}), dbias = bench.stat({C});
    const View ids = bench.make({B}, DType::int64);
    device::Dropout dropout;
    dropout.p = p;
    dropout.sample_ids = ids;
    const auto norm = device::Norm::layer_norm;
    bench.bytes(fmt::format("residual_norm_forward p={}", p), 4 * N * C * bench.width(), [&] {
        device::residual_norm_forward(bench.context(), {norm, 1e-5, branch, residual, dropout, sum,
                                                        weight, bias, y, mean, rstd});
    });
    const View no_branch = p > 0 ? dbranch : View{};
    bench.bytes(fmt::format("residual_norm_backward p={}", p),
                (p > 0 ? 5 : 4) * N * C * bench.width(), [&] {
                    device::residual_norm_backward(
                        bench.context(), {norm, y, branch, weight, mean, rstd, residual, sum,
                                          dropout, no_branch, dweight, dbias});
                });
}

void loss(Bench& bench) {
    bench.reset();
    const View logits = bench.make({head_rows, V});
    const View targets = bench.make({head_rows}, DType::int32);
    const View row_max = bench.stat({head_rows}), row_sum = bench.stat({head_rows});
    const View target_logit = bench.stat({head_rows}), weight = bench.stat({head_rows});
    bench.bytes("cross_entropy_stats", head_rows * V * bench.width(), [&] {
        device::cross_entropy_stats(bench.context(),
                                    {logits, targets, 0, V - 47, row_max, row_sum, target_logit});
    });
    bench.bytes("cross_entropy_backward", 2 * head_rows * V * bench.width(), [&] {
        device::cross_entropy_backward(bench.context(),
                                       {logits, targets, 0, V - 47, row_max, row_sum, weight, 1.0});
    });
}

void flat(Bench& bench) {
    bench.reset();
    const i64 n = i64{1} << 25;
    const View p = bench.stat({n}), g = bench.stat({n}), m = bench.stat({n}), v = bench.stat({n});
    const View w = bench.make({n});
    const View sum = bench.make({1}, DType::fp64);
    const bool halves = is_half(bench.type());
    const device::AdamWPart all{.size = n};
    bench.bytes("adamw", n * (7 * 4 + (halves ? 2 : 0)), [&] {
        const device::AdamW args{.master = p,
                                 .weight = halves ? w : View{},
                                 .grad = g,
                                 .m = m,
                                 .v = v,
                                 .parts = {&all, 1},
                                 .lr = 1e-6};
        device::adamw(bench.context(), args);
    });
    bench.bytes("sum_squares", n * 4, [&] { device::sum_squares(bench.context(), {g, sum}); });
    bench.bytes("fill", n * 4, [&] { device::fill(bench.context(), {g, 0.0}); });
    bench.bytes("scale", 2 * n * 4, [&] { device::scale(bench.context(), {g, 0.5}); });
}

void llama_block(Bench& bench) {
    bench.reset();
    const View x = bench.make({N, 2 * F}), y = bench.make({N, F}), dx = bench.make({N, 2 * F});
    for (const auto gate : {device::Activation::swiglu, device::Activation::geglu}) {
        const char* const name = gate == device::Activation::swiglu ? "swiglu" : "geglu";
        bench.bytes(fmt::format("gated_forward {}", name), 3 * N * F * bench.width(), [&] {
            device::gated_forward(bench.context(), {gate, x, y});
        });
        bench.bytes(fmt::format("gated_backward {}", name), 5 * N * F * bench.width(), [&] {
            device::gated_backward(bench.context(), {gate, y, x, dx});
        });
    }
    const View qkv = bench.make({B, T, 3 * H * D}), angles = bench.stat({T, D});
    const View positions = bench.make({B, T}, DType::int32);
    for (i64 i = 0; i < N; ++i) positions.as<i32>()[i] = static_cast<i32>(i % T);
    bench.bytes("rotary", 4 * N * H * D * bench.width(), [&] {
        device::rotary(bench.context(), {qkv, positions, angles, 2 * H, D, false});
    });
}

void embedding(Bench& bench) {
    bench.reset();
    const View tokens = bench.make({N}, DType::int32);
    for (i64 i = 0; i < N; ++i) tokens.as<i32>()[i] = static_cast<i32>(i * 7919 % 50257);
    const View positions = bench.make({N}, DType::int32);
    for (i64 i = 0; i < N; ++i) positions.as<i32>()[i] = static_cast<i32>(i % T);
    const View table = bench.make({V, C}), places = bench.make({T, C}), out = bench.make({N, C});
    const View dtable = bench.stat({V, C}), dplaces = bench.stat({T, C});
    bench.bytes("embedding_forward", 3 * N * C * bench.width(), [&] {
        device::embedding_forward(bench.context(), {tokens, table, 0, positions, places, out});
    });
    bench.bytes("embedding_backward", N * C * (bench.width() + 16), [&] {
        device::embedding_backward(bench.context(),
                                   {tokens, {}, out, dtable, 0, positions, {}, dplaces});
    });
}

}  // namespace

int main(int argc, char** argv) {
    const int threads = argc > 1 ? std::atoi(argv[1]) : available_cores();
    Bench bench(threads, argc > 2 ? argv[2] : "",
                argc > 3 ? dtype_from_name(argv[3]) : DType::fp32);
    fmt::print("{}, {}\n", bench.context().device.name(), name_of(bench.type()));
    using enum device::Activation;
    floors(bench);
    linear(bench, N, C, 3 * C, none);
    linear(bench, N, C, C, none);
    linear(bench, N, C, F, gelu_tanh);
    linear(bench, N, F, C, none);
    linear(bench, head_rows, C, V, none);
    for (const double p : {0.0, 0.1}) attention(bench, B, T, p);
    attention(bench, 1, 1024, 0.0);
    for (const double p : {0.0, 0.1}) norms(bench, p);
    loss(bench);
    llama_block(bench);
    flat(bench);
    embedding(bench);
    return 0;
}
