// SPDX-License-Identifier: Apache-2.0
#include "text/unicode/char_classes.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace lm::text {
namespace {

struct Range {
    u32 first, last;
};

#include "text/unicode/char_class_tables.inc"

constexpr Range spaces[] = {{0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                            {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                            {0x205F, 0x205F}, {0x3000, 0x3000}};

template <typename Value, size_t n>
void mark(std::vector<Value>& flat, const Range (&ranges)[n], Value value) {
    for (const Range& range : ranges) {
        for (u32 cp = range.first; cp <= range.last; ++cp) flat[cp] = value;
    }
}

template <size_t n>
bool is_in(const Range (&ranges)[n], u32 cp) {
    const auto at = std::ranges::lower_bound(ranges, cp, {}, &Range::last);
    return at != std::end(ranges) && at->first <= cp;
}

std::vector<CharClass> classes() {
    std::vector<CharClass> flat(0x110000, CharClass::other);
    mark(flat, letters, CharClass::letter);
    mark(flat, numbers, CharClass::number);
    mark(flat, spaces, CharClass::space);
    return flat;
}

std::vector<CharClass> classes_with_marks() {
    std::vector<CharClass> flat = classes();
    mark(flat, marks, CharClass::letter);
    return flat;
}

std::vector<CharKind> kinds() {
    std::vector<CharKind> flat(0x110000, CharKind::other);
    mark(flat, letters, CharKind::caseless);
    mark(flat, uppercase, CharKind::upper);
    mark(flat, lowercase, CharKind::lower);
    mark(flat, marks, CharKind::mark);
    mark(flat, numbers, CharKind::number);
    mark(flat, punctuation, CharKind::punctuation);
    mark(flat, symbols, CharKind::symbol);
    mark(flat, spaces, CharKind::space);
    return flat;
}

}  // namespace

template <typename Value>
CodePointTable<Value>::CodePointTable(const std::vector<Value>& flat) : page_of_{}, pages_{} {
    int n_pages = 0;
    for (int index = 0; index < 0x1100; ++index) {
        const Value* page = flat.data() + index * 256;
        // A value has one byte, so a page has 256 bytes.
        int known = 0;
        while (known < n_pages && std::memcmp(pages_[known], page, 256) != 0) ++known;
        if (known == n_pages) {
            LM_CHECK(n_pages < 256,
                     "expected at most 256 distinct pages of code points, got one more at {:#x}",
                     index * 256);
            std::memcpy(pages_[n_pages++], page, 256);
        }
        page_of_[index] = static_cast<u8>(known);
    }
}
template class CodePointTable<CharClass>;
template class CodePointTable<CharKind>;

const ClassTable& class_table() {
    static const ClassTable table(classes());
    return table;
}

const ClassTable& class_table_with_marks() {
    static const ClassTable table(classes_with_marks());
    return table;
}

const KindTable& kind_table() {
    static const KindTable table(kinds());
    return table;
}

bool is_split_punctuation(u32 cp) {
    if (cp >= 0x80) return is_in(punctuation_8, cp);
    return cp > ' ' && cp < 0x7F && class_table()[cp] == CharClass::other;
}

bool is_word_char(u32 cp) {
    return class_table_with_marks()[cp] == CharClass::letter || is_in(other_word_characters, cp);
}

// Unicode 11 and 12 changed U+111C9 to a mark, and U+1CF2 and U+1CF3 to letters.
bool is_unicode_9_mark(u32 cp) {
    if (cp == 0x111C9) return false;
    if (cp == 0x1CF2 || cp == 0x1CF3) return true;
    return kind_table()[cp] == CharKind::mark && !is_newer_than_unicode_9(cp);
}

bool is_newer_than_unicode_9(u32 cp) {
    return cp >= newer_than_9[0].first && is_in(newer_than_9, cp);
}

}  // namespace lm::text
