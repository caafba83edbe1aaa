// SPDX-License-Identifier: Apache-2.0
// GPT-2 ids against golden files, the round trip, linear work, and the loader's refusals.
#include <unistd.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "nasty_text.hpp"
#include "support/all_mergers.hpp"
#include "support/ids.hpp"
#include "support/temp_dir.hpp"
#include "text/bpe/pretoken_encoder.hpp"
#include "text/bpe/pretoken_loops.hpp"
#include "text/bpe/x86/pretoken_loops_aes.hpp"
#include "text/bpe_tokenizer.hpp"
#include "text/byte_tokenizer.hpp"
#include "text/gpt2_tokenizer.hpp"
#include "text/tokenizer.hpp"

using namespace lm;
using namespace lm::text;

namespace {

std::shared_ptr<const Tokenizer> gpt2(SpecialInText special = SpecialInText::plain) {
    return load_gpt2_tokenizer(share_file("tokenizers/gpt2/vocab.json"),
                               share_file("tokenizers/gpt2/merges.txt"), special);
}

int check_golden(const std::string& path) {
    const auto tokenizer = gpt2();
    const auto encoder = tokenizer->make_encoder();
    std::ifstream in(path);
    int n = 0;
    for (std::string line; std::getline(in, line); ++n) {
        const io::Json j = io::parse_json(line, path);
        const auto text = j["text"].get<std::string>();
        INFO(path << ":" << n + 1);
        CHECK(test::ids_of(*encoder, text) == j["ids"].get<std::vector<i32>>());
    }
    return n;
}

std::string failure_of(const std::string& vocab, const std::string& merges) {
    try {
        load_gpt2_tokenizer(vocab, merges, SpecialInText::plain);
    } catch (const Error& e) {
        CHECK(e.code() == Exit::failure);
        return e.what();
    }
    return "no error";
}

}  // namespace

TEST_CASE("gpt2 ids equal the golden ones") {
    CHECK(check_golden(LM_TEST_DIR "/golden/text/gpt2-tokens.jsonl") == 200);
    // Beside the checkout, or beside the worktrees of one.
    std::string full = LM_TEST_DIR "/../../shared/data/tokens.jsonl";
    if (!io::exists(full)) full = LM_TEST_DIR "/../../../shared/data/tokens.jsonl";
    if (!io::exists(full)) {
        WARN("skipped: " << full << " is not here");
        return;
    }
    CHECK(check_golden(full) == 200);
}

TEST_CASE("decode undoes encode") {
    const auto tokenizer = gpt2();
    const auto encoder = tokenizer->make_encoder();
    test::NastyText nasty(7);
    for (int i = 0; i < 5000; ++i) {
        const std::string text = nasty.next(i % 200);
        std::string back;
        tokenizer->decode(test::ids_of(*encoder, text), back);
        if (back != text) FAIL("differs on: " << test::escaped(text));
    }
}

TEST_CASE("a warm encoder gives in 16 bits what a fresh one gives, widened to 32") {
    const auto tokenizer = gpt2();
    const auto warm = tokenizer->make_encoder();
    test::NastyText nasty(9);
    for (int i = 0; i < 300; ++i) {
        const std::string text = nasty.next(60);
        const std::vector<i32> wide = tokenizer->encode(text);
        CHECK(test::narrow_ids_of(*warm, text) == wide);
    }
}

TEST_CASE("work grows linearly on adversarial text") {
    const auto tokenizer = gpt2();
    for (const char* unit :
         {"^", "a", " ", "\u4E00", "\U0001F600", "'s", "_", "\u0301", "ab", "\n"}) {
        u64 work[2];
        for (int k = 0; k < 2; ++k) {
            std::string text;
            while (text.size() < (k == 0 ? 20'000U : 200'000U)) text += unit;
            const auto encoder = tokenizer->make_encoder();
            test::ids_of(*encoder, text);
            work[k] = encoder->operations();
        }
        INFO(unit << ": " << work[0] << " then " << work[1]);
        CHECK(work[1] < 11 * work[0] + 1000);
        CHECK(work[1] < 200'000 * 12);
    }
}

TEST_CASE("long pre-tokens, window by window, become what they become whole") {
    const auto tokenizer = gpt2();
    const BpeModel& model = dynamic_cast<const BpeTokenizer&>(*tokenizer).model();
    std::mt19937 random(3);
    for (const std::string alphabet :
         {"a", "ab", "etaoinshr", "-=_*", "aeiouxyz", "ACGT", "0123"}) {
        for (const size_t window : {40U, 64U, 200U}) {
            std::string pretoken;
            for (int i = 0; i < 3000; ++i) pretoken += alphabet[random() % alphabet.size()];
            PretokenEncoder whole(model), windows(model, window);
            const std::span<const i32> want = whole.encode(pretoken);
            std::vector<i32> got;
            int n_windows = 0;
            windows.encode(pretoken, [&](std::span<const i32> ids) {
                got.insert(got.end(), ids.begin(), ids.end());
                ++n_windows;
            });
            INFO(alphabet << " " << window);
            CHECK(std::ranges::equal(got, want));
            CHECK(n_windows > 1);
        }
    }
}

TEST_CASE("short pre-tokens, many at once, become what they become alone") {
    const auto tokenizer = gpt2();
    const BpeModel& model = dynamic_cast<const BpeTokenizer&>(*tokenizer).model();
    std::mt19937 random(5);
    std::vector<PretokenKey> pretokens;
    for (const std::string alphabet : {"a", "etaoinshr ", "-=_* ", "\xE4\xB8\x80", "01 ab"}) {
        for (size_t size = 1; size <= PretokenKey::longest; ++size) {
            for (int i = 0; i < 40; ++i) {
                std::string pretoken;
                while (pretoken.size() < size) pretoken += alphabet[random() % alphabet.size()];
                pretokens.push_back(PretokenKey::of(pretoken));
            }
        }
    }
    for (const size_t n : {size_t{0}, size_t{1}, size_t{7}, size_t{9}, pretokens.size()}) {
        PretokenEncoder alone(model);
        for (const auto& merger : test::all_mergers(model)) {
            std::vector<ShortIds> merged(n);
            merger->merge(std::span(pretokens).first(n), merged.data());
            for (size_t i = 0; i < n; ++i) {
                INFO(test::escaped(pretokens[i].text()));
                CHECK(std::ranges::equal(std::span(merged[i].ids).first(merged[i].count),
                                         alone.encode(pretokens[i].text())));
            }
        }
    }
}

TEST_CASE("the table of pairs knows every merge and nothing else") {
    std::mt19937 random(7);
    for (const size_t n : {0U, 1U, 2U, 100U, 819U, 820U, 5000U, 52'428U, 128'000U}) {
        std::vector<u64> keys;
        const auto id = [&] { return static_cast<i32>(random() % (n < 1000 ? 64 : 1U << 21)); };
        while (keys.size() < n) {
            keys.push_back(PairTable::key_of(id(), id()));
            if (keys.size() < n) continue;
            std::ranges::sort(keys);
            keys.erase(std::ranges::unique(keys).begin(), keys.end());
        }
        std::ranges::shuffle(keys, random);
        const PairTable table(keys);
        for (size_t rank = 0; rank < n; ++rank) CHECK(table.find(keys[rank]) == rank);
        const std::set<u64> known(keys.begin(), keys.end());
        for (int i = 0; i < 10'000; ++i) {
            const u64 key = PairTable::key_of(id(), id());
            if (!known.contains(key)) CHECK(table.find(key) == PairTable::no_rank);
        }
    }
    const u64 twice[] = {PairTable::key_of(1, 2), PairTable::key_of(1, 2)};
    CHECK_THROWS(PairTable(twice));
}

// Keys, long pre-tokens, what is found and what is missing: the same whatever the hash.
template <typename Id>
void compare_loops(const PretokenLoops<Id>& aes) {
    const PretokenLoops<Id> portable = portable_loops<Id>();
    PretokenCache<Id> cache, other_cache;
    const auto batch = std::make_unique<PretokenBatch<Id>>(cache);
    const auto other = std::make_unique<PretokenBatch<Id>>(other_cache);
    std::string text;
    const i64 n = PretokenBatch<Id>::capacity;
    for (u32 i = 0; i < n; ++i) {
        text.append(1 + i % 18, static_cast<char>('a' + i % 26));
        batch->ends[i] = other->ends[i] = static_cast<u32>(text.size());
    }
    text.append(16, ' ');
    portable.load(text.data(), 0, n, *batch, cache);
    for (const i64 i : {0, 1, 7, 100})  // a batch may be loaded bit by bit
        aes.load(text.data(), i, i == 0 ? 1 : i == 1 ? 7 : i == 7 ? 100 : n, *other, other_cache);
    REQUIRE(std::ranges::equal(
        std::span(batch->long_pretokens).first(static_cast<size_t>(batch->n_long)),
        std::span(other->long_pretokens).first(static_cast<size_t>(other->n_long))));
    CHECK(batch->n_long > 0);
    std::set<const void*> lines;
    for (i64 i = 0; i < n; ++i) {
        CHECK(batch->keys[i] == other->keys[i]);
        CHECK(aes.place_of(batch->keys[i], other_cache) == other->at[i]);
        const bool alone =
            lines.insert(std::min(batch->at[i], cache.neighbour_of(batch->at[i]))).second &&
            lines.insert(std::min(other->at[i], other_cache.neighbour_of(other->at[i]))).second;
        if (i % 5 == 0 || !alone || !batch->keys[i].is_short()) continue;
        const i32 ids[PackedIds<Id>::most] = {static_cast<i32>(i), static_cast<i32>(i + 1)};
        typename PretokenCache<Id>::Entry entry{batch->keys[i], {}};
        entry.ids.set(ids, static_cast<u32>(1 + i % 2));
        cache.insert(batch->at[i], entry);
        other_cache.insert(other->at[i], entry);
    }
    for (const i64 from : {0, 1, 15, 16, 77}) {
        for (const i64 to : {i64{78}, n - 17, n}) {
            u32 missing[PretokenBatch<Id>::capacity + 16],
                other_missing[PretokenBatch<Id>::capacity + 16];
            const i64 n_missing = portable.find_missing(*batch, from, to, missing);
            REQUIRE(n_missing == aes.find_missing(*other, from, to, other_missing));
            CHECK(std::equal(missing, missing + n_missing, other_missing));
            CHECK((n_missing > 0 || to - from < 20));
        }
    }
}

template <typename Id>
void check_copy(i32 largest) {
    PretokenCache<Id> cache;
    const auto batch = std::make_unique<PretokenBatch<Id>>(cache);
    constexpr u32 most = PackedIds<Id>::most;
    typename PretokenCache<Id>::Entry entries[most + 2] = {};
    std::vector<Id> want;
    for (u32 i = 1; i <= most + 1; ++i) {
        std::vector<i32> ids;
        for (u32 k = 0; k < most; ++k) ids.push_back(largest - static_cast<i32>(10 * i + k));
        entries[i].ids.set(ids.data(), i == most ? PackedIds<Id>::elsewhere : std::min(i, most));
        if (i < most) want.insert(want.end(), ids.begin(), ids.begin() + i);
        batch->at[i] = &entries[i];
    }
    Id ids[100];
    Id* out = ids;
    CHECK(copy_ids(*batch, 1, most + 2, out) == most);
    CHECK(std::ranges::equal(std::span(ids, out), want));
    Id* const behind = out;
    CHECK(copy_ids(*batch, most + 1, most + 2, out) == most + 2);
    CHECK(out - behind == most);
}

TEST_CASE("ids are copied up to the first pre-token that has more than an entry holds") {
    check_copy<u16>(0xFFFF);
    check_copy<i32>(BpeModel::no_id);
}

TEST_CASE("the loops over pre-tokens do the same on every machine") {
    if (!has_aes_loops()) return;
    for (const bool wide : {false, has_wide_aes()}) {
        compare_loops<u16>(aes_loops<u16>(wide));
        compare_loops<i32>(aes_loops<i32>(wide));
    }
}

TEST_CASE("a megabyte of one character takes a few steps a byte") {
    const auto tokenizer = gpt2();
    for (const char* unit : {"^", "a", "=-"}) {
        std::string text;
        while (text.size() < (size_t{1} << 20)) text += unit;
        const auto encoder = tokenizer->make_encoder();
        test::ids_of(*encoder, text);
        CHECK(encoder->operations() < 12 * text.size());
    }
}

TEST_CASE("the narrow table of pairs knows every merge and nothing else") {
    std::mt19937 random(8);
    for (const size_t n : {0U, 1U, 100U, 5000U, 50'000U}) {
        const u32 n_ids = n < 1000 ? 64 : 0xFFFF;
        const auto key = [&] {
            return NarrowPairTable::key_of(random() % n_ids, random() % n_ids);
        };
        std::set<u32> known;
        while (known.size() < n) known.insert(key());
        std::vector<u32> keys(known.begin(), known.end());
        std::ranges::shuffle(keys, random);
        const NarrowPairTable table(keys);
        REQUIRE(table.ok());
        for (u32 rank = 0; rank < n; ++rank) CHECK(table.probe(keys[rank]).rank_or_more() == rank);
        for (int i = 0; i < 100'000; ++i) {
            const u32 other =
                i % 2 == 0 || keys.empty() ? key() : keys[random() % n] ^ 1U << random() % 32;
            if (!known.contains(other))
                CHECK(table.probe(other).rank_or_more() >= NarrowPairTable::none);
        }
    }
}

TEST_CASE("special tokens in text") {
    const std::string text = "a<|endoftext|>b<|endoftext";
    CHECK(gpt2()->encode("<|endoftext|>") == std::vector<i32>{27, 91, 437, 1659, 5239, 91, 29});
    CHECK(gpt2(SpecialInText::parse)->encode(text) ==
          std::vector<i32>{64, 50256, 65, 27, 91, 437, 1659, 5239});
    CHECK(gpt2()->eod() == 50256);
    CHECK(gpt2()->vocab_size() == 50257);
    CHECK(gpt2()->digest() != gpt2(SpecialInText::parse)->digest());
}

TEST_CASE("damaged tables are refused with the place") {
    const std::string vocab = share_file("tokenizers/gpt2/vocab.json");
    const std::string merges = share_file("tokenizers/gpt2/merges.txt");
    const std::string dir = "/tmp/lm-gpt2-test." + std::to_string(::getpid());
    io::make_directories(dir);
    const std::string bad = dir + "/bad";
    const auto with = [&](const std::string& content) {
        io::write_file(bad, content, io::Overwrite::yes);
        return bad;
    };
    using Catch::Contains;
    CHECK_THAT(failure_of(dir + "/none", merges), Contains("/none"));
    CHECK_THAT(failure_of(with(io::read_file(vocab).substr(0, 500'000)), merges),
               Contains("truncated"));
    CHECK_THAT(failure_of(with(""), merges), Contains("bad: "));
    CHECK_THAT(failure_of(with("{\"a\": 0, \"b\": 0}"), merges), Contains("duplicate"));
    CHECK_THAT(failure_of(with("{\"a\": 0, \"b\": 7}"), merges), Contains("out of range"));
    CHECK_THAT(failure_of(with("{\"a\": 0, \"b\": 1}"), dir + "/none"), Contains("/none"));
    // At the end of a line, where no line is malformed.
    const std::string all = io::read_file(merges);
    CHECK_THAT(failure_of(vocab, with(all.substr(0, all.find('\n', all.size() / 2) + 1))),
               Contains("truncated"));
    CHECK_THAT(failure_of(vocab, with(all.substr(0, all.rfind('\n', all.size() - 2) + 1))),
               Contains("(id 50255)") && Contains("truncated"));
    CHECK_THAT(failure_of(vocab, with("#version: 0.2\n")), Contains("truncated"));
    CHECK_THAT(failure_of(vocab, with("#version: 0.2\na b c\n")), Contains("bad:2: "));
    CHECK_THAT(failure_of(vocab, with("#version: 0.2\nh e\nh e\n")), Contains("bad:3: "));
    CHECK_THAT(failure_of(vocab, with("#version: 0.2\nqqq zzz\n")),
               Contains("is not in the vocabulary"));
    io::remove_tree(dir);
}

TEST_CASE("a few tokens that no merge makes are special ones") {
    const test::TempDir scratch;
    const std::string merges = share_file("tokenizers/gpt2/merges.txt");
    std::vector<std::string> warnings;
    set_log_sink([&](Severity, std::string_view text) { warnings.emplace_back(text); });
    // The second could be a merge.
    for (const std::string added : {"[PAD]", "hellohello"}) {
        io::Json vocab = io::Json::parse(io::read_file(share_file("tokenizers/gpt2/vocab.json")));
        vocab[added] = 50257;
        const std::string path = scratch / "vocab.json";
        io::write_file(path, vocab.dump(), io::Overwrite::yes);
        warnings.clear();
        const auto tokenizer = load_gpt2_tokenizer(path, merges, SpecialInText::plain);
        CHECK(tokenizer->vocab_size() == 50258);
        REQUIRE(warnings.size() == 1);
        CHECK_THAT(
            warnings[0],
            Catch::Contains(fmt::format(
                "1 tokens are the result of no merge, the first is '{}' (id 50257)", added)));
        const std::string text = "a [PAD] hellohello b";
        CHECK(tokenizer->encode(text) == gpt2()->encode(text));
    }
    set_log_sink({});
}

TEST_CASE("bytes") {
    const auto tokenizer = make_byte_tokenizer();
    CHECK(tokenizer->encode("a\xFF") == std::vector<i32>{97, 255});
    CHECK(tokenizer->vocab_size() == 257);
    std::string back;
    tokenizer->decode(std::vector<i32>{104, 105, 256}, back);
    CHECK(back == "hi");
}
