// SPDX-License-Identifier: Apache-2.0
#include "train/step/copy_batch.hpp"

#include "model/positions.hpp"

namespace lm::train {

void copy_batch(device::Device& device, const data::Batch& batch, i64 window,
                const std::vector<float>& no_mask, const model::MicroBatchInputs& inputs) {
    const auto copy = [&device](const auto& from, const device::View& to) {
        if (to && !from.empty()) device.copy_from_host(to, from.data());
    };
    copy(batch.sample_ids, inputs.sample_ids);
    model::copy_starts(device, inputs.doc_start, batch.document_starts, window);
    copy(batch.tokens, inputs.tokens);
    copy(batch.token_order, inputs.token_order);
    copy(batch.positions, inputs.positions);
    copy(batch.position_order, inputs.position_order);
    copy(batch.targets, inputs.targets);
    copy(batch.loss_mask.empty() ? no_mask : batch.loss_mask, inputs.loss_mask);
}

}  // namespace lm::train
