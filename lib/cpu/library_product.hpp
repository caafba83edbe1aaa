// SPDX-License-Identifier: Apache-2.0
// Tiles of matrix products, computed by single-threaded oneDNN primitives, which are created once
// for each tile shape.
//
// Why there are products of our own (matmul.cpp) next to oneDNN's. oneDNN is the better library for
// a whole product; the trainer needs tiles of one.
//
// - Bits. A resumed run must be bitwise the run that was never stopped, with another number of
//   threads, too. oneDNN divides a product by the number of its threads, and may divide K. So each
//   tile is a separate single-threaded primitive, and then it packs both operands again for every
//   tile: on Zen 3 77 to 83 GFLOP/s instead of 93, and 39 for a gradient of a weight. Our code
//   packs once for all workers and reaches 89 to 91.
// - What follows the product. Bias, activation, rounding and the bias' gradient read a tile while
//   it is in the cache (TileRef). oneDNN's post-operations have some of them, not those of
//   backward.
// - 16 bits. On processors without bf16 instructions, packing widens the operands to fp32 once, and
//   the fp32 kernel does the rest.
//
// For fp32 with AVX-512 both codes multiply at the same rate, but oneDNN's tiles share no packed
// memory. Where the threads of a rank have several third-level caches (EPYC), a line that another
// thread packed takes 166 ns instead of 26, and a step with the own code 4.7 s instead of 4.05,
// with oneDNN's 4.1 in both cases (bench/RESULTS.md). So it computes these tiles. The choice
// depends on the processor only, never on shapes of a run or on measurements at the start, so that
// two equal machines compute equal bits.
#pragma once

#include "cpu/product_tiles.hpp"

namespace lm::cpu {

class LibraryProduct {
  public:
    explicit LibraryProduct(int n_workers);
    ~LibraryProduct();
    // Computes the product in tiles and calls `finish` for every tile, on the tile's worker. The
    // first product of a shape creates the primitives for this shape.
    void run(device::Context& context, const Product& product, TileRef finish);

  private:
    struct Primitives;
    std::unique_ptr<Primitives> primitives_;
};

}  // namespace lm::cpu
