// SPDX-License-Identifier: Apache-2.0
// Access to rows of activations and weights as fp32, whatever their storage type. A row of fp32 is
// accessed in place; a 16-bit row is widened into scratch memory, and rounded when it is stored.
#pragma once

#include "cpu/vector/vector_kernels.hpp"
#include "device/view.hpp"

namespace lm::cpu {

// Operations whose scratch memory is on the stack process rows in pieces of at most this many
// elements.
constexpr i64 row_piece = 1024;

inline bool is_fast_type(DType type) {
    return type == DType::fp32 || is_half(type);
}

inline void widen(float* y, const void* x, DType type, i64 n) {
    if (type == DType::bf16) return vector_kernels().widen_bf16(y, static_cast<const Bf16*>(x), n);
    vector_kernels().widen_fp16(y, static_cast<const Fp16*>(x), n);
}
inline void narrow(void* y, DType type, const float* x, i64 n) {
    if (type == DType::bf16) return vector_kernels().narrow_bf16(static_cast<Bf16*>(y), x, n);
    vector_kernels().narrow_fp16(static_cast<Fp16*>(y), x, n);
}

// Rounds x to the values that a later read from 16-bit storage returns.
inline void round_row(float* x, DType type, i64 n) {
    u16 stored[256];
    for (i64 i = 0; i < n; i += 256) {
        const i64 count = n - i < 256 ? n - i : 256;
        narrow(stored, type, x + i, count);
        widen(x + i, stored, type, count);
    }
}

// An input of an operation. Offsets and lengths are in elements. `scratch` must have room for the
// row when the type is 16-bit; otherwise it is not accessed.
class Source {
  public:
    Source() = default;
    // view: [...] fp32, bf16 or fp16, or none
    Source(const device::View& view)  // NOLINT(google-explicit-constructor): views convert
        : data_(static_cast<const std::byte*>(view.data)), type_(view.dtype) {}
    explicit operator bool() const { return data_ != nullptr; }
    bool half() const { return is_half(type_); }
    // Returns the row as fp32; nullptr when the view is none.
    const float* row(i64 offset, i64 n, float* scratch) const {
        if (!data_) return nullptr;
        if (!half()) return reinterpret_cast<const float*>(data_) + offset;
        widen(scratch, data_ + 2 * offset, type_, n);
        return scratch;
    }
    // Writes y[0..n) = factor * row.
    void copy(i64 offset, float factor, float* y, i64 n) const {
        const float* const x = row(offset, n, y);
        if (x != y || factor != 1.0F) vector_kernels().scaled_copy(y, x, factor, n);
    }

  private:
    const std::byte* data_ = nullptr;
    DType type_ = DType::fp32;
};

// An output of an operation: compute into row(), then call store().
class Target {
  public:
    Target() = default;
    // view: [...] fp32, bf16 or fp16, or none
    Target(const device::View& view)  // NOLINT(google-explicit-constructor)
        : data_(static_cast<std::byte*>(view.data)), type_(view.dtype) {}
    explicit operator bool() const { return data_ != nullptr; }
    bool half() const { return is_half(type_); }
    float* row(i64 offset, float* scratch) const {
        if (!data_) return nullptr;
        return half() ? scratch : reinterpret_cast<float*>(data_) + offset;
    }
    void store(i64 offset, const float* row, i64 n) const {
        if (data_ && half()) narrow(data_ + 2 * offset, type_, row, n);
    }
    // Writes factor * x to the target. May overwrite x.
    void put(i64 offset, float factor, float* x, i64 n) const {
        float* const y = row(offset, x);
        if (y != x || factor != 1.0F) vector_kernels().scaled_copy(y, x, factor, n);
        store(offset, y, n);
    }

  private:
    std::byte* data_ = nullptr;
    DType type_ = DType::fp32;
};

// Calls body(begin, length) for consecutive ranges of [0, n) of at most row_piece elements.
template <typename Body>
void for_pieces(i64 n, const Body& body) {
    for (i64 begin = 0; begin < n; begin += row_piece) {
        body(begin, n - begin < row_piece ? n - begin : row_piece);
    }
}

}  // namespace lm::cpu
