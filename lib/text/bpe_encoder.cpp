// SPDX-License-Identifier: Apache-2.0
// Why a cache in front of the merges, and why merges wait for a batch.
//
// BPE looks expensive: each merge is a search for the pair with the lowest rank, and each pair is a
// look-up in a table. But text repeats itself. Of the 63.1 million pre-tokens in 260 MB of English
// 757,000 are different, and the 1,000 commonest are 71 % of all (bench/preprocess.md). So the
// encoder is first of all a cache, and merging is the path for about 2 of 100 pre-tokens. This
// division decides the design of both.
//
// The cache belongs to one worker and has no lock. Hugging Face tokenizers has one of 10,000 words
// for all threads, behind a lock; tiktoken has none, and merges each pre-token that is not itself a
// token. An entry is found by comparing the bytes of the pre-token, not a hash of them, so a
// collision costs time and never a wrong id. An entry of a short pre-token is half a cache line,
// and the two places where it may be are one line: a look-up is at most one miss of the memory,
// which load() has prefetched. Its 2 to 32 MiB depend on the size of the input, because the kernel
// clears every page, which for a small file may take longer than encoding it.
//
// Merges of a single new pre-token are slow because of latency: the next pair is known only after
// the last look-up. Hence they are collected in batches of 2,048 pre-tokens, which contain some
// dozens of new ones, and eight are merged in turn, so that the look-ups of one wait while others
// compute. With AVX-512 VBMI2 a pre-token is a register of tokens and a register of ranks. Batches
// of 256 had three new pre-tokens each, too few; 2,048 took 0.69 s of user time instead of 0.77 s
// for the 270 MB of JSON. The table of merges has one slot for each pair, by a perfect hash,
// because nearly all look-ups are of pairs that do not merge, and a table with probing searches
// longest for these.
//
// Exactness does not depend on any of this. tests/fuzz/bpe_fuzz.cpp compares every path with a
// plain algorithm that is written for the test alone, for random tables of merges, with empty and
// with filled caches. A pre-token of any length that fits no fast path goes to PretokenEncoder, in
// O(n log n) time.
//
// What was tried and dropped is in bench/preprocess.md: a small cache of the hottest words in front
// (0.80 s instead of 0.74 s), more lanes, larger batches, batches across documents.
//
// The cost is about 2,800 lines where a textbook needs 100, loops that exist twice, portable and
// for x86, and 4 to 40 MiB for each worker. Multilingual text gains less: runs of Chinese or
// Japanese characters without spaces are long and mostly new, so it reaches 40 to 42 % of the speed
// of English. For a corpus of such text alone the next step would be faster merges, not a larger
// cache.
#include "text/bpe_encoder.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "text/bpe/pretoken_ids.hpp"

namespace lm::text {
namespace {

// Id is the type of ids in the caches and in the output: u16 if the vocabulary allows it, else i32.
//
// A batch of pre-tokens is encoded in spans. Short pre-tokens, and long ones (more than 15 bytes)
// that are in the cache, need only a copy of their ids. A new long pre-token is cut where no merge
// crosses (BpeModel::may_join). Its parts are gathered with the parts of other new long pre-tokens,
// and find() and merge_longs() process all of these parts together. A pre-token that gather()
// refuses ends the span and is encoded separately.
template <typename Id>
class BpeEncoder : public Encoder {
  public:
    BpeEncoder(const BpeModel& model, PretokenizerRule rule, i64 text_bytes)
        : model_(&model), pretokenizer_(make_pretokenizer(rule)), ids_(model, text_bytes) {}

    i64 encode(std::string_view text, IdBuffer& out) override {
        const i64 before = out.count();
        pretokenizer_->start(text);
        batch_.begin = 0;
        while (fill_batch(text)) {
            encode_batch(text, out);
            batch_.begin = batch_.ends[batch_.n - 1];
        }
        return out.count() - before;
    }

    u64 operations() const override { return ids_.operations(); }

  private:
    using Batch = PretokenBatch<Id>;

    // A long pre-token of the batch that is not in the cache and that gather() has accepted.
    struct NewLong {
        u32 index;
        i64 first_part, end_part;  // range in parts_
        size_t n_ids;              // 0: not encoded yet
    };

    // Fills the batch. Each round cuts up to 128 pre-tokens and prefetches their cache places. The
    // prefetches complete while the next round cuts.
    bool fill_batch(std::string_view text) {
        constexpr i64 some = 128;  // the smallest capacity that Pretokenizer::next() accepts
        batch_.clear();
        while (batch_.n + some <= Batch::capacity) {
            const i64 n = pretokenizer_->next(batch_.ends + batch_.n, some);
            if (n == 0) break;
            ids_.load(text, batch_.n + n, batch_);
        }
        return batch_.n > 0;
    }

    // Encodes the batch in spans. A span ends at each new long pre-token that gather() refuses.
    void encode_batch(std::string_view text, IdBuffer& out) {
        i64 begin = 0;
        for (const u32 i : batch_.longs()) {
            if (ids_.has_long(batch_, text, i) || gather(text, i)) continue;
            encode_span(text, begin, i, out);
            encode_alone(text, i, out);
            begin = i + 1;
        }
        encode_span(text, begin, batch_.n, out);
    }

    // Encodes the pre-tokens [i, n). Encodes the gathered parts first, as a separate batch.
    void encode_span(std::string_view text, i64 i, i64 n, IdBuffer& out) {
        if (i == n) return;
        encode_gathered(text);
        ids_.find(batch_, i, n);
        out.append<Id>(max_ids(batch_, i, n), [&](Id* to) {
            const Id* ids = new_long_ids_.data();
            for (const NewLong& pretoken : new_longs_) {
                to = ids_.copy(batch_, text, i, pretoken.index, to);
                to = std::copy_n(ids, pretoken.n_ids, to);
                ids += pretoken.n_ids;
                i = pretoken.index + 1;
            }
            return ids_.copy(batch_, text, i, n, to);
        });
        ids_.keep(batch_);
        new_longs_.clear();
        new_long_ids_.clear();
    }

    // Returns the number of ids for which encode_span() reserves memory. A pre-token has at most
    // one id for each byte.
    static i64 max_ids(const Batch& batch, i64 i, i64 n) {
        constexpr i64 slack = 16;  // copies may write this many ids beyond the end
        return static_cast<i64>(batch.ends[n - 1] - batch.begin_of(i)) + slack;
    }

    // Gathers the parts of a new long pre-token. Returns false and gathers nothing if the pre-token
    // is too long, or if it or one of its parts equals a token of BpeModel::add_whole_token(),
    // because the id of such a token is valid only for a whole pre-token. encode_alone() then
    // encodes the pre-token.
    bool gather(std::string_view text, u32 index) {
        const std::string_view pretoken = batch_.pretoken(text, index);
        if (pretoken.size() > longest_gathered) return false;
        const auto n_bytes = static_cast<u32>(pretoken.size());
        if (n_parts_ + n_bytes > Batch::capacity || gathered_end() + n_bytes > gathered_bytes)
            encode_gathered(text);
        const u32 begin = gathered_end();
        std::memcpy(gathered_ + begin, pretoken.data(), n_bytes);
        i64 n = n_parts_;
        for (u32 i = 1; i < n_bytes; ++i) {
            parts_.ends[n] = begin + i;
            n += may_cut(pretoken, i) ? 1 : 0;
        }
        parts_.ends[n++] = begin + n_bytes;
        if (model_->has_whole_tokens() && has_whole(pretoken, n)) return false;
        new_longs_.push_back({index, n_parts_, n, 0});
        n_parts_ = n;
        return true;
    }

    u32 gathered_end() const { return n_parts_ == 0 ? 0 : parts_.ends[n_parts_ - 1]; }

    bool may_cut(std::string_view pretoken, size_t i) const {
        return !model_->may_join(static_cast<u8>(pretoken[i - 1]), static_cast<u8>(pretoken[i]));
    }

    // Returns whether the pre-token or one of its parts [n_parts_, n) equals a whole
    // token (BpeModel::add_whole_token()).
    bool has_whole(std::string_view pretoken, i64 n) const {
        bool found = model_->find_whole(pretoken) >= 0;
        for (i64 i = n_parts_; i < n; ++i) {
            const u32 begin = i == 0 ? 0 : parts_.ends[i - 1];
            found |= model_->find_whole({gathered_ + begin, parts_.ends[i] - begin}) >= 0;
        }
        return found;
    }

    // Encodes the gathered parts. Appends the joined ids of each pre-token to new_long_ids_, and
    // inserts them into the cache. `text` is the text of the batch.
    void encode_gathered(std::string_view text) {
        if (n_parts_ == 0) return;
        const std::string_view gathered(gathered_, sizeof gathered_);
        size_t n_ids = new_long_ids_.size();
        new_long_ids_.resize(n_ids + gathered_end() + 16);
        parts_.begin = 0;
        parts_.clear();
        ids_.load(gathered, n_parts_, parts_);
        ids_.find(parts_, 0, n_parts_);
        ids_.merge_longs(parts_, gathered);
        for (NewLong& pretoken : new_longs_) {
            if (pretoken.n_ids > 0) continue;
            Id* const ids = new_long_ids_.data() + n_ids;
            const Id* const end =
                ids_.copy(parts_, gathered, pretoken.first_part, pretoken.end_part, ids);
            pretoken.n_ids = static_cast<size_t>(end - ids);
            n_ids += pretoken.n_ids;
            ids_.keep_long(batch_, text, pretoken.index, {ids, pretoken.n_ids});
        }
        new_long_ids_.resize(n_ids);
        ids_.keep(parts_);
        n_parts_ = 0;
    }

    // Encodes a new long pre-token that gather() refused because it is too long, or because the
    // pre-token or one of its parts equals a whole token.
    void encode_alone(std::string_view text, u32 index, IdBuffer& out) {
        const std::string_view pretoken = batch_.pretoken(text, index);
        if (const i32 whole = model_->find_whole(pretoken); whole >= 0) return out.push(whole);
        if (pretoken.size() > longest_gathered) return encode_parts(pretoken, out);
        alone_.clear();
        encode_parts(pretoken, alone_);
        const std::span<const Id> ids = alone_.ids<Id>();
        ids_.keep_long(batch_, text, index, ids);
        out.append<Id>(alone_.size(),
                       [&](Id* to) { return std::copy(ids.begin(), ids.end(), to); });
    }

    // Encodes a pre-token part by part, in batches. Merges a part directly if it is too long for
    // the caches, or if it equals a whole token (BpeModel::add_whole_token()), because the caches
    // would return the id of this token, which is valid only when the whole pre-token equals the
    // token.
    void encode_parts(std::string_view pretoken, IdBuffer& out) {
        const bool any_whole = model_->has_whole_tokens();
        parts_.begin = 0;
        u32 begin = 0;  // start of the current part
        i64 n = 0;
        for (u32 i = 1; i <= pretoken.size(); ++i) {
            if (i < pretoken.size() && !may_cut(pretoken, i)) continue;
            const std::string_view part = pretoken.substr(begin, i - begin);
            begin = i;
            const bool cached =
                part.size() <= longest_gathered && !(any_whole && model_->find_whole(part) >= 0);
            if (cached) parts_.ends[n++] = i;
            if (i < pretoken.size() && n < Batch::capacity && cached) continue;
            encode_some_parts(pretoken, n, out);
            if (!cached) ids_.merge(part, out);
            parts_.begin = i;
            n = 0;
        }
    }

    void encode_some_parts(std::string_view pretoken, i64 n, IdBuffer& out) {
        if (n == 0) return;
        parts_.clear();
        ids_.load(pretoken, n, parts_);
        ids_.find(parts_, 0, n);
        out.append<Id>(max_ids(parts_, 0, n),
                       [&](Id* to) { return ids_.copy(parts_, pretoken, 0, n, to); });
        ids_.keep(parts_);
    }

    static constexpr size_t gathered_bytes = size_t{1} << 14;
    static constexpr size_t longest_gathered = 1024;  // in bytes, so at most 1024 parts

    const BpeModel* model_;
    std::unique_ptr<Pretokenizer> pretokenizer_;
    PretokenIds<Id> ids_;
    Batch batch_{ids_.cache()}, parts_{ids_.cache()};
    // The bytes of the gathered pre-tokens of a span. PretokenMerger reads bytes after each part.
    char gathered_[gathered_bytes + MediumIds::longest + 16];
    i64 n_parts_ = 0;
    std::vector<NewLong> new_longs_;
    std::vector<Id> new_long_ids_;  // ids of all pre-tokens of new_longs_
    IdBuffer alone_{sizeof(Id) == sizeof(i32)};
};

}  // namespace

std::unique_ptr<Encoder> make_bpe_encoder(const BpeModel& model, PretokenizerRule rule,
                                          i64 text_bytes) {
    if (model.vocab_size() <= 65536)
        return std::make_unique<BpeEncoder<u16>>(model, rule, text_bytes);
    return std::make_unique<BpeEncoder<i32>>(model, rule, text_bytes);
}

}  // namespace lm::text
