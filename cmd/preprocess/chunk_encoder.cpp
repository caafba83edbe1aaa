// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "pipeline.hpp"
#include "text/normalizer/normalizer.hpp"

namespace lm::preprocess {
namespace {

constexpr size_t long_text = size_t{2} << 20;  // behind which no buffers of its size stay

template <typename Id>
i64 largest_of(std::span<const Id> ids) {
    Id largest = 0;
    for (const Id id : ids) largest = id > largest ? id : largest;
    return ids.empty() ? -1 : static_cast<i64>(largest);
}

i64 largest_of(const text::IdBuffer& ids) {
    return ids.wide() ? largest_of(ids.ids<i32>()) : largest_of(ids.ids<u16>());
}

}  // namespace

void KeyTokens::clear() {
    constexpr size_t keep = size_t{4} << 20;
    if (ids.capacity() > keep) ids.release();
    ids.clear();
    largest = -1;
    if (lengths.capacity() * sizeof(i32) > keep) lengths = {};
    lengths.clear();
    sequences_per_document.clear();
}

void KeyTokens::find_largest() {
    largest = std::max(largest, largest_of(ids));
}

i64 ChunkResult::memory() const {
    i64 n = chunk.memory();
    for (const KeyTokens& key : keys) {
        n += static_cast<i64>(key.ids.bytes().size());
        n += static_cast<i64>(key.lengths.size() * sizeof(i32));
    }
    return n;
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

void ChunkEncoder::encode(ChunkResult& result, const std::function<void(size_t)>& hand_over) {
    while (result.keys.size() < rules_->keys.size()) result.keys.emplace_back(rules_->wide);
    for (size_t k = 0; k < result.keys.size(); ++k) {
        KeyTokens& key = result.keys[k];
        key.clear();
        key.ids.consume_at(KeyTokens::most_bytes, [&key, k, hand_over] {
            key.find_largest();
            hand_over(k);
        });
    }
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
            if (rules_->on_bad_line != OnBadLine::skip || !error.is_skippable()) return;
        }
    }
    for (KeyTokens& key : result.keys) key.find_largest();
    if (result.chunk.text().size() > long_text) {
        parser_.release();
        encoder_->release();
    }
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
    const size_t before = out.lengths.size();
    if (value.is_list) {
        for (const std::string_view sentence : value.sentences)
            encode_sequence(sentence, out, result);
    } else {
        encode_sequence(value.text, out, result);
    }
    const auto n_sequences = static_cast<i32>(out.lengths.size() - before);
    if (n_sequences > 0 && rules_->append_eod) {
        out.ids.push(*tokenizer_->eod());
        ++out.lengths.back();
    }
    if (n_sequences > 0 || rules_->keep_empty) out.sequences_per_document.push_back(n_sequences);
}

i64 ChunkEncoder::encode_text(std::string_view text, text::IdBuffer& ids) {
    try {
        return encoder_->encode(text, ids);
    } catch (const text::TextTooLong& error) {
        throw data::LineError{1, error.what(), data::LineError::Fault::length};
    }
}

void ChunkEncoder::encode_sequence(std::string_view text, KeyTokens& out, ChunkResult& result) {
    result.text_bytes += static_cast<i64>(text.size());
    const i64 n = encode_text(text, out.ids);
    constexpr i64 most = std::numeric_limits<i32>::max() - 1;  // and the end of the document
    if (n > most) {
        throw data::LineError{
            1, fmt::format("the text becomes {} ids: a sequence has {} at most", n, most),
            data::LineError::Fault::length};
    }
    if (n > 0) out.lengths.push_back(static_cast<i32>(n));
}

}  // namespace lm::preprocess
