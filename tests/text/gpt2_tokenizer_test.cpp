// SPDX-License-Identifier: Apache-2.0
// The ids of GPT-2 against golden files, the round trip, linear time, and errors of the loader.
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "nasty_text.hpp"
#include "support/catch.hpp"
#include "support/ids.hpp"
#include "support/temp_dir.hpp"
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
    const auto encoder = tokenizer->make_encoder(-1);
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

TEST_CASE("gpt2: ids equal the golden ones") {
    CHECK(check_golden(LM_TEST_DIR "/golden/text/gpt2-tokens.jsonl") == 200);
    // All golden ids are in shared/ next to the checkout, or next to its worktrees.
    std::string full = LM_TEST_DIR "/../../shared/data/tokens.jsonl";
    if (!io::exists(full)) full = LM_TEST_DIR "/../../../shared/data/tokens.jsonl";
    if (!io::exists(full)) {
        WARN("skipped: " << full << " does not exist");
        return;
    }
    CHECK(check_golden(full) == 200);
}

TEST_CASE("gpt2: decode inverts encode") {
    const auto tokenizer = gpt2();
    const auto encoder = tokenizer->make_encoder(-1);
    test::NastyText nasty(7);
    for (int i = 0; i < 5000; ++i) {
        const std::string text = nasty.next(i % 200);
        std::string back;
        tokenizer->decode(test::ids_of(*encoder, text), back);
        if (back != text) FAIL("differs on: " << test::escaped(text));
    }
}

TEST_CASE("gpt2: 16-bit ids of an encoder with a full cache equal 32-bit ids of a new one") {
    const auto tokenizer = gpt2();
    const auto warm = tokenizer->make_encoder(-1);
    test::NastyText nasty(9);
    for (int i = 0; i < 300; ++i) {
        const std::string text = nasty.next(60);
        const std::vector<i32> wide = tokenizer->encode(text);
        CHECK(test::narrow_ids_of(*warm, text) == wide);
    }
}

TEST_CASE("gpt2: encoding takes linear time on adversarial text") {
    const auto tokenizer = gpt2();
    for (const char* unit :
         {"^", "a", " ", "\u4E00", "\U0001F600", "'s", "_", "\u0301", "ab", "\n"}) {
        u64 work[2];
        for (int k = 0; k < 2; ++k) {
            std::string text;
            while (text.size() < (k == 0 ? 20'000U : 200'000U)) text += unit;
            const auto encoder = tokenizer->make_encoder(-1);
            test::ids_of(*encoder, text);
            work[k] = encoder->operations();
        }
        INFO(unit << ": " << work[0] << " then " << work[1]);
        CHECK(work[1] < 11 * work[0] + 1000);
        CHECK(work[1] < 200'000 * 12);
    }
}

TEST_CASE("gpt2: a megabyte of one character takes at most 12 steps a byte") {
    const auto tokenizer = gpt2();
    for (const char* unit : {"^", "a", "=-"}) {
        std::string text;
        while (text.size() < (size_t{1} << 20)) text += unit;
        const auto encoder = tokenizer->make_encoder(-1);
        test::ids_of(*encoder, text);
        CHECK(encoder->operations() < 12 * text.size());
    }
}

TEST_CASE("gpt2: special tokens in text") {
    const std::string text = "a<|endoftext|>b<|endoftext";
    CHECK(gpt2()->encode("<|endoftext|>") == std::vector<i32>{27, 91, 437, 1659, 5239, 91, 29});
    CHECK(gpt2(SpecialInText::parse)->encode(text) ==
          std::vector<i32>{64, 50256, 65, 27, 91, 437, 1659, 5239});
    CHECK(gpt2()->eod() == 50256);
    CHECK(gpt2()->vocab_size() == 50257);
    CHECK(gpt2()->digest() != gpt2(SpecialInText::parse)->digest());
}

TEST_CASE("gpt2: errors name the file and line of an invalid entry") {
    const std::string vocab = share_file("tokenizers/gpt2/vocab.json");
    const std::string merges = share_file("tokenizers/gpt2/merges.txt");
    const std::string dir = "/tmp/lm-gpt2-test." + std::to_string(::getpid());
    io::make_directories(dir);
    const std::string bad = dir + "/bad";
    const auto with = [&](const std::string& content) {
        io::write_file(bad, content, io::Overwrite::yes);
        return bad;
    };
    CHECK_THAT(failure_of(dir + "/none", merges), ContainsSubstring("/none"));
    CHECK_THAT(failure_of(with(io::read_file(vocab).substr(0, 500'000)), merges),
               ContainsSubstring("truncated"));
    CHECK_THAT(failure_of(with(""), merges), ContainsSubstring("bad: "));
    CHECK_THAT(failure_of(with("{\"a\": 0, \"b\": 0}"), merges), ContainsSubstring("duplicate"));
    CHECK_THAT(failure_of(with("{\"a\": 0, \"b\": 7}"), merges), ContainsSubstring("out of range"));
    CHECK_THAT(failure_of(with("{\"a\": 0, \"b\": 1}"), dir + "/none"), ContainsSubstring("/none"));
    // Truncated at the end of a line: no line is malformed.
    const std::string all = io::read_file(merges);
    CHECK_THAT(failure_of(vocab, with(all.substr(0, all.find('\n', all.size() / 2) + 1))),
               ContainsSubstring("truncated"));
    CHECK_THAT(failure_of(vocab, with(all.substr(0, all.rfind('\n', all.size() - 2) + 1))),
               ContainsSubstring("(id 50255)") && ContainsSubstring("truncated"));
    CHECK_THAT(failure_of(vocab, with("#version: 0.2\n")), ContainsSubstring("truncated"));
    CHECK_THAT(failure_of(vocab, with("#version: 0.2\na b c\n")), ContainsSubstring("bad:2: "));
    CHECK_THAT(failure_of(vocab, with("#version: 0.2\nqqq zzz\n")),
               HasInOrder("'qqq'", "vocabulary"));
    io::remove_tree(dir);
}

TEST_CASE("gpt2: a few tokens without a merge are special tokens") {
    const test::TempDir scratch;
    const std::string merges = share_file("tokenizers/gpt2/merges.txt");
    std::vector<std::string> warnings;
    set_log_sink([&](Severity, std::string_view text) { warnings.emplace_back(text); });
    // The second is a concatenation of two tokens.
    for (const std::string added : {"[PAD]", "hellohello"}) {
        io::Json vocab = io::Json::parse(io::read_file(share_file("tokenizers/gpt2/vocab.json")));
        vocab[added] = 50257;
        const std::string path = scratch / "vocab.json";
        io::write_file(path, vocab.dump(), io::Overwrite::yes);
        warnings.clear();
        const auto tokenizer = load_gpt2_tokenizer(path, merges, SpecialInText::plain);
        CHECK(tokenizer->vocab_size() == 50258);
        REQUIRE(warnings.size() == 1);
        CHECK_THAT(warnings[0], HasInOrder(": 1, ", fmt::format("'{}' (id 50257)", added)));
        const std::string text = "a [PAD] hellohello b";
        CHECK(tokenizer->encode(text) == gpt2()->encode(text));
    }
    set_log_sink({});
}
