// SPDX-License-Identifier: Apache-2.0
// Numbers with units, as on a command line: 5_000_000, 300B, 2GiB, 90s, 20h.
#pragma once

#include <string>
#include <string_view>

#include "base/types.hpp"

namespace lm {

// Each parser throws Error(usage), which names `object` (the option), for a text that is not a
// number, an unknown unit or an overflow. All parsers but parse_number() refuse negative numbers,
// too. Underscores may group digits. Counts and sizes are whole numbers: 1.5B is a count, but
// 1.0001k is an error, because it is 1000.1. Limits: 19 significant digits and 38 decimals.

// Parses a count. Units: k or K, M, G or B, T = 10^3, 10^6, 10^9, 10^12.
i64 parse_count(std::string_view object, std::string_view text);

// Parses a number of bytes. Units: KB MB GB TB PB = 10^3..10^15, KiB MiB GiB TiB PiB =
// 2^10..2^50. K M G T P mean KiB MiB GiB TiB PiB, as in dd and Slurm. k means K, and B means bytes.
i64 parse_size(std::string_view object, std::string_view text);

// Parses a duration such as 90s, 30m, 20h, 2d or 500ms and returns seconds. A number without a unit
// is in seconds.
double parse_duration(std::string_view object, std::string_view text);

// Parses a finite floating-point number: 0.1, 3e-4, -2.
double parse_number(std::string_view object, std::string_view text);

std::string human_size(i64 bytes);           // "1.35 GiB"
std::string decimal_size(i64 bytes);         // "1.45 GB", for programs that print rates in MB/s
std::string human_count(double count);       // "124.4M"
std::string human_duration(double seconds);  // "1 h 02 min", "3 min 05 s", "12.3 s", "250 ms"
std::string iso_time(i64 unix_seconds);      // "2026-01-31T12:00:00Z", UTC

}  // namespace lm
