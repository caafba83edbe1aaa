// SPDX-License-Identifier: Apache-2.0
#include "ckpt/format/elements.hpp"

#include <cstring>

#include "base/error.hpp"

namespace lm::ckpt {
namespace {

struct Float32 {
    using Stored = float;
    static float load(float value) { return value; }
    static float store(float value) { return value; }
};
struct Float64 {
    using Stored = double;
    static float load(double value) { return static_cast<float>(value); }
};
struct BFloat16 {
    using Stored = u16;
    static float load(u16 bits) { return fp32_from_bf16(bits); }
    static u16 store(float value) { return bf16_from_fp32(value); }
};
struct Float16 {
    using Stored = u16;
    static float load(u16 bits) { return fp32_from_fp16(bits); }
    static u16 store(float value) { return fp16_from_fp32(value); }
};

template <typename From, typename To>
void convert_each(const std::byte* from, std::byte* to, i64 n) {
    for (i64 i = 0; i < n; ++i) {
        typename From::Stored in;
        std::memcpy(&in, from + i * static_cast<i64>(sizeof in), sizeof in);
        const typename To::Stored out = To::store(From::load(in));
        std::memcpy(to + i * static_cast<i64>(sizeof out), &out, sizeof out);
    }
}

template <typename From>
void convert_from(const std::byte* from, std::byte* to, DType to_type, i64 n) {
    switch (to_type) {
        case DType::fp32:
            return convert_each<From, Float32>(from, to, n);
        case DType::bf16:
            return convert_each<From, BFloat16>(from, to, n);
        case DType::fp16:
            return convert_each<From, Float16>(from, to, n);
        case DType::uint8:
        case DType::uint16:
        case DType::int32:
        case DType::int64:
        case DType::fp64:
            break;
    }
    LM_CHECK(false, "expected a conversion to fp32, bf16 or fp16, got {}", name_of(to_type));
}

template <typename Word>
i64 count_words(std::span<const std::byte> bytes, Word exponent) {
    i64 count = 0;
    for (size_t at = 0; at + sizeof(Word) <= bytes.size(); at += sizeof(Word)) {
        Word bits = 0;
        std::memcpy(&bits, bytes.data() + at, sizeof bits);
        count += (bits & exponent) == exponent;
    }
    return count;
}

}  // namespace

void convert_elements(const void* from, DType from_type, void* to, DType to_type, i64 n) {
    if (from_type == to_type) {
        std::memcpy(to, from, static_cast<size_t>(n * size_of(from_type)));
        return;
    }
    const auto* in = static_cast<const std::byte*>(from);
    auto* out = static_cast<std::byte*>(to);
    switch (from_type) {
        case DType::fp32:
            return convert_from<Float32>(in, out, to_type, n);
        case DType::bf16:
            return convert_from<BFloat16>(in, out, to_type, n);
        case DType::fp16:
            return convert_from<Float16>(in, out, to_type, n);
        case DType::fp64:
            return convert_from<Float64>(in, out, to_type, n);
        case DType::uint8:
        case DType::uint16:
        case DType::int32:
        case DType::int64:
            break;
    }
    LM_CHECK(false, "expected a conversion from a floating-point type, got {}", name_of(from_type));
}

i64 count_non_finite(std::span<const std::byte> bytes, DType dtype) {
    switch (dtype) {
        case DType::fp32:
            return count_words<u32>(bytes, 0x7f800000U);
        case DType::bf16:
            return count_words<u16>(bytes, 0x7f80U);
        case DType::fp16:
            return count_words<u16>(bytes, 0x7c00U);
        case DType::uint8:
        case DType::uint16:
        case DType::int32:
        case DType::int64:
        case DType::fp64:
            break;
    }
    bug(__FILE__, __LINE__, "expected fp32, bf16 or fp16, got {}", name_of(dtype));
}

}  // namespace lm::ckpt
