// SPDX-License-Identifier: Apache-2.0
// Requests for conversions, and comparison of the checkpoints that they write.
#pragma once

#include <string>

#include "ckpt/format/checkpoint.hpp"
#include "ckpt/verbs/diff.hpp"
#include "convert/conversion.hpp"

namespace lm::test {

inline convert::ConversionRequest request_of(const std::string& in, const std::string& out,
                                             i64 tp = 1, i64 pp = 1) {
    convert::ConversionRequest request;
    request.in = in;
    request.out = out;
    request.tp = tp;
    request.pp = pp;
    return request;
}

// Returns request_of() with --force.
inline convert::ConversionRequest forced_request(const std::string& in, const std::string& out) {
    convert::ConversionRequest request = request_of(in, out);
    request.force = true;
    return request;
}

inline bool same(const std::string& a, const std::string& b,
                 std::span<const ckpt::SliceKind> kinds = ckpt::all_kinds) {
    bool equal = true;
    ckpt::diff(ckpt::open(a), ckpt::open(b), kinds,
               [&](const ckpt::TensorDifference& difference) { equal &= difference.equal(); });
    return equal;
}

}  // namespace lm::test
