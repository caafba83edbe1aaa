// SPDX-License-Identifier: Apache-2.0
#include "text/bpe_tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/hash.hpp"
#include "base/threads.hpp"
#include "base/utf8.hpp"
#include "text/bpe/byte_map.hpp"
#include "text/bpe/merges/pretoken_encoder.hpp"
#include "text/bpe_encoder.hpp"

namespace lm::text {

namespace {

class TextEncoder : public Encoder {
  public:
    TextEncoder(const TextSteps& steps, std::unique_ptr<Encoder> plain)
        : steps_(steps), plain_(std::move(plain)) {}

    i64 encode(std::string_view text, IdBuffer& out) override {
        const i64 before = out.count();
        const auto put = [&](i32 id) { out.push(id); };
        for (const i32 id : steps_.prefix) put(id);
        steps_.raw.split(
            text, [&](std::string_view part) { encode_raw(part, out); }, put);
        for (const i32 id : steps_.suffix) put(id);
        return out.count() - before;
    }

    void release() override {
        normalized_ = {};
        spaced_ = {};
        plain_->release();
    }

    u64 operations() const override { return plain_->operations(); }

  private:
    void encode_raw(std::string_view text, IdBuffer& out) {
        steps_.normalized.split(
            steps_.normalizer.apply(text, normalized_),
            [&](std::string_view part) { encode_plain(part, out); }, [&](i32 id) { out.push(id); });
    }

    void encode_plain(std::string_view text, IdBuffer& out) {
        if (steps_.prefix_space && !text.starts_with(' ')) {
            spaced_.assign(" ").append(text);
            text = spaced_;
        }
        plain_->encode(text, out);
    }

    const TextSteps& steps_;
    std::unique_ptr<Encoder> plain_;
    Normalizer::Buffers normalized_;
    std::string spaced_;
};

}  // namespace

std::unique_ptr<Encoder> make_text_encoder(const TextSteps& steps, std::unique_ptr<Encoder> plain) {
    if (steps.is_trivial()) return plain;
    return std::make_unique<TextEncoder>(steps, std::move(plain));
}

namespace {

// Returns for each id whether BPE can produce it: the ids of single bytes, and the results of
// merges. With ignore_merges, also every token whose bytes are valid UTF-8, because every pre-token
// is valid UTF-8.
std::vector<bool> find_reachable(const BpeTokenizerParts& parts,
                                 const std::array<i32, 256>& byte_ids,
                                 std::span<const std::string> tokens) {
    std::vector<bool> reachable(tokens.size());
    for (const i32 id : byte_ids) {
        if (id >= 0) reachable[static_cast<size_t>(id)] = true;
    }
    for (const Merge& merge : parts.files.merges)
        reachable[static_cast<size_t>(merge.result)] = true;
    for (size_t id = 0; parts.ignore_merges && id < tokens.size(); ++id)
        if (!tokens[id].empty() && is_valid_utf8(tokens[id])) reachable[id] = true;
    return reachable;
}

// Sets the bytes of each added token's id to the content of the token. An id that is also in the
// vocabulary has bytes already: the spelling of the file, decoded by the byte map ("Ġ" is a space).
// Such an id keeps these bytes if BPE can produce the id, as in Hugging Face tokenizers. Otherwise
// `spelled` of the id becomes false, and no pre-token is encoded to the id.
void put_added(const BpeTokenizerParts& parts, const std::array<i32, 256>& byte_ids,
               std::vector<std::string>& tokens, std::vector<bool>& spelled) {
    std::vector<bool> reachable;
    for (const AddedToken& token : parts.added) {
        const auto id = static_cast<size_t>(token.id);
        if (id >= tokens.size()) tokens.resize(id + 1);
        if (tokens[id] == token.content) continue;
        if (!tokens[id].empty() && reachable.empty())
            reachable = find_reachable(parts, byte_ids, tokens);
        if (id < reachable.size() && reachable[id]) continue;
        tokens[id] = token.content;
        if (id < spelled.size()) spelled[id] = false;
    }
}

// Refuses a vocabulary without a token for any letter. Other bytes may lack a token: those that
// UTF-8 never has (GPT-NeoX-20B has no token for these 13), and those that the corpus of the
// tokenizer did not have. Only a text with such a byte is refused, by CheckedEncoder.
void check_byte_ids(const std::array<i32, 256>& byte_ids, const std::string& origin) {
    for (char letter = 'a'; letter <= 'z'; ++letter) {
        if (byte_ids[static_cast<u8>(letter)] >= 0) return;
    }
    run_error(origin, "no token for any letter: truncated, or not byte-level BPE");
}

// Gives the bytes without a token the id of the unknown token. Clears parts.unknown if a merge has
// this token: the tables of BpeModel know the merges of a single byte for each id.
void put_unknown(BpeTokenizerParts& parts, std::array<i32, 256>& byte_ids) {
    if (!parts.unknown) return;
    const i32 id = *parts.unknown;
    const bool merges = std::ranges::find(byte_ids, id) != byte_ids.end() ||
                        std::ranges::any_of(parts.files.merges, [id](const Merge& m) {
                            return m.left == id || m.right == id;
                        });
    if (merges) {
        parts.unknown.reset();
    } else {
        std::ranges::replace(byte_ids, -1, id);
    }
}

// Returns whether valid UTF-8 may contain the byte (RFC 3629, section 4).
constexpr bool is_in_utf8(int byte) {
    return byte != 0xC0 && byte != 0xC1 && byte < 0xF5;
}

// Refuses texts with a byte for which the model has no token. Hugging Face's tokenizers drop such a
// byte, which no reader of the dataset could notice.
class CheckedEncoder : public Encoder {
  public:
    CheckedEncoder(const BpeModel& model, std::unique_ptr<Encoder> encoder,
                   const std::string& origin)
        : encoder_(std::move(encoder)), origin_(&origin) {
        for (int byte = 0; byte < 256; ++byte)
            lacks_[static_cast<size_t>(byte)] = model.lacks(static_cast<u8>(byte));
    }
    i64 encode(std::string_view text, IdBuffer& out) override {
        for (const char c : text) {
            if (!lacks_[static_cast<u8>(c)]) continue;
            throw UnknownByte(Exit::failure, fmt::format("{} has no token for the byte {:#04x}",
                                                         *origin_, static_cast<u8>(c)));
        }
        return encoder_->encode(text, out);
    }
    void release() override { encoder_->release(); }
    u64 operations() const override { return encoder_->operations(); }

  private:
    std::array<bool, 256> lacks_{};
    std::unique_ptr<Encoder> encoder_;
    const std::string* origin_;
};

void check_size(size_t n_ids, size_t n_merges, const std::string& origin) {
    constexpr size_t max_ids = BpeModel::no_id - 1, max_merges = BpeModel::no_rank - 1;
    if (n_ids > max_ids) run_error(origin, "{} ids exceed the limit of {}", n_ids, max_ids);
    if (n_merges > max_merges)
        run_error(origin, "{} merges exceed the limit of {}", n_merges, max_merges);
}

// For ignore_merges: calls add_whole_token() for each token that BPE does not produce from the
// bytes of the token. Skips tokens that are not `spelled`, because no pre-token equals them.
void add_whole_tokens(BpeModel& model, const std::vector<bool>& spelled) {
    constexpr i64 grain = 4096;
    constexpr int max_threads = 4;
    const auto n = static_cast<i64>(spelled.size());
    const auto n_grains = static_cast<int>(std::min<i64>(max_threads, ceil_div(n, grain)));
    ThreadPool pool(std::clamp(available_cores(), 1, n_grains));
    std::vector<PretokenEncoder> encoders(static_cast<size_t>(pool.size()), PretokenEncoder(model));
    std::vector<std::vector<i32>> found(encoders.size());
    pool.run_ranges(n, grain, [&](i64 begin, i64 end, int worker) {
        const auto w = static_cast<size_t>(worker);
        for (auto id = static_cast<i32>(begin); id < end; ++id) {
            if (!spelled[static_cast<size_t>(id)]) continue;
            const auto lacks = [&](char c) { return model.lacks(static_cast<u8>(c)); };
            if (std::ranges::any_of(model.token(id), lacks)) continue;  // no text has these bytes
            const std::span<const i32> merged = encoders[w].encode(model.token(id));
            if (merged.size() != 1 || merged[0] != id) found[w].push_back(id);
        }
    });
    for (const std::vector<i32>& ids : found)
        for (const i32 id : ids) model.add_whole_token(id);
}

BpeModel make_model(BpeTokenizerParts& parts, const std::string& origin) {
    std::vector<std::string> tokens = std::move(parts.files.tokens);
    std::array<i32, 256> byte_ids;
    byte_ids.fill(-1);
    std::vector<bool> spelled(tokens.size());
    for (size_t id = 0; id < tokens.size(); ++id) {
        std::optional<std::string> bytes = bytes_of_token(tokens[id]);
        // A token with a character outside the byte map, such as a special token, keeps the text of
        // the file as its bytes.
        if (!bytes) continue;
        spelled[id] = !bytes->empty();
        if (bytes->size() == 1) byte_ids[static_cast<u8>(bytes->front())] = static_cast<i32>(id);
        tokens[id] = std::move(*bytes);
    }
    check_byte_ids(byte_ids, origin);
    put_added(parts, byte_ids, tokens, spelled);
    check_size(tokens.size(), parts.files.merges.size(), origin);
    put_unknown(parts, byte_ids);
    BpeModel model(std::move(tokens), byte_ids, std::move(parts.files.merges));
    if (parts.ignore_merges) add_whole_tokens(model, spelled);
    return model;
}

TextSteps make_text_steps(BpeTokenizerParts& parts) {
    std::vector<AddedToken> raw, normalized;
    for (AddedToken token : parts.added) {
        if (token.normalized) {
            Normalizer::Buffers buffers;
            token.content = std::string(parts.normalizer.apply(token.content, buffers));
        }
        (token.normalized ? normalized : raw).push_back(std::move(token));
    }
    const bool plain = parts.special == SpecialInText::plain;
    return {{std::move(raw), plain}, std::move(parts.normalizer), {std::move(normalized), plain},
            parts.prefix_space,      std::move(parts.prefix),     std::move(parts.suffix)};
}

// Digests everything that determines the ids. Datasets store the digest, so its input must not
// change.
class PartsDigester {
  public:
    std::string digest(const BpeTokenizerParts& parts, const BpeModel& model) {
        text("lm-utils byte-level BPE 2");
        number(static_cast<i64>(parts.rule));
        number(parts.ignore_merges ? 1 : 0);
        number(parts.eod.value_or(-1));
        for (int byte = 0; parts.unknown && byte < 256; ++byte) {
            if (is_in_utf8(byte) && model.byte_id(static_cast<u8>(byte)) == *parts.unknown)
                number(byte);
        }
        number(model.vocab_size());
        for (i32 id = 0; id < model.vocab_size(); ++id) text(model.token(id));
        for (const Merge& merge : model.merges()) {
            for (const i32 id : {merge.left, merge.right, merge.result}) number(id);
            if (collected_.size() >= enough) flush();
        }
        for (const AddedToken& token : parts.added) added(token);
        if (parts.special == SpecialInText::plain && !parts.added.empty()) text("special is plain");
        for (const auto* ids : {&parts.prefix, &parts.suffix}) {
            number(static_cast<i64>(ids->size()));
            for (const i32 id : *ids) number(id);
        }
        for (const NormalizerStep& s : parts.normalizer.steps()) step(s);
        if (parts.prefix_space) text("prefix space");
        flush();
        return digester_.finish();
    }

  private:
    void added(const AddedToken& token) {
        text(token.content);
        number(token.id);
        for (const bool flag :
             {token.special, token.normalized, token.single_word, token.lstrip, token.rstrip}) {
            number(flag ? 1 : 0);
        }
    }
    void step(const NormalizerStep& step) {
        number(static_cast<i64>(step.kind));
        text(step.pattern);
        text(step.content);
        number((step.left ? 1 : 0) + (step.right ? 2 : 0));
    }
    void number(i64 value) { collected_.append(reinterpret_cast<const char*>(&value), 8); }
    void text(std::string_view text) {
        number(static_cast<i64>(text.size()));
        collected_.append(text);
        if (collected_.size() >= enough) flush();
    }
    void flush() {
        digester_.update(std::as_bytes(std::span(collected_)));
        collected_.clear();
    }

    static constexpr size_t enough = size_t{1} << 16;
    Digester digester_;
    std::string collected_;
};

}  // namespace

BpeTokenizer::BpeTokenizer(BpeTokenizerParts parts)
    : type_(std::move(parts.type)),
      origin_(std::move(parts.origin)),
      rule_(parts.rule),
      eod_(parts.eod),
      model_(make_model(parts, origin_)),
      digest_(PartsDigester().digest(parts, model_)),
      text_steps_(make_text_steps(parts)) {}

std::unique_ptr<Encoder> BpeTokenizer::make_encoder(i64 text_bytes) const {
    std::unique_ptr<Encoder> encoder = make_bpe_encoder(model_, rule_, text_bytes);
    bool complete = true;
    for (int byte = 0; byte < 256; ++byte)
        complete &= !is_in_utf8(byte) || !model_.lacks(static_cast<u8>(byte));
    if (!complete) encoder = std::make_unique<CheckedEncoder>(model_, std::move(encoder), origin_);
    return make_text_encoder(text_steps_, std::move(encoder));
}

std::string_view BpeTokenizer::token(i32 id) const {
    if (id < 0 || id >= vocab_size()) {
        run_error(origin_, "id {} is out of range: the vocabulary has {} ids", id, vocab_size());
    }
    if (!has_token(id)) run_error(origin_, "id {} has no token", id);
    return model_.token(id);
}

}  // namespace lm::text
