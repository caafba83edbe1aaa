// SPDX-License-Identifier: Apache-2.0
#include "eval/score_tokens.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace lm::eval {
namespace {

void add(TokensScore& sum, std::span<const TokenScore> scores) {
    for (const TokenScore& score : scores) {
        sum.log_probability += score.log_probability;
        sum.greedy = sum.greedy && score.greedy;
        ++sum.tokens;
    }
    if (!std::isfinite(sum.log_probability)) {
        run_error("log-probability",
                  "is {}: the checkpoint has corrupt weights: run lm-ckpt verify",
                  sum.log_probability);
    }
}

// The tokens that the model reads for one pair: all tokens except the last one. For each of the
// last targets.size() of these tokens, the next token is scored.
struct Reading {
    std::vector<i32> tokens;
    std::span<const i32> targets;
    size_t first_target() const { return tokens.size() - targets.size(); }
};

Reading reading_of(const TokenPair& pair, i64 context, const std::string& object) {
    if (pair.continuation.empty()) {
        run_error(object,
                  "the continuation has no token of its own, because it is empty or the tokenizer "
                  "merges it with the end of the context: give at least one id, or a text that "
                  "begins with a space");
    }
    if (std::ssize(pair.continuation) > context) {
        usage_error(object,
                    "has a continuation of {} tokens, but the model's context is {} tokens: "
                    "shorten the continuation",
                    pair.continuation.size(), context);
    }
    Reading reading{pair.context, pair.continuation};
    reading.tokens.insert(reading.tokens.end(), pair.continuation.begin(), pair.continuation.end());
    const i64 beyond = std::max<i64>(0, std::ssize(reading.tokens) - (context + 1));
    reading.tokens.erase(reading.tokens.begin(), reading.tokens.begin() + beyond);
    reading.tokens.pop_back();
    return reading;
}

// Returns the length of the prefix that all readings share, without tokens that have a target.
size_t common_tokens(std::span<const Reading> readings) {
    size_t n = readings.front().first_target();
    for (const Reading& reading : readings) {
        n = std::min(n, reading.first_target());
        const auto& first = readings.front().tokens;
        const auto end = first.begin() + static_cast<std::ptrdiff_t>(n);
        const auto differ = std::mismatch(first.begin(), end, reading.tokens.begin()).first;
        n = static_cast<size_t>(differ - first.begin());
    }
    return n;
}

// Returns the ids of `text` without those that the tokenizer puts after every text.
std::vector<i32> without_suffix(const text::Tokenizer& tokenizer, const std::string& text) {
    std::vector<i32> ids = tokenizer.encode(text);
    ids.resize(ids.size() - tokenizer.suffix().size());
    return ids;
}

}  // namespace

TokensScore score_document(Engine& engine, std::span<const i32> tokens, i32 before) {
    std::vector<i32> all;  // `before`, if there is one, and the document
    if (before >= 0) all.push_back(before);
    all.insert(all.end(), tokens.begin(), tokens.end());
    TokensScore sum;
    std::vector<TokenScore> scores;
    const auto context = static_cast<size_t>(engine.context());
    for (size_t begin = 0; begin + 1 < all.size(); begin += context) {
        const size_t n = std::min(context, all.size() - 1 - begin);
        // The last window begins earlier than its first target, so that the targets have as much
        // context as fits.
        const size_t first = begin + n > context ? begin + n - context : 0;
        scores.resize(n);
        engine.truncate(0);
        engine.score(std::span(all).subspan(first, begin + n - first),
                     std::span(all).subspan(begin + 1, n), scores);
        add(sum, scores);
    }
    return sum;
}

TokenPair encode_pair(const text::Tokenizer& tokenizer, const std::string& context,
                      const std::string& continuation, i32 before, const std::string& object) {
    const size_t end = context.find_last_not_of(" \t\n\v\f\r");
    const std::string trimmed = context.substr(0, end == std::string::npos ? 0 : end + 1);
    TokenPair pair;
    pair.continuation = without_suffix(tokenizer, context + continuation);
    if (trimmed.empty() && tokenizer.prefix().empty()) {
        if (before < 0) {
            usage_error(object,
                        "has an empty context, and the end-of-document id of the model is unknown: "
                        "give a context");
        }
        pair.context = {before};
        return pair;
    }
    const auto n = std::ssize(without_suffix(tokenizer, trimmed));
    const auto cut = pair.continuation.begin() + std::min(n, std::ssize(pair.continuation));
    pair.context.assign(pair.continuation.begin(), cut);
    pair.continuation.erase(pair.continuation.begin(), cut);
    return pair;
}

void check_pair(const TokenPair& pair, i64 vocab_size, i64 context, const std::string& object) {
    check_ids(pair.context, vocab_size, object);
    check_ids(pair.continuation, vocab_size, object);
    (void)reading_of(pair, context, object);
}

std::vector<TokensScore> score_pairs(Engine& engine, std::span<const TokenPair> pairs,
                                     const std::string& object) {
    std::vector<Reading> readings;
    for (const TokenPair& pair : pairs) {
        check_pair(pair, engine.vocab_size(), engine.context(), object);
        readings.push_back(reading_of(pair, engine.context(), object));
    }
    std::vector<TokensScore> results;
    if (readings.empty()) return results;
    const size_t common = common_tokens(readings);
    engine.truncate(0);
    if (common > 0) engine.score(std::span(readings.front().tokens).first(common), {}, {});
    for (const Reading& reading : readings) {
        TokensScore& result = results.emplace_back();
        std::vector<TokenScore> scores(reading.targets.size());
        engine.truncate(static_cast<i64>(common));
        engine.score(std::span(reading.tokens).subspan(common), reading.targets, scores);
        add(result, scores);
    }
    return results;
}

}  // namespace lm::eval
