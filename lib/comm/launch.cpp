// SPDX-License-Identifier: Apache-2.0
#include "comm/launch.hpp"

#include <cmath>

namespace lm::comm {

int with_one_error(Launch& launch, const std::function<int()>& body) {
    try {
        return body();
    } catch (const JointError&) {
        throw;
    } catch (const std::exception& exception) {
        const std::optional<Error> first = launch.ended_before(error_of(exception));
        if (!first) throw;
        throw JointError(first->code(), first->what());
    }
}

double report_after_s(int rank) {
    // The delay grows with the logarithm of the rank, so the last of 10,000 ranks waits less than 9
    // s.
    constexpr double rank_0_first_s = 2;     // if all ranks have an error, rank 0 prints it
    constexpr double twice_as_many_s = 0.5;  // added for each doubling of the rank
    return rank == 0 ? 0 : rank_0_first_s + twice_as_many_s * std::log2(rank);
}

}  // namespace lm::comm
