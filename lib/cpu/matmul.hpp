// SPDX-License-Identifier: Apache-2.0
// Matrix products in tiles of the output. The order of every sum depends on the shape only, so that
// the bits do not depend on the thread count. Sums are fp32 for every operand type, and a result is
// rounded to 16 bits once, after bias and activation. Products of bf16 numbers are exact in fp32.
// So the results of two implementations or processors differ only by the order of the sum, and for
// denormal numbers, which the bf16 instructions of x86 treat as zero.
//
// The workers first pack a chunk of both operands into shared scratch memory, and then multiply the
// packed operands (vector/packed_product.hpp; bf16 with AMX: vector/x86/amx.cpp). Packing widens
// fp16 to fp32, and also bf16 on processors without bf16 instructions. oneDNN computes fp32 with
// AVX-512. Its tiles are separate single-threaded products, which pack both operands for every
// tile.
#pragma once

#include <memory>

#include "cpu/cpu_device.hpp"
#include "device/gemm_form.hpp"

namespace lm::cpu {

using device::GemmForm;

// cuda::FusedProduct has the same first members. There is no common base, because all callers use
// designated initializers, which cannot name the members of a base.
struct Product {
    GemmForm form = GemmForm::nt;
    i64 m = 0;
    i64 n = 0;
    i64 k = 0;
    const void* a = nullptr;   // `type`, contiguous, shape by `form`
    const void* b = nullptr;   // `type`, contiguous, shape by `form`
    float* c = nullptr;        // [m, n] fp32, contiguous; nullptr: tiles are in scratch memory
    bool accumulate = false;   // add to c
    DType type = DType::fp32;  // fp32, bf16 or fp16
};

// A computed tile of the result, passed to the function that finishes it (bias, activation,
// rounding) while it is in the cache. Element (i, j) of the whole result is
// values[(i - row_begin) * stride + j - col_begin].
struct Tile {
    i64 row_begin, row_end, col_begin, col_end;
    float* values = nullptr;
    i64 stride = 0;
    float* row(i64 i) const { return values + (i - row_begin) * stride; }
    i64 width() const { return col_end - col_begin; }
};
constexpr i64 max_tile_cols = 512;  // cost::product_tile_cols
// A reference to the function that finishes a tile. A TileRef allocates no memory.
class TileRef {
  public:
    template <typename F>
    TileRef(const F& f)  // NOLINT(google-explicit-constructor): lambdas convert at the call
        : object_(&f),
          call_([](const void* object, const Tile& t) { (*static_cast<const F*>(object))(t); }) {}
    void operator()(const Tile& tile) const { call_(object_, tile); }

  private:
    const void* object_;
    void (*call_)(const void*, const Tile&);
};

enum class ProductCode { best, packed, library };

class LibraryProduct;

class Matmul {
  public:
    // `best`: the faster code for each operand type on this processor. oneDNN never computes fp16.
    Matmul(int n_workers, ProductCode code);
    ~Matmul();
    // Computes the product and calls `finish` for every tile, on the worker that completed it.
    void run(device::Context& context, const Product& product, TileRef finish);

  private:
    bool library_fp32_ = false, library_bf16_ = false;
    std::unique_ptr<LibraryProduct> library_;  // nullptr: not used on this processor
};

// Makes oneDNN's OpenMP runtime, if it has one, use a single thread when called from this thread.
void use_one_library_thread();

}  // namespace lm::cpu
