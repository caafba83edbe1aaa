// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "pipeline.hpp"

namespace lm::preprocess {
namespace {

template <typename Id>
i64 largest_of(std::span<const std::byte> bytes) {
    const Id* ids = reinterpret_cast<const Id*>(bytes.data());
    Id largest = 0;
    for (size_t i = 0; i < bytes.size() / sizeof(Id); ++i)
        largest = ids[i] > largest ? ids[i] : largest;
    return bytes.empty() ? -1 : static_cast<i64>(largest);
}

}  // namespace

std::byte* KeyTokens::room(size_t n_bytes) {
    if (used + n_bytes > capacity) {
        capacity = std::max(used + n_bytes, capacity * 2);
        std::unique_ptr<std::byte[]> larger(new std::byte[capacity]);
        if (used > 0) std::memcpy(larger.get(), bytes.get(), used);
        bytes = std::move(larger);
    }
    return bytes.get() + used;
}

void KeyTokens::clear() {
    constexpr size_t keep = size_t{8} << 20;
    if (capacity > keep) *this = {};
    used = 0;
    largest = -1;
    lengths.clear();
    sequences_per_document.clear();
}

void ChunkResult::release() {
    chunk.release();
    for (KeyTokens& key : keys) key.clear();
}

ChunkEncoder::ChunkEncoder(const EncodeRules& rules, const text::Tokenizer& tokenizer)
    : rules_(&rules),
      tokenizer_(&tokenizer),
      parser_(rules.keys, rules.on_bad_line == OnBadLine::replace ? data::BadBytes::replace
                                                                  : data::BadBytes::refuse),
      encoder_(tokenizer.make_encoder()) {}

void ChunkEncoder::encode(ChunkResult& result) {
    result.keys.resize(rules_->keys.size());
    for (KeyTokens& key : result.keys) key.clear();
    result.n_lines = result.n_documents = result.n_blank = result.n_replaced = 0;
    result.text_bytes = 0;
    result.bad.clear();
    for (std::string_view text = result.chunk.text(); !text.empty(); ++result.n_lines) {
        try {
            if (const auto plain = parser_.take_plain(text)) {
                plain_.text = *plain;
                encode_value(plain_, result.keys[0], result);
                ++result.n_documents;
                continue;
            }
            encode_line(data::take_line(text), result);
        } catch (const data::LineError& error) {
            result.bad.add(result.n_lines, error);
            if (rules_->on_bad_line != OnBadLine::skip) return;
        }
    }
    for (KeyTokens& key : result.keys) find_largest(key);
}

void ChunkEncoder::encode_line(std::string_view line, ChunkResult& result) {
    if (data::is_blank(line)) {
        ++result.n_blank;
        return;
    }
    const std::span<const data::LineValue> values = parser_.parse(line);
    if (parser_.replaced()) ++result.n_replaced;
    for (size_t k = 0; k < values.size(); ++k) encode_value(values[k], result.keys[k], result);
    ++result.n_documents;
}

void ChunkEncoder::encode_value(const data::LineValue& value, KeyTokens& out, ChunkResult& result) {
    if (rules_->wide) return encode_sequences<i32>(value, out, result);
    encode_sequences<u16>(value, out, result);
}

void ChunkEncoder::find_largest(KeyTokens& key) const {
    key.largest = rules_->wide ? largest_of<i32>(key.tokens()) : largest_of<u16>(key.tokens());
}

template <typename Id>
void ChunkEncoder::encode_sequences(const data::LineValue& value, KeyTokens& out,
                                    ChunkResult& result) {
    const size_t before = out.lengths.size();
    const auto add = [&](std::string_view text) {
        if (static_cast<i64>(text.size()) > text::Tokenizer::longest_text) {
            throw data::LineError{1, "the text is longer than 2 GiB"};
        }
        result.text_bytes += static_cast<i64>(text.size());
        const auto most =
            static_cast<size_t>(tokenizer_->max_ids(static_cast<i64>(text.size())) + 1);
        // KeyTokens memory comes from new[], so it is aligned for any id.
        Id* ids = reinterpret_cast<Id*>(out.room(most * sizeof(Id)));
        const i64 n = encoder_->encode(text, ids);
        if (n == 0) return;
        out.lengths.push_back(static_cast<i32>(n));
        out.used += static_cast<size_t>(n) * sizeof(Id);
    };
    if (value.is_list) {
        for (const std::string_view sentence : value.sentences) add(sentence);
    } else {
        add(value.text);
    }
    const auto n_sequences = static_cast<i32>(out.lengths.size() - before);
    if (n_sequences > 0 && rules_->append_eod) {
        const auto eod = static_cast<Id>(*tokenizer_->eod());
        std::memcpy(out.room(sizeof(Id)), &eod, sizeof eod);
        out.used += sizeof eod;
        ++out.lengths.back();
    }
    if (n_sequences > 0 || rules_->keep_empty) out.sequences_per_document.push_back(n_sequences);
}

}  // namespace lm::preprocess
