// SPDX-License-Identifier: Apache-2.0
// Tiles of matrix products, computed by single-threaded oneDNN primitives, which are created once
// for each tile shape.
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
