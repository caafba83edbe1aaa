// SPDX-License-Identifier: Apache-2.0
// The order in which a GPU adds the rows of a micro-batch to the gradient of an embedding. Rows of
// equal ids are adjacent, so that each row of the table is written once and in a fixed order.
#pragma once

#include <span>

#include "base/types.hpp"

namespace lm::data {

// Writes the numbers of the rows to `order`, sorted by their ids; equal ids keep the order of the
// rows. ids, order: [N]. Ids outside of [0, n_ids) come last, as one group. A counting sort (Knuth,
// TAOCP vol. 3, 5.2). A thread keeps its n_ids + 1 counters, so a later call allocates memory only
// for a larger n_ids.
void order_rows(std::span<const i32> ids, i64 n_ids, std::span<i32> order);

// Writes to `cut`, [B * length], the order of the first `length` rows of each sample. `order`, [B *
// full_length], is the order of all rows, with `full_length` rows in each sample.
void cut_order(std::span<const i32> order, i64 full_length, i64 length, std::span<i32> cut);

}  // namespace lm::data
