// SPDX-License-Identifier: Apache-2.0
// Compares the copies of state that must have the same bits on several ranks: weights over data
// ranks, tensors that every tensor rank holds (norms, biases), the tied word embedding matrix of
// the first and the last stage, and the optimizer state of all of these. Hardware faults make
// copies differ, and so do bugs such as clipping on some ranks only. The loss does not show such
// differences.
#pragma once

#include <string>
#include <vector>

#include "base/range.hpp"
#include "model/params.hpp"
#include "parallel/grid.hpp"

namespace lm::parallel {

// One kind of state. `data` has the elements `held` of the flat buffer, in order and without gaps.
struct HeldState {
    std::string kind;   // "weight", for messages
    device::View data;  // [total_size(held)], any dtype of 2 or 4 bytes
    std::vector<Range> held;
    bool whole = true;  // `held` is the whole buffer; false: every data rank has its part
};

// Throws JointError(self_stopped) on all ranks when copies differ. The message names one tensor
// whose copies differ, the kind of its state, and the ranks whose copies differ from the majority,
// with their hosts. All ranks must pass the same kinds. The device hashes only state that has a
// copy on another rank. The call overwrites the workspace of `context`. Collective over the grid.
void check_replicas(const model::ParamMap& map, Grid& grid, device::Context& context,
                    const std::vector<HeldState>& state);

}  // namespace lm::parallel
