// SPDX-License-Identifier: Apache-2.0
// lm-convert --check of an export to Megatron.
#pragma once

#include <string>

#include "base/types.hpp"

namespace lm {

// Reads `exported`, a directory of Megatron, as an import does. Compares its weights, masters and
// moments with the weights, masters and moments of the checkpoint `native`. Returns the number of
// tensors. When a bit differs, throws Error(answer_is_no), which names the output `out`.
i64 compare_export(const std::string& native, const std::string& exported, const std::string& out);

}  // namespace lm
