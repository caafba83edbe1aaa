// SPDX-License-Identifier: Apache-2.0
// Matrix products on output tiles whose cut depends on the shape alone, one worker per tile, so
// that any number of threads gives the same bits. A tile is computed by our own packed product or
// by a single-threaded oneDNN primitive, made once per tile shape and kept. Sums are fp32 whatever
// the type of the operands, and a result is rounded to 16 bits once, after bias and activation:
// products of bf16 numbers are exact in fp32, so that only the order of the sum tells codes and
// processors apart. fp16 always goes through our own product, which widens it while packing.
//
// Why own code where a library exists: for tiles of a size that 2 to 64 threads can share, oneDNN
// 2.6 without AVX-512 takes its path without packing and loses up to half of its speed (measured in
// bench/RESULTS.md, CPU ops). With AVX-512 it has another implementation, which does not.
#pragma once

#include <memory>

#include "cpu/cpu_device.hpp"

namespace lm::cpu {

// c[rows, cols] = op(a) op(b), with `depth` summed over:
// x_wt: a [rows, depth], b [cols, depth]; x_w: a [rows, depth], b [depth, cols];
// xt_w: a [depth, rows], b [depth, cols].
enum class Form { nt, nn, tn };

struct Product {
    Form form = Form::nt;
    i64 m = 0;
    i64 n = 0;
    i64 k = 0;
    const void* a = nullptr;  // of `type`
    const void* b = nullptr;
    float* c = nullptr;  // contiguous, as a and b; none: each tile is made in scratch memory
    bool accumulate = false;
    DType type = DType::fp32;  // or bf16, fp16
};

// What is done on a tile of the result right after it is computed: element (i, j) of the whole is
// at values[(i - row_begin) * stride + j - col_begin].
struct Tile {
    i64 row_begin, row_end, col_begin, col_end;
    float* values = nullptr;
    i64 stride = 0;
    float* row(i64 i) const { return values + (i - row_begin) * stride; }
    i64 width() const { return col_end - col_begin; }
};
constexpr i64 most_tile_cols = 512;
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

enum class ProductCode { own, one_dnn };
ProductCode best_product_code();   // of this processor
bool library_has(DType operands);  // whether oneDNN multiplies these fast on this processor

class Matmul {
  public:
    Matmul(int n_workers, ProductCode code);
    ~Matmul();
    // The first product of a shape makes oneDNN's primitives for it.
    void run(device::Context& context, const Product& product, TileRef finish);

  private:
    struct Library;
    std::unique_ptr<Library> library_;  // of ProductCode::one_dnn
};

// Tells the OpenMP runtime that oneDNN uses, if any, that this thread works alone.
void use_one_library_thread();

}  // namespace lm::cpu
