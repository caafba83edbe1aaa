// SPDX-License-Identifier: Apache-2.0
// Numbers as people write and read them on a command line: 5_000_000, 300B, 2GiB, 90s, 20h.
#pragma once

#include <string>
#include <string_view>

#include "base/types.hpp"

namespace lm {

// Parsers throw Error(usage, ...) naming `object` (the option) for junk, overflow or a wrong unit.
i64 parse_count(std::string_view object, std::string_view text);      // 12, 5_000_000, 5M, 1.5B, 2T
double parse_number(std::string_view object, std::string_view text);  // a finite floating number
i64 parse_size(std::string_view object, std::string_view text);       // bytes: 2GiB, 80GB, 512k
double parse_duration(std::string_view object, std::string_view text);  // seconds: 90s 30m 20h 2d

std::string human_size(i64 bytes);           // "1.35 GiB"
std::string human_count(double count);       // "124.4M"
std::string human_duration(double seconds);  // "1 h 02 min", "12.3 s"
std::string iso_time(i64 unix_seconds);      // "2026-01-31T12:00:00Z", UTC

}  // namespace lm
