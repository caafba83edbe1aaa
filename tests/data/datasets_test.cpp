// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/datasets.hpp"

#include <fstream>

#include "base/error.hpp"
#include "data/indexed/indexed_dataset.hpp"
#include "small_dataset.hpp"
#include "support/catch.hpp"

using lm::i32;
using lm::i64;
using lm::data::DataConfig;
using lm::data::DataOrder;
using lm::data::open_data;
using lm::test::sample;

namespace {

DataConfig config(const std::string& prefix) {
    DataConfig c;
    c.paths.data_path = {prefix};
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
    lm::data::DatasetMetadata side;
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

TEST_CASE("each part of a split has its own documents") {
    const lm::test::TempDir dir;
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

TEST_CASE("another seed gives another order of the same samples") {
    const lm::test::TempDir dir;
    lm::test::write_counting(dir / "p", std::vector<i64>(10, 1000));
    auto c = config(dir / "p");
    const auto a = open_data(c);
    c.seed = 1235;
    const auto b = open_data(c);
    int same = 0;
    for (i64 k = 0; k < 100; ++k) same += sample(*a.train, k) == sample(*b.train, k);
    CHECK(same < 5);
}

TEST_CASE("a part without requested samples may be empty") {
    const lm::test::TempDir dir;
    lm::test::write_counting(dir / "p", {100});
    auto c = config(dir / "p");
    CHECK_THROWS_WITH(open_data(c), HasInOrder("--split: ", "valid split", "1 documents"));
    c.valid_samples = c.test_samples = 0;
    CHECK(open_data(c).valid.empty());
    c = config(dir / "p");
    c.split = "100,0,0";
    CHECK(open_data(c).valid.empty());
    CHECK(open_data(c).test.empty());
}

TEST_CASE("flags that contradict the data are refused before anything is allocated") {
    const lm::test::TempDir dir;
    lm::test::write_counting(dir / "p", std::vector<i64>(10, 10));
    auto c = config(dir / "p");
    c.seq_length = 1024;
    CHECK_THROWS_WITH(open_data(c),
                      HasInOrder("--seq-length: ", "train split", "80 tokens", "1025"));
    c = config(dir / "p");
    c.paths.data_path = {dir / "missing"};
    CHECK_THROWS_WITH(open_data(c), StartsWith(dir / "missing: "));
    c.paths.data_path = {};
    CHECK_THROWS_WITH(open_data(c), ContainsSubstring("--data-path"));
}

namespace {

// Three datasets of 1000 tokens: 0..., 1000..., 2000...
struct Three {
    lm::test::TempDir dir;
    Three() {
        for (int d = 0; d < 3; ++d) {
            std::vector<std::vector<lm::u16>> documents(100);
            for (int k = 0; k < 1000; ++k) {
                documents[static_cast<size_t>(k / 10)].push_back(
                    static_cast<lm::u16>(1000 * d + k));
            }
            lm::test::write_dataset(prefix(d), documents);
        }
    }
    std::string prefix(int d) const { return dir / std::string(1, static_cast<char>('a' + d)); }
    DataConfig blank() const {
        DataConfig c = config(prefix(0));
        c.paths.data_path.clear();
        c.train_samples = 500;
        return c;
    }
};

std::vector<int> count_by_dataset(const lm::data::SampleSource& source, i64 n) {
    std::vector<int> counts(3);
    for (i64 k = 0; k < n; ++k) ++counts[static_cast<size_t>(sample(source, k)[0] / 1000)];
    return counts;
}

}  // namespace

TEST_CASE("a weighted blend has the shares of its weights, in every order") {
    const Three data;
    for (const auto order :
         {DataOrder::stateless, DataOrder::megatron, DataOrder::megatron_deepspeed}) {
        DataConfig c = data.blank();
        c.order = order;
        c.paths.data_path = {"3", data.prefix(0), "1", data.prefix(1), "1", data.prefix(2)};
        c.train_samples = 4096;
        const auto sets = open_data(c);
        const auto counts = count_by_dataset(*sets.train, 4096);
        CHECK(counts[0] == Approx(4096 * 0.6).margin(1.5));
        CHECK(counts[1] == Approx(4096 * 0.2).margin(1.5));
        REQUIRE(sets.valid.size() == 1);
        for (const i32 id : sample(*sets.valid[0].source, 0)) {
            CHECK(id % 1000 >= 800);
            CHECK(id % 1000 < 900);
        }
        const auto lines = lm::data::describe_use("train", *sets.train, 4096);
        REQUIRE(lines.size() == 3);
        CHECK(lines[0].find("documents [0, 80) 800 tokens, weight 0.6") != std::string::npos);
    }
}

TEST_CASE("a blend without weights uses the sizes of its datasets") {
    const Three data;
    DataConfig c = data.blank();
    c.paths.data_path = {data.prefix(0), data.prefix(1), data.prefix(2)};
    c.train_samples = 590;
    for (const auto order : {DataOrder::stateless, DataOrder::megatron}) {
        c.order = order;
        const auto counts = count_by_dataset(*open_data(c).train, 590);
        for (const int count : counts) CHECK(count == Approx(197).margin(20));
    }
    c.train_samples = 5900;
    CHECK_THROWS_WITH(open_data(c), HasInOrder("train set ", "597 samples", "--data-order"));
    c.order = DataOrder::stateless;
    CHECK_NOTHROW(open_data(c));
}

TEST_CASE("separate paths for the parts use whole datasets") {
    const Three data;
    DataConfig c = data.blank();
    c.paths.train_path = {data.prefix(0)};
    c.paths.valid_path = {data.prefix(1), data.prefix(2)};
    const auto sets = open_data(c);
    CHECK(count_by_dataset(*sets.train, 300)[0] == 300);
    CHECK(count_by_dataset(*sets.valid[0].source, 300)[0] == 0);
    CHECK(sets.train->use(1)[0].sequences.size() == 100);
    CHECK(sets.test.empty());
    CHECK(lm::data::data_prefixes(c.paths) ==
          std::vector<std::string>{data.prefix(0), data.prefix(1), data.prefix(2)});
    c.paths.data_path = {data.prefix(0)};
    CHECK_THROWS_WITH(open_data(c), HasInOrder("--train-data-path: ", "--data-path"));
}

TEST_CASE("several named validation sets have their own documents") {
    const Three data;
    DataConfig c = data.blank();
    c.paths.train_groups = {"train: 0.5 0:0.5 " + data.prefix(0) + ", 0.5 0:0.5 " + data.prefix(1)};
    c.paths.valid_groups = {"valid: 1 0.5:1 " + data.prefix(0) + ", 1 0.5:1 " + data.prefix(1),
                            "valid_c: 1 0.9:1 " + data.prefix(2)};
    for (const auto order : {DataOrder::stateless, DataOrder::megatron_deepspeed}) {
        c.order = order;
        const auto sets = open_data(c);
        for (i64 k = 0; k < 100; ++k) CHECK(sample(*sets.train, k).back() % 1000 < 500);
        REQUIRE(sets.valid.size() == 2);
        CHECK(sets.valid[0].name == "valid");
        CHECK(sets.valid[1].name == "valid_c");
        for (i64 k = 0; k < 10; ++k) {
            CHECK(sample(*sets.valid[0].source, k).front() % 1000 >= 500);
            CHECK(sample(*sets.valid[1].source, k).front() >= 2900);
        }
    }
    c.paths.valid_groups.push_back("valid: 1 0:1 " + data.prefix(0));
    CHECK_THROWS_WITH(open_data(c), ContainsSubstring(" name valid"));
    c.paths.valid_groups.clear();
    c.paths.train_groups.push_back(c.paths.train_groups[0]);
    CHECK_THROWS_WITH(open_data(c), ContainsSubstring(" name train"));
}

TEST_CASE("data paths and weighted groups are parsed as Megatron and BigScience write them") {
    using lm::data::parse_blend;
    using lm::data::parse_group;
    CHECK_FALSE(parse_blend("--data-path", {"a"}).weighted);
    CHECK_FALSE(parse_blend("--data-path", {"a", "b"}).weighted);
    CHECK_FALSE(parse_blend("--data-path", {"1", "b", "3"}).weighted);
    const auto blend = parse_blend("--data-path", {".3", "a", "70", "b "});
    REQUIRE(blend.weighted);
    CHECK(blend.paths[0].weight == 0.3);
    CHECK(blend.paths[1].prefix == "b");
    CHECK_THROWS_WITH(parse_blend("--data-path", {"1", "a", "b", "c"}),
                      HasInOrder("--data-path: ", "prefixes"));
    CHECK_THROWS_WITH(parse_blend("--data-path", {"0", "a", "1", "b"}),
                      ContainsSubstring("weight 0 of a"));
    const auto group = parse_group("--x", "train: 0.4 0:0.950 /d/a, 0.6 0.25:0.75 /d/b");
    CHECK(group.name == "train");
    REQUIRE(group.paths.size() == 2);
    CHECK(group.paths[1].prefix == "/d/b");
    CHECK(group.paths[1].fraction->begin == 0.25);
    CHECK(group.paths[1].fraction->end == 0.75);
    for (const char* wrong : {"train 1 0:1 p", "1 0:1 p", "t: 1 0:1", "t: 1 1:0 p", "t: x 0:1 p",
                              "t: 1 0:1 p,", "t: 1 0-1 p", "t: 1 0:1.5 p"}) {
        CHECK_THROWS_AS(parse_group("--x", wrong), lm::Error);
    }
}

TEST_CASE("a group file has quoted groups in one line") {
    const lm::test::TempDir dir;
    std::ofstream(dir / "f") << R"("valid: 1 0.95:1 p, 2 0:1 q" "b: 1 0:1 r")" << '\n';
    CHECK(lm::data::read_group_file("--x", dir / "f") ==
          std::vector<std::string>{"valid: 1 0.95:1 p, 2 0:1 q", "b: 1 0:1 r"});
    std::ofstream(dir / "g") << "train: 1 0:1 p\n";
    CHECK(lm::data::read_group_file("--x", dir / "g") ==
          std::vector<std::string>{"train: 1 0:1 p"});
    std::ofstream(dir / "h") << "\n";
    CHECK_THROWS_WITH(lm::data::read_group_file("--x", dir / "h"),
                      HasInOrder("--x: ", dir / "h", "no dataset"));
}

TEST_CASE("fractions are rounded as BigScience rounds them") {
    const auto range = lm::data::documents_of({0.0, 0.950}, 1'000'001);
    CHECK((range.begin == 0 && range.end == 950'001));
    const auto rest = lm::data::documents_of({0.950, 1.0}, 1'000'001);
    CHECK((rest.begin == 950'001 && rest.end == 1'000'001));
    const lm::test::TempDir dir;
    lm::test::write_counting(dir / "p", std::vector<i64>(1001, 5));
    DataConfig c = config(dir / "p");
    c.paths.data_path.clear();
    c.paths.train_groups = {"train: 1 0:0.950 " + (dir / "p")};
    c.paths.valid_groups = {"valid: 1 0.950:1.0 " + (dir / "p")};
    const auto sets = open_data(c);
    CHECK(sets.train->use(1)[0].sequences.end == 951);
    CHECK(sets.valid[0].source->use(1)[0].sequences.begin == 951);
    CHECK(sets.valid[0].source->use(1)[0].sequences.end == 1001);
}

TEST_CASE("the vocabulary of a metadata file must fit the model") {
    const lm::test::TempDir dir;
    lm::test::write_counting(dir / "p", std::vector<i64>(10, 10));
    write_side_file(dir / "p", 257, "xxh3:0123");
    auto c = config(dir / "p");
    c.vocab_size = 257;
    CHECK_NOTHROW(open_data(c));
    c.vocab_size = 256;
    CHECK_THROWS_WITH(open_data(c), HasInOrder("p.json: ", "vocabulary"));
}

TEST_CASE("data_facts returns the common values of the metadata files") {
    const lm::test::TempDir dir;
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
                      ContainsSubstring("different tokenizers"));
}
