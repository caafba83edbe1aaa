// SPDX-License-Identifier: Apache-2.0
// libFuzzer: any bytes as a safetensors file. Parsing throws Error, or its tensors cover the file
// exactly.
#include <cstdlib>

#include "base/error.hpp"
#include "ckpt/format/safetensors.hpp"

namespace {

void require(bool condition) {
    if (!condition) std::abort();
}

void check(const lm::ckpt::SafetensorsHeader& header, lm::i64 size) {
    lm::i64 expected = 0;
    for (const lm::ckpt::SafetensorsEntry& entry : header.entries) {
        require(entry.begin == expected && entry.end >= entry.begin);
        require(lm::ckpt::safetensors_bits(entry.dtype) > 0);
        for (const lm::i64 dim : entry.shape) require(dim >= 0);
        expected = entry.end;
    }
    require(header.data_start >= 8 && header.data_start + expected == size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    try {
        const auto n = static_cast<lm::i64>(size);
        check(lm::ckpt::parse_safetensors_header(std::as_bytes(std::span(data, size)), n, "input"),
              n);
    } catch (const lm::Error& error) {
        require(error.code() == lm::Exit::failure);
    }
    return 0;
}
