// SPDX-License-Identifier: Apache-2.0
// Decodes the escapes of a JSON string 64 bytes at a time, without a branch per escape. Needs
// AVX-512 with VBMI2 (Ice Lake, Zen 4 and later).
#pragma once

#include <cstddef>

namespace lm::data {

// unescape_avx512() reads up to this many bytes beyond the end of the string, and writes up to this
// many beyond the end of the decoded text.
constexpr std::size_t unescape_block = 64;

struct Unescaped {
    const char* next;  // the first byte that was not decoded
    char* out;         // end of the decoded text
    bool is_ascii;     // whether all decoded bytes are below 0x80
};

// Returns whether the processor can run unescape_avx512().
bool has_unescape_avx512();

// Decodes the string at `p` to `out`. Stops at the closing quote, a control character or an escape
// other than \n \t \r \" \\ \/, whichever is first.
Unescaped unescape_avx512(const char* p, char* out);

}  // namespace lm::data
