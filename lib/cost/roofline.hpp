// SPDX-License-Identifier: Apache-2.0
// The time of single operations on a GPU and of collectives between GPUs.
#pragma once

#include "cost/hardware.hpp"

namespace lm::cost {

// Returns the seconds of the product of an [m, k] with a [k, n] matrix: the time of its 2 m n k
// operations, or of its reads and writes, whichever is larger. An SM computes a tile of 256 x 128
// elements, so the last wave of tiles leaves SMs without work. A library that chooses among tile
// sizes loses less than that, so the rate is multiplied by the square root of the used share of
// these tiles, at least 0.3. The start and end of a tile take the time of 100 values of k.
double product_seconds(const Hardware& gpu, DType dtype, double m, double n, double k);

// Returns the seconds of reading and writing `bytes` of the GPU's memory.
double stream_seconds(const Hardware& gpu, double bytes);

// The ranks of a collective, and their share of the links.
struct Ring {
    double n = 1;         // ranks
    bool in_node = true;  // all ranks are in one node
    double sharing = 1;   // groups that use the network of a node at the same time
};

// Returns the seconds of a reduce-scatter or an all-gather of `bytes` (all parts together) on a
// ring: (n - 1) / n of the bytes pass each link, in n - 1 steps (Thakur et al. 2005, "Optimization
// of collective communication operations in MPICH", section 4). An all-reduce takes twice the time.
double ring_seconds(const Hardware& gpu, const Ring& ring, double bytes);

}  // namespace lm::cost
