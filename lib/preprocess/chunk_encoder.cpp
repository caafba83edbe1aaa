// SPDX-License-Identifier: Apache-2.0
#include "preprocess/chunk_encoder.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "text/normalizer/normalizer.hpp"

namespace lm::preprocess {
namespace {

// After a chunk with more bytes than this, the encoder frees its buffers.
constexpr size_t long_text = size_t{2} << 20;

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

i64 EncodedChunk::memory() const {
    i64 n = chunk.memory();
    for (const KeyTokens& key : keys) {
        n += static_cast<i64>(key.ids.bytes().size());
        n += static_cast<i64>(key.lengths.size() * sizeof(i32));
    }
    return n;
}

void EncodedChunk::release_large() {
    chunk.release();
    for (KeyTokens& key : keys) key.clear();
}

ChunkEncoder::ChunkEncoder(const EncodeRules& rules, const text::Tokenizer& tokenizer,
                           i64 text_bytes)
    : rules_(&rules),
      tokenizer_(&tokenizer),
      parser_(rules.keys, invalid_text_of(rules.on_bad_line)),
      encoder_(tokenizer.make_encoder(text_bytes)) {}

void ChunkEncoder::encode(EncodedChunk& out, const std::function<void(size_t)>& hand_over) {
    while (out.keys.size() < rules_->keys.size()) out.keys.emplace_back(rules_->wide);
    for (size_t k = 0; k < out.keys.size(); ++k) {
        KeyTokens& key = out.keys[k];
        key.clear();
        key.ids.consume_at(KeyTokens::max_bytes, [&key, k, hand_over] {
            key.find_largest();
            hand_over(k);
        });
    }
    out.n_lines = out.n_documents = out.n_blank = out.n_replaced = 0;
    out.text_bytes = 0;
    out.bad.clear();
    for (std::string_view text = out.chunk.text(); !text.empty(); ++out.n_lines) {
        try {
            if (const auto plain = parser_.parse_plain(text)) {
                plain_.text = *plain;
                encode_value(plain_, out.keys[0], out);
                ++out.n_documents;
                continue;
            }
            encode_line(data::next_line(text), out);
        } catch (const data::LineError& error) {
            out.bad.add(out.n_lines, error);
            if (rules_->on_bad_line != OnBadLine::skip || !error.is_skippable()) return;
        }
    }
    for (KeyTokens& key : out.keys) key.find_largest();
    if (out.chunk.text().size() > long_text) {
        parser_.release();
        encoder_->release();
    }
}

void ChunkEncoder::encode_line(std::string_view line, EncodedChunk& out) {
    if (data::is_blank(line)) {
        ++out.n_blank;
        return;
    }
    const std::span<const data::LineValue> values = parser_.parse(line);
    if (parser_.replaced()) ++out.n_replaced;
    for (size_t k = 0; k < values.size(); ++k) encode_value(values[k], out.keys[k], out);
    ++out.n_documents;
}

void ChunkEncoder::encode_value(const data::LineValue& value, KeyTokens& key, EncodedChunk& out) {
    const size_t before = key.lengths.size();
    if (value.is_list) {
        for (const std::string_view sentence : value.sentences) encode_sequence(sentence, key, out);
    } else {
        encode_sequence(value.text, key, out);
    }
    const auto n_sequences = static_cast<i32>(key.lengths.size() - before);
    if (n_sequences > 0 && rules_->append_eod) {
        key.ids.push(*tokenizer_->eod());
        ++key.lengths.back();
    }
    if (n_sequences > 0 || rules_->keep_empty) key.sequences_per_document.push_back(n_sequences);
}

i64 ChunkEncoder::encode_text(std::string_view text, text::IdBuffer& ids) {
    try {
        return encoder_->encode(text, ids);
    } catch (const text::TextTooLong& error) {
        throw data::LineError{1, error.what(), data::LineError::Fault::length};
    } catch (const text::UnknownByte& error) {
        throw data::LineError{1, error.what(), data::LineError::Fault::token};
    }
}

void ChunkEncoder::encode_sequence(std::string_view text, KeyTokens& key, EncodedChunk& out) {
    out.text_bytes += static_cast<i64>(text.size());
    const i64 n = encode_text(text, key.ids);
    constexpr i64 most = std::numeric_limits<i32>::max() - 1;  // the end-of-document id adds 1
    if (n > most) {
        throw data::LineError{
            1, fmt::format("the text becomes {} ids: a sequence has {} at most", n, most),
            data::LineError::Fault::length};
    }
    if (n > 0) key.lengths.push_back(static_cast<i32>(n));
}

}  // namespace lm::preprocess
