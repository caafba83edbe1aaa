// SPDX-License-Identifier: Apache-2.0
// Undoing a JSON string's escapes 64 bytes at a time, without a branch for each of them. Needs
// AVX-512 with VBMI2 (Ice Lake, Zen 4 and later).
#pragma once

namespace lm::data {

struct Unescaped {
    const char* next;  // what was not looked at
    char* out;
    bool beyond_ascii;
};

bool has_wide_unescape();

// Decodes what begins at `p` to `out`, up to the closing quote, a control character or an escape
// other than \n \t \r \" \\ \/, whichever comes first. 64 bytes behind the closing quote are
// readable, and as many behind the decoded text may be overwritten.
Unescaped unescape_wide(const char* p, char* out);

}  // namespace lm::data
