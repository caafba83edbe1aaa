// SPDX-License-Identifier: Apache-2.0
// Whole builds: outputs, stop and resume, outputs that exist, and errors.
#include "preprocess/dataset_build.hpp"

#include "build_fixture.hpp"
#include "data/indexed/indexed_dataset.hpp"
#include "data/indexed/verify_dataset.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::preprocess;
using test::BuildFixture;
using test::caught;

TEST_CASE("a build writes a dataset with metadata and removes its work directory") {
    BuildFixture f;
    f.add_input("a.jsonl", "{\"text\": \"ab\"}\n\n{\"text\": \"cde\"}\n");
    f.options.append_eod = true;
    const BuildResult result = f.build();
    CHECK(result.built);
    CHECK(result.totals.documents == 2);
    CHECK(result.totals.tokens == 7);
    CHECK(result.totals.text_bytes == 5);
    CHECK(result.totals.blank == 1);
    CHECK(result.resumed_bytes == 0);
    CHECK(f.observer.documents == 2);
    CHECK(f.observer.begun_bytes == f.observer.disk);
    REQUIRE(result.prefixes.size() == 1);
    CHECK(data::verify_dataset(result.prefixes[0], {}).faults.empty());
    CHECK_FALSE(f.has_work_directory());
}

TEST_CASE("any number of workers writes the same bytes") {
    BuildFixture one, many;
    for (BuildFixture* f : {&one, &many}) {
        f->add_input("a.jsonl", test::json_lines(20'000, 200));
        f->add_input("b.jsonl", test::json_lines(100));
    }
    many.options.workers = 5;
    one.build();
    many.build();
    CHECK((one.output(".bin") == many.output(".bin")));
    CHECK((one.output(".idx") == many.output(".idx")));
}

TEST_CASE("a stopped build with --resume continues, and ends with the bytes of one run") {
    BuildFixture whole, stopped;
    for (BuildFixture* f : {&whole, &stopped})
        f->add_input("a.jsonl", test::json_lines(40'000, 400));
    whole.build();
    stopped.options.resume = true;
    stopped.observer.stop_after_documents = 25'000;
    CHECK_THROWS_AS(stopped.build(), Stopped);
    CHECK(stopped.has_work_directory());
    stopped.observer.stop_after_documents = INT64_MAX;
    const BuildResult result = stopped.build();
    CHECK(result.totals.documents == 40'000);
    CHECK(result.resumed_bytes > 0);
    CHECK(stopped.observer.resumed_documents >= 25'000);
    CHECK((stopped.output(".bin") == whole.output(".bin")));
    CHECK((stopped.output(".idx") == whole.output(".idx")));
    CHECK_FALSE(stopped.has_work_directory());
}

TEST_CASE("a stopped build without --resume leaves nothing") {
    BuildFixture f;
    f.add_input("a.jsonl", test::json_lines(40'000, 400));
    f.observer.stop_after_documents = 1;
    CHECK_THROWS_AS(f.build(), Stopped);
    CHECK_FALSE(f.has_work_directory());
}

TEST_CASE("--resume does nothing for a complete output, and is refused for another run's output") {
    BuildFixture f;
    f.add_input("a.jsonl", test::json_lines(10));
    f.build();
    f.options.resume = true;
    CHECK_FALSE(f.build().built);
    f.options.append_eod = true;
    CHECK(caught([&] { f.build(); }).says("complete", "--append-eod false, not true"));
    CHECK_FALSE(f.has_work_directory());
}

TEST_CASE("an output that exists is refused without --force and replaced with it") {
    BuildFixture f;
    f.add_input("a.jsonl", test::json_lines(10));
    f.build();
    CHECK(caught([&] { f.build(); }).code == Exit::usage);
    f.options.append_eod = true;
    f.options.force = true;
    const i64 n_tokens = f.build().totals.tokens;
    CHECK(n_tokens == static_cast<i64>(f.output(".bin").size()) / 2);
}

TEST_CASE("a bad line ends the build with its place, or is skipped") {
    BuildFixture f;
    f.add_input("a.jsonl", test::json_lines(3) + "{\"text\": 5}\n" + test::json_lines(2));
    const auto error = caught([&] { f.build(); });
    CHECK(error.says("a.jsonl:4:10: 'text' "));
    CHECK(error.code == Exit::failure);
    CHECK_FALSE(f.has_work_directory());
    f.options.on_bad_line = "skip";
    const BuildResult result = f.build();
    CHECK(result.totals.documents == 5);
    CHECK(result.totals.bad == 1);
}

TEST_CASE("an input without a usable line is an error, one without lines an empty output") {
    BuildFixture f;
    f.add_input("a.jsonl", "{\"txt\": \"a\"}\n");
    f.options.on_bad_line = "skip";
    CHECK(caught([&] { f.build(); }).says("a.jsonl: ", " 1 lines"));
    f.add_input("a.jsonl", "\n");
    f.options.inputs.pop_back();
    CHECK(f.build().totals.documents == 0);
    CHECK(data::IndexedDataset::open(f.options.output_prefix + "_text_document").n_tokens() == 0);
}

TEST_CASE("the concatenated shards of an input have the tokens of one run") {
    BuildFixture whole;
    whole.add_input("a.jsonl", test::json_lines(1000));
    whole.build();
    std::string tokens;
    for (int i = 0; i < 3; ++i) {
        BuildFixture shard;
        shard.add_input("a.jsonl", test::json_lines(1000));
        shard.options.shard = std::to_string(i) + "/3";
        shard.build();
        tokens += shard.output(".bin");
    }
    CHECK((tokens == whole.output(".bin")));
}

TEST_CASE("options that the tokenizer cannot serve are refused before anything is written") {
    BuildFixture f;
    f.add_input("a.jsonl", test::json_lines(1));
    f.options.pad_to = 100;  // below the vocabulary of 257
    CHECK(caught([&] { f.build(); }).code == Exit::usage);
    CHECK_FALSE(f.has_work_directory());
}
