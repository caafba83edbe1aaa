// SPDX-License-Identifier: Apache-2.0
// Descriptions of GPU clusters for estimates of time: share/hardware/NAME.txt, or a file of the
// user. The time of single operations on a GPU and of collectives between GPUs.
#pragma once

#include <string>
#include <string_view>

#include "base/dtype.hpp"

namespace lm::cost {

// One direction of a connection: a message of n bytes takes latency_s + n / bytes_per_s.
struct Link {
    double bytes_per_s = 0;
    double latency_s = 0;
};

struct Hardware {
    std::string name;
    double matmul_flops = 0;        // peak FLOP/s of dense products of bf16 and fp16
    double fp32_flops = 0;          // peak FLOP/s of products of fp32
    i64 sms = 0;                    // SMs; each computes one tile of a product at a time
    double memory_bytes_per_s = 0;  // peak of the GPU's memory
    i64 memory_bytes = 0;
    i64 gpus_per_node = 0;
    Link node;         // between the GPUs of a node: rate of a large all-reduce
    Link network;      // between nodes; the GPUs of a node share it
    i64 nics = 1;      // network links (rails) of a node; network.bytes_per_s is their sum
    double watts = 0;  // power of one GPU with its share of the node
    // Large operations reach these fractions of the peak rates.
    double matmul_fraction = 0;
    double attention_fraction = 0;
    double memory_fraction = 0;

    double flops(DType dtype) const { return is_half(dtype) ? matmul_flops : fp32_flops; }
};

// Parses a description: lines "KEY VALUE # SOURCE" with each member's name and a number in base
// units (bytes, seconds, FLOP/s); a link has two keys, KEY_bytes_per_s and KEY_latency_s. Lines
// that start with "#" are comments. Throws Error(usage) naming `path`, the line and the key: each
// key must appear once, with its source.
Hardware parse_hardware(const std::string& path, std::string_view text);

// Parses the description of one network link of a node, in the form that parse_hardware() reads,
// with the keys link_bytes_per_s and link_latency_s.
Link parse_network(const std::string& path, std::string_view text);

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
