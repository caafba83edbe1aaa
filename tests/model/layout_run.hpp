// SPDX-License-Identifier: Apache-2.0
// One step of a small GPT in any layout: tensor ranks are threads, and each thread runs all stages
// of the pipeline in sequence. Returns the loss and every gradient as a whole tensor, for
// comparison with one rank.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cpu/cpu_device.hpp"
#include "spec/rank_layout.hpp"
#include "support/odd_models.hpp"

namespace lm::test {

struct LayoutRun {
    spec::ModelConfig config;
    spec::ParallelConfig parallel;
    i64 micro_batch = 2;
    i64 n_micro_batches = 2;
    bool training = true;
    int n_threads = 1;
    cpu::Kernels kernels = cpu::Kernels::fast;
};

struct Outcome {
    double loss = 0;
    std::map<std::string, std::vector<float>> gradients;  // global tensors by name
    std::vector<std::string> faults;  // copies that differ between ranks, wrong hook calls
    friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome run_layout(LayoutRun run);

}  // namespace lm::test
