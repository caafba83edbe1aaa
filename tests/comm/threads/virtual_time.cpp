// SPDX-License-Identifier: Apache-2.0
#include "comm/threads/virtual_time.hpp"

#include <bit>

namespace lm::comm {

double LinkModel::collective_s(const Operation& operation, int n_ranks) const {
    if (n_ranks == 1) return 0;
    const double ring_steps = n_ranks - 1;
    const double tree_steps = std::bit_width(static_cast<unsigned>(n_ranks - 1));
    const auto bytes = static_cast<double>(operation.bytes());
    switch (operation.kind) {
        case OperationKind::all_reduce:
            return 2 * ring_steps * (latency_s + transfer_s(bytes / n_ranks));
        case OperationKind::reduce_scatter:
        case OperationKind::all_gather:
            return ring_steps * (latency_s + transfer_s(bytes));
        case OperationKind::broadcast:
            return tree_steps * latency_s + transfer_s(bytes);
        case OperationKind::barrier:
            return tree_steps * latency_s;
        case OperationKind::split:  // belongs to the setup of a run
        case OperationKind::send:
        case OperationKind::receive:
            break;
    }
    return 0;
}

}  // namespace lm::comm
