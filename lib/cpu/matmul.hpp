// SPDX-License-Identifier: Apache-2.0
// Matrix products in tiles of the output. The tiles depend on the shape only, and one worker
// computes a tile, so that the bits do not depend on the thread count. A tile is computed by the
// packed product of vector/product.hpp or by a single-threaded oneDNN primitive, which is created
// once for each tile shape. Sums are fp32 for every operand type, and a result is rounded to 16
// bits once, after bias and activation. Products of bf16 numbers are exact in fp32, so that
// implementations and processors differ only in the order of the sum. The packed product always
// computes fp16, and widens it while packing.
//
// Why not oneDNN alone: tiles must be small enough for 2 to 64 threads to share them. Without
// AVX-512, oneDNN 2.6 does not pack the operands of such tiles, and loses up to half of its speed
// (bench/RESULTS.md, CPU ops).
#pragma once

#include <memory>

#include "cpu/cpu_device.hpp"
#include "device/gemm_form.hpp"

namespace lm::cpu {

using device::GemmForm;

// cuda::FusedProduct has the same first members. There is no common base: all callers use
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
constexpr i64 max_tile_cols = 512;
// A reference to the function that finishes a tile. It allocates no memory.
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

enum class ProductCode { packed, one_dnn };
// Returns the faster code for fp32 on this processor: the packed product or oneDNN.
ProductCode best_product_code();
// Returns true when oneDNN is fast for this operand type on this processor.
bool is_fast_in_library(DType operands);

class Matmul {
  public:
    Matmul(int n_workers, ProductCode code);
    ~Matmul();
    // Computes the product and calls `finish` for every tile, on the tile's worker. The first
    // product of a shape creates oneDNN's primitives for this shape.
    void run(device::Context& context, const Product& product, TileRef finish);

  private:
    struct Library;
    std::unique_ptr<Library> library_;  // with ProductCode::one_dnn
};

// Makes oneDNN's OpenMP runtime, if it has one, use a single thread when called from this thread.
void use_one_library_thread();

}  // namespace lm::cpu
