// SPDX-License-Identifier: Apache-2.0
#include "model/pass.hpp"

namespace lm::model {

device::Dropout Pass::dropout(double p, i64 layer, device::DropoutSite site) const {
    // The key of a mask is the row's place in its sample, so masks are the same in every layout.
    const i64 residual_rows = setup.scratch.dresidual[0];
    const i64 all_rows = setup.scratch.branch[0];
    return {.p = training ? p : 0.0,
            .seed = setup.seed,
            .layer = static_cast<i32>(layer),
            .site = site,
            .sample_ids = inputs.sample_ids,
            .first_head = setup.share.first_head,
            .first_row = setup.tensor.first_row(residual_rows),
            .sample_rows = all_rows / inputs.sample_ids[0]};
}

}  // namespace lm::model
