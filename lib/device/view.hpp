// SPDX-License-Identifier: Apache-2.0
// A View is a typed, shaped, contiguous range of device memory. A Buffer (device/device.hpp) owns
// the memory.
#pragma once

#include <span>

#include "base/dtype.hpp"
#include "base/shape.hpp"

namespace lm::device {

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
    static constexpr DType value = DType::fp32;
};
template <>
struct DTypeOf<double> {
    static constexpr DType value = DType::fp64;
};
template <>
struct DTypeOf<i32> {
    static constexpr DType value = DType::int32;
};
template <>
struct DTypeOf<i64> {
    static constexpr DType value = DType::int64;
};
template <>
struct DTypeOf<u8> {
    static constexpr DType value = DType::uint8;
};
template <>
struct DTypeOf<u16> {
    static constexpr DType value = DType::uint16;
};
template <>
struct DTypeOf<Bf16> {
    static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<Fp16> {
    static constexpr DType value = DType::fp16;
};
template <>
struct DTypeOf<std::byte> {
    static constexpr DType value = DType::uint8;
};

struct View {
    void* data = nullptr;  // nullptr: no view, for optional arguments
    DType dtype = DType::fp32;
    Shape shape;

    explicit operator bool() const { return data != nullptr; }
    i64 numel() const { return shape.numel(); }
    i64 bytes() const { return numel() * size_of(dtype); }
    i64 operator[](int dim) const { return shape[dim]; }

    // Returns a pointer to the elements as T. Throws Error(bug) when the view has another dtype.
    // u16 stands for every dtype of 2 bytes.
    // The pointer is valid on the device that owns the memory.
    template <typename T>
    T* as() const {
        check_dtype(DTypeOf<std::remove_const_t<T>>::value);
        return static_cast<T*>(data);
    }
    template <typename T>
    std::span<T> span() const {
        return {as<T>(), static_cast<size_t>(numel())};
    }

    // reshape() and rows() return a view of the memory of this view. reshape() keeps the number of
    // elements. rows() returns the rows [begin, end) of dimension 0.
    View reshape(const Shape& new_shape) const;
    View rows(i64 begin, i64 end) const;
    View flat() const { return reshape({numel()}); }

  private:
    void check_dtype(DType wanted) const;
};

}  // namespace lm::device
