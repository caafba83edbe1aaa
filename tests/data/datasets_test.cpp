// SPDX-License-Identifier: Apache-2.0
#include "data/datasets.hpp"

#include <catch2/catch.hpp>
#include <fstream>

#include "base/error.hpp"
#include "data/indexed_dataset.hpp"
#include "small_dataset.hpp"

using lm::i32;
using lm::i64;
using lm::data::DataConfig;
using lm::data::open_data;
using lm::test::sample;

namespace {

DataConfig config(const std::string& prefix) {
    DataConfig c;
    c.data_path = {prefix};
    c.split = "8,1,1";
    c.seq_length = 4;
    c.vocab_size = 60000;
    c.train_samples = 10;
    c.valid_samples = 10;
    c.test_samples = 10;
    return c;
}

void write_side_file(const std::string& prefix, i64 vocab_size, const std::string& digest) {
    const auto dataset = lm::data::IndexedDataset::open(prefix);
    lm::data::SideFile side;
    side.tool = "test";
    side.documents = dataset.n_documents();
    side.sequences = dataset.n_sequences();
    side.tokens = dataset.n_tokens();
    side.eod_id = 7;
    side.appended_eod = true;
    side.tokenizer = {"ByteTokenizer", digest, vocab_size, vocab_size};
    side.bin.bytes = 2 * dataset.n_tokens();
    side.idx.bytes = 34 + 12 * side.sequences + 8 * (side.documents + 1);
    std::ofstream(prefix + ".json") << side.to_json();
}

}  // namespace

TEST_CASE("the parts of a split come from their own documents") {
    const lm::test::TemporaryDirectory dir;
    lm::test::write_counting(dir / "p", std::vector<i64>(10, 10));
    const auto sets = open_data(config(dir / "p"));
    REQUIRE(sets.valid.size() == 1);
    REQUIRE(sets.test.size() == 1);
    CHECK(sets.valid[0].name == "validation");
    for (i64 k = 0; k < 40; ++k) {
        CHECK(sample(*sets.train, k).back() < 80);
        CHECK(sample(*sets.valid[0].source, k).front() >= 80);
        CHECK(sample(*sets.valid[0].source, k).back() < 90);
        CHECK(sample(*sets.test[0].source, k).front() >= 90);
    }
}

TEST_CASE("seeds give other orders of the same samples") {
    const lm::test::TemporaryDirectory dir;
    lm::test::write_counting(dir / "p", std::vector<i64>(10, 1000));
    auto c = config(dir / "p");
    const auto a = open_data(c);
    c.seed = 1235;
    const auto b = open_data(c);
    int same = 0;
    for (i64 k = 0; k < 100; ++k) same += sample(*a.train, k) == sample(*b.train, k);
    CHECK(same < 5);
}

TEST_CASE("parts that nobody asks for may be empty") {
    const lm::test::TemporaryDirectory dir;
    lm::test::write_counting(dir / "p", {100});
    auto c = config(dir / "p");
    CHECK_THROWS_WITH(open_data(c), Catch::Contains("--split: 8,1,1 leaves no document") &&
                                        Catch::Contains("for the valid split"));
    c.valid_samples = c.test_samples = 0;
    CHECK(open_data(c).valid.empty());
    c = config(dir / "p");
    c.split = "100,0,0";
    CHECK(open_data(c).valid.empty());
    CHECK(open_data(c).test.empty());
}

TEST_CASE("what does not fit is named before anything is allocated") {
    const lm::test::TemporaryDirectory dir;
    lm::test::write_counting(dir / "p", std::vector<i64>(10, 10));
    auto c = config(dir / "p");
    c.seq_length = 1024;
    CHECK_THROWS_WITH(open_data(c), Catch::Contains("--seq-length: the train split of") &&
                                        Catch::Contains("has 80 tokens, one sample takes 1025"));
    c = config(dir / "p");
    c.data_path = {dir / "missing"};
    CHECK_THROWS_WITH(open_data(c), Catch::Contains("missing"));
    c.data_path = {};
    CHECK_THROWS_WITH(open_data(c), Catch::Contains("--data-path"));
}

TEST_CASE("a side file's vocabulary must fit the model") {
    const lm::test::TemporaryDirectory dir;
    lm::test::write_counting(dir / "p", std::vector<i64>(10, 10));
    write_side_file(dir / "p", 257, "xxh3:0123");
    auto c = config(dir / "p");
    c.vocab_size = 257;
    CHECK_NOTHROW(open_data(c));
    c.vocab_size = 256;
    CHECK_THROWS_WITH(open_data(c), Catch::Contains("p.json: the data was made with a vocabulary"));
}

TEST_CASE("facts of the side files") {
    const lm::test::TemporaryDirectory dir;
    lm::test::write_counting(dir / "a", {10});
    lm::test::write_counting(dir / "b", {10});
    CHECK_FALSE(lm::data::data_facts({dir / "a"}));
    write_side_file(dir / "a", 257, "xxh3:1");
    const auto facts = lm::data::data_facts({dir / "a"});
    REQUIRE(facts);
    CHECK(facts->eod_id == 7);
    CHECK(facts->tokenizer.vocab_size == 257);
    CHECK_FALSE(lm::data::data_facts({dir / "a", dir / "b"}));
    write_side_file(dir / "b", 257, "xxh3:2");
    CHECK_THROWS_WITH(lm::data::data_facts({dir / "a", dir / "b"}),
                      Catch::Contains("different tokenizers"));
}
