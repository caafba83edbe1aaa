// SPDX-License-Identifier: Apache-2.0
#include "model/init.hpp"

#include <algorithm>

#include "base/rng.hpp"

namespace lm::model {
namespace {

// Draws the elements of rows [first_row, end_row) of a tensor's box by their global indices.
void draw_rows(const spec::TensorSpec& tensor, const spec::Box& box, u64 key, i64 first_row,
               i64 end_row, std::span<float> out) {
    const i64 global_cols = tensor.shape.rank() == 2 ? tensor.shape[1] : 1;
    const i64 first_col = tensor.shape.rank() == 2 ? box.start[1] : 0;
    const i64 cols = tensor.shape.rank() == 2 ? box.end[1] - box.start[1] : 1;
    size_t at = 0;
    for (i64 row = first_row; row < end_row; ++row) {
        const i64 start = (box.start[0] + row) * global_cols + first_col;
        for (i64 col = 0; col < cols; ++col) {
            out[at++] =
                static_cast<float>(tensor.init_std * normal(key, static_cast<u64>(start + col)));
        }
    }
}

std::vector<float> initial_values(const spec::TensorSpec& tensor, const spec::Box& box,
                                  ThreadPool& pool, u64 seed) {
    const Shape shape = box.shape();
    std::vector<float> values(static_cast<size_t>(shape.numel()));
    if (tensor.init != spec::Init::normal) {
        std::ranges::fill(values, tensor.init == spec::Init::ones ? 1.0F : 0.0F);
        return values;
    }
    const u64 key = stream_key(seed, tensor.name);
    const i64 row_size = shape[0] == 0 ? 0 : shape.numel() / shape[0];
    pool.run_ranges(shape[0], 64, [&](i64 begin, i64 end, int) {
        draw_rows(tensor, box, key, begin, end,
                  std::span(values).subspan(static_cast<size_t>(begin * row_size),
                                            static_cast<size_t>((end - begin) * row_size)));
    });
    return values;
}

}  // namespace

void initialize_weights(const ParamMap& map, device::Device& device, ThreadPool& pool, u64 seed,
                        const View& weights) {
    for (const spec::LocalTensor& local : map.layout().tensors) {
        const std::vector<float> values = initial_values(map.spec_of(local), local.box, pool, seed);
        const View held = map.view_of(local, weights);
        // Padding rows follow the box's rows and stay zero.
        const View rows = held.rows(0, local.box.shape()[0]);
        if (!is_half(rows.dtype)) {
            device.copy_from_host(rows, values.data());
            continue;
        }
        std::vector<u16> bits(values.size());
        std::ranges::transform(values, bits.begin(),
                               rows.dtype == DType::bf16 ? bf16_from_fp32 : fp16_from_fp32);
        device.copy_from_host(rows, bits.data());
    }
}

}  // namespace lm::model
