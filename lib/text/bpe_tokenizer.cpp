// SPDX-License-Identifier: Apache-2.0
#include "text/bpe_tokenizer.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "text/bpe_encoder.hpp"
#include "text/byte_map.hpp"

namespace lm::text {
namespace {

BpeModel make_model(BpeFiles files, const std::vector<SpecialToken>& added,
                    const std::string& origin) {
    const TokenIndex index(files.tokens, origin);
    std::array<i32, 256> byte_ids{};
    for (int byte = 0; byte < 256; ++byte) {
        std::string spelling;
        const char raw = static_cast<char>(byte);
        spelling = token_of_bytes({&raw, 1});
        const i32 id = index.find(spelling);
        if (id < 0) {
            run_error(origin,
                      "has no token for the byte {:#04x} ('{}'): cut short, or not byte-level BPE",
                      byte, spelling);
        }
        byte_ids[static_cast<size_t>(byte)] = id;
    }
    // A spelling with characters outside the byte map (a special token) stands for its own bytes.
    std::vector<std::string> tokens;
    tokens.reserve(files.tokens.size());
    for (std::string& spelling : files.tokens) {
        std::optional<std::string> bytes = bytes_of_token(spelling);
        tokens.push_back(bytes ? std::move(*bytes) : std::move(spelling));
    }
    for (const SpecialToken& token : added) {
        const auto id = static_cast<size_t>(token.id);
        if (id >= tokens.size()) tokens.resize(id + 1);
        tokens[id] = token.content;
    }
    return {std::move(tokens), byte_ids, std::move(files.merges)};
}

void add_number(Digester& digester, i64 value) {
    digester.update(std::as_bytes(std::span(&value, 1)));
}

void add_text(Digester& digester, std::string_view text) {
    add_number(digester, static_cast<i64>(text.size()));
    digester.update(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace

TokenIndex::TokenIndex(const std::vector<std::string>& tokens, const std::string& path) {
    ids_.reserve(tokens.size());
    for (size_t id = 0; id < tokens.size(); ++id) {
        if (tokens[id].empty()) continue;
        const auto [at, fresh] = ids_.emplace(tokens[id], static_cast<i32>(id));
        if (!fresh)
            run_error(path, "token '{}' stands twice (ids {} and {})", tokens[id], at->second, id);
    }
}

i32 TokenIndex::find(std::string_view token) const {
    const auto at = ids_.find(token);
    return at == ids_.end() ? -1 : at->second;
}

i32 MergeReader::id_of(std::string_view token, const std::string& where) const {
    const i32 id = index_->find(token);
    if (id < 0) run_error(where, "token '{}' is not in the vocabulary {}", token, vocab_path_);
    return id;
}

void MergeReader::add(std::string_view left, std::string_view right, const std::string& where) {
    const i32 a = id_of(left, where);
    const i32 b = id_of(right, where);
    const i32 result = id_of(std::string(left) + std::string(right), where);
    if (!seen_.insert(static_cast<u64>(a) << 32 | static_cast<u32>(b)).second) {
        run_error(where, "the merge '{} {}' stands twice", left, right);
    }
    merges_.push_back({a, b, result});
}

BpeTokenizer::BpeTokenizer(BpeTokenizerParts parts)
    : type_(std::move(parts.type)),
      origin_(std::move(parts.origin)),
      rule_(parts.rule),
      eod_(parts.eod),
      model_(make_model(parts.files, parts.added, origin_)),
      prefix_(std::move(parts.prefix)),
      suffix_(std::move(parts.suffix)) {
    if (parts.whole_pieces) model_.index_whole_pieces(static_cast<i64>(parts.files.tokens.size()));
    for (const auto& round : parts.special) special_.emplace_back(round);
    Digester digester;
    add_text(digester, "lm-utils byte-level BPE 2");
    add_number(digester, static_cast<i64>(rule_));
    add_number(digester, parts.whole_pieces ? 1 : 0);
    add_number(digester, eod_.value_or(-1));
    add_number(digester, vocab_size());
    for (i32 id = 0; id < vocab_size(); ++id) add_text(digester, model_.token(id));
    for (const Merge& merge : model_.merges()) {
        add_number(digester, merge.left);
        add_number(digester, merge.right);
        add_number(digester, merge.result);
    }
    for (const auto& round : parts.special) {
        add_number(digester, static_cast<i64>(round.size()));
        for (const SpecialToken& token : round) {
            add_text(digester, token.content);
            add_number(digester, token.id);
        }
    }
    for (const auto* ids : {&prefix_, &suffix_}) {
        add_number(digester, static_cast<i64>(ids->size()));
        for (const i32 id : *ids) add_number(digester, id);
    }
    digest_ = digester.finish();
}

std::unique_ptr<Encoder> BpeTokenizer::make_encoder() const {
    return make_bpe_encoder({&model_, rule_, special_, prefix_, suffix_});
}

std::string_view BpeTokenizer::token(i32 id) const {
    if (id < 0 || id >= vocab_size()) {
        run_error(origin_, "there is no id {}: the vocabulary has {}", id, vocab_size());
    }
    return model_.token(id);
}

}  // namespace lm::text
