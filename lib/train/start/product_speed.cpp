// SPDX-License-Identifier: Apache-2.0
#include "train/start/product_speed.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/rng.hpp"
#include "config/presets.hpp"
#include "device/ops.hpp"
#include "train/start/open_device.hpp"
#include "train/step/gemm_tuning.hpp"

namespace lm::train {
namespace {

constexpr double measure_s = 0.1;

// Fills `view`, [...] bf16|fp16|fp32, with numbers whose sign and mantissa are random and whose
// exponent is 2^-6. A GPU that multiplies zeros draws less power, so it would be throttled less
// than in a training.
void fill(device::Device& device, const device::View& view) {
    const bool wide = view.dtype == DType::fp32;
    const u32 mantissa = wide ? 0x807fffff : view.dtype == DType::bf16 ? 0x807f : 0x83ff;
    const u32 exponent = wide ? 0x3c800000 : view.dtype == DType::bf16 ? 0x3c80 : 0x2400;
    const device::View flat = view.flat();
    const i64 piece = std::min<i64>(flat[0], 1 << 16);
    std::vector<u32> words(static_cast<size_t>(piece));
    for (size_t i = 0; i < words.size(); ++i) {
        words[i] = (static_cast<u32>(mix(i, stream_key(0, "node check"))) & mantissa) | exponent;
    }
    std::vector<u16> halves(words.begin(), words.end());
    const void* const host = wide ? static_cast<const void*>(words.data()) : halves.data();
    for (i64 begin = 0; begin < flat[0]; begin += piece) {
        device.copy_from_host(flat.rows(begin, std::min(begin + piece, flat[0])), host);
    }
}

double operations_of(const LinearShape& shape) {
    return 2.0 * static_cast<double>(shape.rows) * static_cast<double>(shape.inputs) *
           static_cast<double>(shape.outputs);
}

}  // namespace

double product_tflops(device::Device& device, const TrainerConfig& config, i64 tp_rank) {
    const std::vector<LinearShape> shapes = linear_shapes(config, tp_rank);
    const LinearShape shape = *std::ranges::max_element(shapes, {}, operations_of);
    const DType type = config.precision.weights;
    const auto allocate = [&](i64 rows, i64 columns) {
        return device.allocate(rows * columns * size_of(type), "node check");
    };
    const device::Buffer x = allocate(shape.rows, shape.inputs);
    const device::Buffer w = allocate(shape.outputs, shape.inputs);
    const device::Buffer y = allocate(shape.rows, shape.outputs);
    const device::Buffer workspace = device.allocate(memory_plan(config).workspace, "node check");
    const device::LinearForward product{.x = x.view(type, {shape.rows, shape.inputs}),
                                        .w = w.view(type, {shape.outputs, shape.inputs}),
                                        .y = y.view(type, {shape.rows, shape.outputs})};
    fill(device, product.x);
    fill(device, product.w);
    device::Context context{device, workspace.view(DType::uint8, {workspace.bytes()})};
    device::linear_forward(context, product);  // loads the kernel
    device.synchronize();
    double n_products = 0;
    const Stopwatch watch;
    for (int n = 1; watch.elapsed_s() < measure_s; n *= 2) {
        for (int i = 0; i < n; ++i) device::linear_forward(context, product);
        device.synchronize();
        n_products += n;
    }
    return n_products * operations_of(shape) / watch.elapsed_s() * 1e-12;
}

std::vector<double> product_tflops_of_gpus() {
    std::vector<double> speeds;
    if (!has_driver()) return speeds;
    TrainerConfig config{.model = config::preset_named("llama-7b").model,
                         .precision = {.weights = DType::bf16},
                         .cuda = true};
    config.model.resolve();
    try {
        const int n_gpus = cuda_plugin().count_devices();
        for (int i = 0; i < n_gpus; ++i) speeds.push_back(0);
        for (int i = 0; i < n_gpus; ++i) {
            const std::unique_ptr<device::Device> device = cuda_plugin().open_device(i);
            speeds[static_cast<size_t>(i)] = product_tflops(*device, config);
        }
    } catch (const Error& error) {
        warn("{}: at least one GPU of this host was not measured", error.what());
    }
    return speeds;
}

}  // namespace lm::train
