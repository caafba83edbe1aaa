// SPDX-License-Identifier: Apache-2.0
#include "text/unicode.hpp"

#include <cstring>
#include <vector>

#include "base/error.hpp"

namespace lm::text {
namespace {

struct Range {
    u32 first, last;
};

#include "text/unicode_tables.inc"

constexpr Range spaces[] = {{0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                            {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                            {0x205F, 0x205F}, {0x3000, 0x3000}};

template <size_t n>
void mark(std::vector<CharClass>& flat, const Range (&ranges)[n], CharClass value) {
    for (const Range& range : ranges) {
        for (u32 cp = range.first; cp <= range.last; ++cp) flat[cp] = value;
    }
}

}  // namespace

std::string_view unicode_version() {
    return version_text;
}

ClassTable::ClassTable() : page_of_{}, pages_{} {
    std::vector<CharClass> flat(0x110000, CharClass::other);
    mark(flat, letters, CharClass::letter);
    mark(flat, numbers, CharClass::number);
    mark(flat, spaces, CharClass::space);
    int n_pages = 0;
    for (int index = 0; index < 0x1100; ++index) {
        const CharClass* page = flat.data() + index * 256;
        int known = 0;
        while (known < n_pages && std::memcmp(pages_[known], page, 256) != 0) ++known;
        if (known == n_pages) {
            LM_CHECK(n_pages < 256, "too many distinct pages of character classes");
            std::memcpy(pages_[n_pages++], page, 256);
        }
        page_of_[index] = static_cast<u8>(known);
    }
}

const ClassTable& class_table() {
    static const ClassTable table;
    return table;
}

}  // namespace lm::text
