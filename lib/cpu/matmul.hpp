// SPDX-License-Identifier: Apache-2.0
// Matrix products by oneDNN, executed single-threaded by each worker of our pool on output tiles
// whose cut depends on the shape alone, so that any number of threads gives the same bits.
// Primitives are made once per tile shape and kept.
#pragma once

#include <memory>

#include "cpu/cpu_device.hpp"

namespace lm::cpu {

// c[rows, cols] = op(a) op(b), with `depth` summed over:
// x_wt: a [rows, depth], b [cols, depth]; x_w: a [rows, depth], b [depth, cols];
// xt_w: a [depth, rows], b [depth, cols].
enum class Form { x_wt, x_w, xt_w };

struct Product {
    Form form = Form::x_wt;
    i64 rows = 0;
    i64 cols = 0;
    i64 depth = 0;
    const float* a = nullptr;
    const float* b = nullptr;
    float* c = nullptr;  // contiguous, as a and b
    bool accumulate = false;
};

// What is done on a tile of c right after it is computed.
struct Tile {
    i64 row_begin, row_end, col_begin, col_end;
};
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

// One primitive per tile shape, one stream and set of memory objects per worker.
class MatmulCache {
  public:
    explicit MatmulCache(int n_workers);
    ~MatmulCache();
    // Makes the primitives of this product without running it; pointers are not looked at.
    void prepare(const Product& product);
    void run(device::Context& context, const Product& product, TileRef finish);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// Tells the OpenMP runtime that oneDNN uses, if any, that this thread works alone.
void use_one_library_thread();

}  // namespace lm::cpu
