// SPDX-License-Identifier: Apache-2.0
// BpeTrainer against a slow reference, and PretokenCounter with any number of threads and dropped
// pre-tokens.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "nasty_text.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"
#include "text/bpe/bpe_trainer.hpp"
#include "text/bpe/pretoken_counts.hpp"
#include "text/gpt2_tokenizer.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer_json/read_tokenizer.hpp"
#include "text/tokenizer_json/write_tokenizer.hpp"

using namespace lm;
using namespace lm::text;

namespace {

using Counts = std::map<std::string, i64>;

Counts random_counts(u64 seed, int n_pretokens) {
    test::NastyText nasty(seed);
    Counts counts;
    for (int i = 0; i < n_pretokens; ++i) {
        const std::string pretoken = nasty.next(1 + static_cast<int>(nasty.draw(6)));
        if (!pretoken.empty()) counts[pretoken] += 1 + static_cast<i64>(nasty.draw(9));
    }
    return counts;
}

// The reference: counts all pairs before every merge.
class SlowTrainer {
  public:
    SlowTrainer(const Counts& counts, const TrainedBpe& start) : tokens_(start.tokens) {
        for (const auto& [pretoken, count] : counts) {
            std::vector<i32> word;
            for (const char c : pretoken) word.push_back(id_of(token_of_byte(c)));
            words_.emplace_back(std::move(word), count);
        }
    }
    std::vector<Merge> train(size_t vocab_size, i64 min_frequency) {
        std::vector<Merge> merges;
        while (tokens_.size() < vocab_size) {
            std::map<std::pair<i32, i32>, i64> pairs;
            for (const auto& [word, count] : words_) {
                for (size_t i = 0; i + 1 < word.size(); ++i) pairs[{word[i], word[i + 1]}] += count;
            }
            const auto best = std::ranges::max_element(
                pairs, [](const auto& a, const auto& b) { return a.second < b.second; });
            if (best == pairs.end() || best->second < min_frequency) break;
            const auto [left, right] = best->first;
            const i32 result = make(left, right);
            merges.push_back({left, right, result});
            for (auto& [word, count] : words_) replace(word, merges.back());
        }
        return merges;
    }

  private:
    static std::string token_of_byte(char c) {
        BpeTrainer bytes({});
        return bytes.train(256, 1).tokens[static_cast<size_t>(rank_of_byte(c))];
    }
    static int rank_of_byte(char c) {
        // Visible characters first, as in vocab.json.
        const auto visible = [](int b) {
            return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        };
        const int byte = static_cast<u8>(c);
        int rank = 0;
        for (int b = 0; b < 256; ++b) {
            if (visible(b) != visible(byte) ? visible(b) : b < byte) ++rank;
        }
        return rank;
    }
    i32 id_of(const std::string& token) const {
        return static_cast<i32>(std::ranges::find(tokens_, token) - tokens_.begin());
    }
    i32 make(i32 left, i32 right) {
        const std::string token =
            tokens_[static_cast<size_t>(left)] + tokens_[static_cast<size_t>(right)];
        const i32 id = id_of(token);
        if (static_cast<size_t>(id) == tokens_.size()) tokens_.push_back(token);
        return id;
    }
    static void replace(std::vector<i32>& word, const Merge& merge) {
        for (size_t i = 0; i + 1 < word.size(); ++i) {
            if (word[i] != merge.left || word[i + 1] != merge.right) continue;
            word[i] = merge.result;
            word.erase(word.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        }
    }

    std::vector<std::string> tokens_;
    std::vector<std::pair<std::vector<i32>, i64>> words_;
};

TrainedBpe train(const Counts& counts, i64 vocab_size, i64 min_frequency = 2) {
    BpeTrainer trainer({"<|endoftext|>"});
    for (const auto& [pretoken, count] : counts) trainer.add(pretoken, count);
    return trainer.train(vocab_size, min_frequency);
}

}  // namespace

TEST_CASE("BpeTrainer: merges equal those of the reference") {
    for (u64 seed = 0; seed < 8; ++seed) {
        const Counts counts = random_counts(seed, 120);
        const TrainedBpe fast = train(counts, 257 + 60);
        const std::vector<Merge> slow = SlowTrainer(counts, train({}, 257)).train(257 + 60, 2);
        REQUIRE(fast.merges.size() == slow.size());
        for (size_t i = 0; i < slow.size(); ++i) {
            INFO("seed " << seed << ", merge " << i);
            CHECK(fast.merges[i].left == slow[i].left);
            CHECK(fast.merges[i].right == slow[i].right);
            CHECK(fast.merges[i].result == slow[i].result);
        }
    }
}

TEST_CASE("BpeTrainer: a long run of one character takes linear time") {
    const TrainedBpe bpe = train({{std::string(1 << 20, 'a'), 1}}, 300);
    // aa, aaaa, ...: each merge halves the number of tokens.
    REQUIRE(bpe.merges.size() == 19);
    CHECK(bpe.tokens[257 + 18].size() == size_t{1} << 19);
    CHECK(bpe.corpus_tokens == 2);
}

TEST_CASE("BpeTrainer: no merge results in a special token") {
    BpeTrainer trainer({"<s>"});
    trainer.add("<s>", 100);
    const TrainedBpe bpe = trainer.train(400, 1);
    CHECK(bpe.tokens.size() == 258);  // the merge to "<s" or to "s>", not both
    CHECK_THROWS_WITH(BpeTrainer({"a"}), HasInOrder("'a' ", "duplicate"));
}

TEST_CASE("PretokenCounter: counts do not depend on the number of threads") {
    std::vector<std::string> pretokens;
    test::NastyText nasty(3);
    for (int i = 0; i < 20000; ++i) pretokens.push_back("x" + nasty.next(2));
    std::vector<Counts> results;
    for (const int n_threads : {1, 4}) {
        for (const i64 most : {i64{1'000'000}, i64{300}}) {
            ThreadPool pool(n_threads);
            PretokenCounter counter(pool.size(), most);
            for (size_t round = 0; round < pretokens.size(); round += 4000) {
                pool.run(4000, [&](i64 task, int worker) {
                    counter.add(worker, pretokens[round + static_cast<size_t>(task)]);
                });
                counter.end_round(pool);
                CHECK(counter.size() <= most);
            }
            CHECK((counter.dropped_count() > 0) == (most == 300));
            Counts& counts = results.emplace_back();
            counter.for_each(
                [&](std::string_view pretoken, i64 n) { counts.emplace(pretoken, n); });
        }
    }
    Counts expected;
    for (const std::string& pretoken : pretokens) ++expected[pretoken];
    CHECK(results[0] == expected);
    CHECK(results[2] == expected);
    CHECK(results[1] == results[3]);
}

TEST_CASE("a trained tokenizer gives the same ids from all its files") {
    const test::TempDir dir;
    const Counts counts = random_counts(11, 300);
    const TrainedBpe bpe = train(counts, 400);
    TokenizerDesign design;
    design.special = {"<|endoftext|>"};
    io::write_file(dir / "vocab.json", vocab_json(bpe), io::Overwrite::no);
    io::write_file(dir / "merges.txt", merges_txt(bpe), io::Overwrite::no);
    io::write_file(dir / "tokenizer.json", tokenizer_json(bpe, design), io::Overwrite::no);
    io::write_file(dir / "tokenizer_config.json", tokenizer_config_json(design), io::Overwrite::no);
    const auto a =
        load_gpt2_tokenizer(dir / "vocab.json", dir / "merges.txt", SpecialInText::parse);
    const auto b = load_hf_tokenizer(dir.path(), SpecialInText::parse);
    CHECK(a->eod() == 0);
    CHECK(b->eod() == 0);
    CHECK(a->vocab_size() == 400);
    test::NastyText nasty(12);
    for (int i = 0; i < 200; ++i) {
        const std::string text = nasty.next(40) + "<|endoftext|>";
        CHECK(a->encode(text) == b->encode(text));
    }
}
