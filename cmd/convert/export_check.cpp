// SPDX-License-Identifier: Apache-2.0
#include "export_check.hpp"

#include "base/error.hpp"
#include "ckpt/history/steps.hpp"
#include "ckpt/verbs/diff.hpp"
#include "convert/megatron/megatron_tensors.hpp"

namespace lm {

i64 compare_export(const std::string& native, const std::string& exported, const std::string& out) {
    i64 n_tensors = 0;
    const auto theirs = convert::open_megatron_tensors(exported, false);
    ckpt::diff(ckpt::open(native), *theirs, ckpt::all_kinds,
               [&](const ckpt::TensorDifference& difference) {
                   ++n_tensors;
                   if (difference.equal()) return;
                   fail(Exit::answer_is_no, "--check",
                        "{}: tensor {} ({}) differs from the same tensor of {}", out,
                        difference.tensor, name_of(difference.kind), native);
               });
    return n_tensors;
}

}  // namespace lm
