// SPDX-License-Identifier: Apache-2.0
// The time of single operations on a GPU and of collectives between GPUs.
#pragma once

#include "cost/hardware.hpp"

namespace lm::cost {

// Returns the seconds of the product of an [m, k] with a [k, n] matrix: the time of its 2 m n k
// operations, or of its reads and writes, whichever is larger. An SM computes a tile of 256 x 128
// elements, so the last wave of tiles leaves SMs without work. A library that chooses among tile
// sizes loses less, so the rate is multiplied only by the square root of the used share of these
// tiles, at least 0.3. The start and the end of a tile take as long as 100 steps of the sum over k.
double product_seconds(const Hardware& gpu, DType dtype, double m, double n, double k);

// Returns the seconds of reading and writing `bytes` of the GPU's memory.
double stream_seconds(const Hardware& gpu, double bytes);

// The ranks of a collective, and their share of the links.
struct RankGroup {
    double n = 1;         // ranks
    double per_node = 1;  // ranks in a node; n or more: all ranks are in one node
    double sharing = 1;   // groups that use the network of a node at the same time
    bool in_node() const { return per_node >= n; }
    double nodes() const { return in_node() ? 1 : n / per_node; }
};

// Returns the bytes per second that a collective of the group moves through its slowest link. In a
// node, this is a GPU's link. Between nodes, the group shares the network with the other groups of
// its nodes, and uses at most one network link (rail) for each of its ranks in a node.
double link_rate(const Hardware& gpu, const RankGroup& group);

// Returns the seconds of a reduce-scatter or an all-gather of `bytes` (all parts together) on a
// ring: (n - 1) / n of the bytes pass each link, in n - 1 steps (Thakur et al. 2005, "Optimization
// of collective communication operations in MPICH", section 4). A ring enters each node once.
double ring_seconds(const Hardware& gpu, const RankGroup& group, double bytes);

// Returns the seconds of an all-reduce of `bytes` with the algorithm that is faster for this size,
// as NCCL chooses it. A ring takes twice ring_seconds(). Double binary trees between nodes, with a
// chain in each node, have 2 (log2(nodes) + ranks in a node - 1) steps instead of 2 (n - 1), but
// reach 0.92 of the bandwidth and send all bytes twice (NCCL 2.28, src/graph/tuning.cc; Sanders,
// Speck and Traeff 2009, "Two-tree algorithms for full bandwidth broadcast, reduction and scan").
double all_reduce_seconds(const Hardware& gpu, const RankGroup& group, double bytes);

}  // namespace lm::cost
