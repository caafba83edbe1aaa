// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/frame.hpp"

#include <cstring>

namespace lm::comm {
namespace {

struct Run {
    i32 first;
    i32 step;
    i32 n;
};

std::vector<Run> runs_of(const std::vector<int>& ranks) {
    std::vector<Run> runs;
    for (const int rank : ranks) {
        if (!runs.empty()) {
            Run& run = runs.back();
            if (run.n == 1) run.step = rank - run.first;
            if (rank == run.first + run.n * run.step) {
                ++run.n;
                continue;
            }
        }
        runs.push_back({rank, 0, 1});
    }
    return runs;
}

}  // namespace

Bytes bytes_of_part(u64 id, const std::vector<int>& ranks) {
    const std::vector<Run> runs = runs_of(ranks);
    Bytes bytes(sizeof id + runs.size() * sizeof(Run));
    std::memcpy(bytes.data(), &id, sizeof id);
    std::memcpy(bytes.data() + sizeof id, runs.data(), runs.size() * sizeof(Run));
    return bytes;
}

std::pair<u64, std::vector<int>> part_of_bytes(const Bytes& bytes) {
    u64 id = 0;
    std::memcpy(&id, bytes.data(), sizeof id);
    std::vector<int> ranks;
    for (size_t at = sizeof id; at + sizeof(Run) <= bytes.size(); at += sizeof(Run)) {
        Run run{};
        std::memcpy(&run, bytes.data() + at, sizeof run);
        for (i32 i = 0; i < run.n; ++i) ranks.push_back(run.first + i * run.step);
    }
    return {id, std::move(ranks)};
}

}  // namespace lm::comm
