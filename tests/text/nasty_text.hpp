// SPDX-License-Identifier: Apache-2.0
// Random text from an alphabet of difficult items: all whitespace code points, contractions in both
// cases, combining marks, ZWJ emoji, scripts with and without case, long runs, NUL.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/rng.hpp"
#include "base/utf8.hpp"

namespace lm::test {

class NastyText {
  public:
    explicit NastyText(u64 seed) : seed_(seed) {}

    // Returns `n_items` random items of the alphabet, some of them repeated.
    std::string next(int n_items) {
        static const std::vector<std::string> alphabet = make_alphabet();
        std::string text;
        const u64 style = draw(8);
        for (int i = 0; i < n_items; ++i) {
            const std::string& item = alphabet[draw(style < 3 ? 24 : alphabet.size())];
            const u64 times = draw(16) == 0 ? draw(40) : 1;
            for (u64 k = 0; k < times; ++k) text += item;
        }
        return text;
    }

    u64 draw(u64 below) {
        const Philox4 block = philox(seed_, counter_++, 0);
        return (static_cast<u64>(block[0]) << 32 | block[1]) % below;
    }

  private:
    static std::vector<std::string> make_alphabet() {
        std::vector<std::string> a = {" ",   " ",   "  ",  "\n", "\r\n", "\t", "'",   "'s",  "'S",
                                      "'re", "'ll", "'LL", "'d", "a",    "b",  "the", " of", "Z",
                                      "0",   "12",  ".",   "!?", "_",    "-",  "l",   "v",   "e",
                                      "r",   "t",   "m",   "'v", "'t",   "s",  "''",  "(",   "}"};
        const u32 points[] = {
            0x0,     0x1,     0x1B,    0x1C,    0x1F,    0x7F,    0x85,   0xA0,    0xAD,    0xB2,
            0xBD,    0xE9,    0x301,   0x308,   0x3B1,   0x416,   0x5D0,  0x627,   0x660,   0x915,
            0x94D,   0xE01,   0x1100,  0x1161,  0x11A8,  0x1680,  0x180E, 0x2000,  0x2003,  0x200A,
            0x200B,  0x200D,  0x2019,  0x2028,  0x2029,  0x202F,  0x205F, 0x2060,  0x2167,  0x2460,
            0x3000,  0x3001,  0x3042,  0x30A2,  0x4E00,  0x9FA5,  0xAC00, 0xD7A3,  0xE000,  0xFB01,
            0xFDD0,  0xFEFF,  0xFF01,  0xFF11,  0xFF21,  0xFFFD,  0xFFFF, 0x10000, 0x10400, 0x1D7CE,
            0x1F1E9, 0x1F469, 0x1F3FD, 0x1F600, 0x20000, 0x10FFFF};
        for (const u32 cp : points) {
            std::string item;
            append_utf8(item, cp);
            a.push_back(item);
        }
        a.push_back("\U0001F469\u200D\U0001F4BB");
        return a;
    }

    u64 seed_;
    u64 counter_ = 0;
};

inline std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        out += byte >= 0x20 && byte < 0x7F && c != '\\' ? std::string(1, c)
                                                        : fmt::format("\\x{:02x}", byte);
    }
    return out;
}

}  // namespace lm::test
