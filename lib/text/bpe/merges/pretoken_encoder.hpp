// SPDX-License-Identifier: Apache-2.0
// Encodes one pre-token of any length. Each step merges the adjacent pair with the lowest rank, and
// the leftmost of several such pairs, like Hugging Face tokenizers. Takes O(n log n) time.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/types.hpp"
#include "text/bpe/merges/bpe_model.hpp"

namespace lm::text {

// Each thread needs its own encoder, because an encoder holds scratch memory.
class PretokenEncoder {
  public:
    // A pre-token longer than `window` bytes is encoded in windows of that size, so that the data
    // of a window stays in the L1 cache.
    explicit PretokenEncoder(const BpeModel& model, size_t window = 1024)
        : model_(&model), window_(window) {}

    // Returns the ids of `pretoken`. The span is valid until the next call.
    std::span<const i32> encode(std::string_view pretoken);
    // Calls use(span) several times, with all ids of `pretoken` in order. Usually needs memory for
    // one window only.
    template <typename Use>
    void encode(std::string_view pretoken, Use use) {
        for (size_t window = window_; pretoken.size() > window;) {
            begin_window(pretoken, window);
            while (const size_t done = cut_window(pretoken, window)) {
                use(std::span<const i32>(ids_of_window_));
                pretoken.remove_prefix(done);
                ids_of_window_.swap(following_);
                if (pretoken.size() <= window) return use(std::span<const i32>(ids_of_window_));
            }
            // The window has no position to cut at. A larger window may have such a position.
            if (window > largest_window) break;
            window *= 16;
        }
        use(encode(pretoken));
    }

    // Returns the number of pair look-ups and scan steps so far. Tests check that it grows
    // linearly.
    u64 operations() const { return operations_; }

  private:
    static constexpr size_t largest_window = size_t{1} << 19;

    void begin_window(std::string_view pretoken, size_t window);
    size_t cut_window(std::string_view pretoken, size_t window);
    bool are_final(i32 left, i32 right);
    void encode_part(std::string_view part);
    void encode_short(std::string_view part);
    void encode_long(std::string_view part);
    void push_pair(u32 left);
    u32 rank(i32 left, i32 right) {
        ++operations_;
        return model_->rank(left, right);
    }

    struct Node {
        i32 id;
        u32 previous, next;
        u32 rank;  // rank of the pair of this node and the next one
    };

    const BpeModel* model_;
    size_t window_;
    std::vector<i32> ids_, ids_of_window_, following_;
    std::vector<Node> nodes_;
    std::vector<u64> heap_;  // rank << 32 | node: lowest rank first, then leftmost
    u64 operations_ = 0;
};

}  // namespace lm::text
