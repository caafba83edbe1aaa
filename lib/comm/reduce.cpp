// SPDX-License-Identifier: Apache-2.0
#include "comm/reduce.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace lm::comm {
namespace {

// Plain, Bf16 and Fp16 each describe a dtype: Stored is the type in memory, Value the type of the
// sums, load() and store() convert between them.
template <typename T>
struct Plain {
    using Stored = T;
    using Value = T;
    static T load(T x) { return x; }
    static T store(T x) { return x; }
};
struct Bf16 {
    using Stored = u16;
    using Value = float;
    static float load(u16 x) { return fp32_from_bf16(x); }
    static u16 store(float x) { return bf16_from_fp32(x); }
};
struct Fp16 {
    using Stored = u16;
    using Value = float;
    static float load(u16 x) { return fp32_from_fp16(x); }
    static u16 store(float x) { return fp16_from_fp32(x); }
};

struct Sum {
    template <typename T>
    static T of(T a, T b) {
        if constexpr (std::is_integral_v<T>) {  // integers wrap around, as in hardware
            using U = std::make_unsigned_t<T>;
            return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
        } else {
            return a + b;
        }
    }
};
struct Max {
    template <typename T>
    static T of(T a, T b) {
        return b > a || b != b ? b : a;  // b != b: NaN replaces a number; no number replaces NaN
    }
};

template <typename Element, typename Op>
void reduce_block_as(std::span<const void* const> inputs, i64 offset, i64 n,
                     typename Element::Stored* out) {
    using Stored = typename Element::Stored;
    typename Element::Value sums[reduce_block];
    const auto* first = static_cast<const Stored*>(inputs[0]) + offset;
    for (i64 i = 0; i < n; ++i) sums[i] = Element::load(first[i]);
    for (const void* input : inputs.subspan(1)) {
        const auto* x = static_cast<const Stored*>(input) + offset;
        for (i64 i = 0; i < n; ++i) sums[i] = Op::of(sums[i], Element::load(x[i]));
    }
    for (i64 i = 0; i < n; ++i) out[i] = Element::store(sums[i]);
}

template <typename Element, typename Op>
void reduce_as(std::span<const void* const> inputs, i64 offset, i64 n, void* out) {
    auto* const target = static_cast<typename Element::Stored*>(out);
    for (i64 at = 0; at < n; at += reduce_block) {
        reduce_block_as<Element, Op>(inputs, offset + at, std::min(reduce_block, n - at),
                                     target + at);
    }
}

template <typename Element>
void reduce_as(Reduction reduction, std::span<const void* const> inputs, i64 offset, i64 n,
               void* out) {
    if (reduction == Reduction::sum) return reduce_as<Element, Sum>(inputs, offset, n, out);
    reduce_as<Element, Max>(inputs, offset, n, out);
}

}  // namespace

void reduce(DType dtype, Reduction reduction, std::span<const void* const> inputs, i64 offset,
            i64 n, void* out) {
    switch (dtype) {
        case DType::fp32:
            return reduce_as<Plain<float>>(reduction, inputs, offset, n, out);
        case DType::fp64:
            return reduce_as<Plain<double>>(reduction, inputs, offset, n, out);
        case DType::int32:
            return reduce_as<Plain<i32>>(reduction, inputs, offset, n, out);
        case DType::int64:
            return reduce_as<Plain<i64>>(reduction, inputs, offset, n, out);
        case DType::bf16:
            return reduce_as<Bf16>(reduction, inputs, offset, n, out);
        case DType::fp16:
            return reduce_as<Fp16>(reduction, inputs, offset, n, out);
        case DType::uint8:
        case DType::uint16:
            break;
    }
    LM_CHECK(false, "expected a type that can be reduced, got {}", lm::name_of(dtype));
}

}  // namespace lm::comm
