// SPDX-License-Identifier: Apache-2.0
// Descriptions of GPU clusters for estimates of time: share/hardware/NAME.txt, or a file of the
// user.
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

}  // namespace lm::cost
