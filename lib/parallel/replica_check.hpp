// SPDX-License-Identifier: Apache-2.0
// Whether ranks that must hold the same bits do: weights over data ranks, tensors that every tensor
// rank holds (norms, biases), the word table of first and last stage, and the optimizer's state of
// all of these. Copies drift apart by faults of hardware, and by bugs such as clipping on some of
// the ranks only; nothing else would show it.
#pragma once

#include <string>
#include <vector>

#include "base/range.hpp"
#include "model/params.hpp"
#include "parallel/grid.hpp"

namespace lm::parallel {

// One kind of state: elements `held` of the flat buffer lie in `data` one behind the other.
struct HeldState {
    std::string kind;  // "weight", for messages
    device::View data;
    std::vector<Range> held;
    bool whole = true;  // `held` is everything; false: every data rank has its part
};

// Throws JointError(self_stopped) on all ranks when copies differ, naming the first such tensor,
// its kind and the ranks that differ from most others. Collective over the grid; all ranks give the
// same kinds.
void check_replicas(const model::ParamMap& map, Grid& grid, device::Device& device,
                    const std::vector<HeldState>& state);

}  // namespace lm::parallel
