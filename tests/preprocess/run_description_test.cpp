// SPDX-License-Identifier: Apache-2.0
#include "preprocess/run_description.hpp"

#include <algorithm>

#include "io/atomic.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"
#include "text/byte_tokenizer.hpp"

using namespace lm;
using namespace lm::preprocess;

namespace {

struct DescriptionFixture {
    test::TempDir dir{test::memory_root()};
    BuildOptions options;
    std::shared_ptr<const text::Tokenizer> tokenizer = text::make_byte_tokenizer();

    DescriptionFixture() { add_input("a.jsonl", "one\n"); }
    void add_input(const std::string& name, const std::string& text) {
        io::write_file(dir / name, text, io::Overwrite::yes);
        if (std::ranges::find(options.inputs, dir / name) == options.inputs.end())
            options.inputs.push_back(dir / name);
    }
    io::OrderedJson describe() const {
        return describe_run(make_input_plan(options, 1), options, *tokenizer);
    }
    // Writes run.json as an earlier run with this run's description, altered by `change`.
    template <typename Change>
    void write_earlier(Change change) const {
        io::OrderedJson j = describe();
        change(j);
        io::write_file(dir / "run.json", io::json_text(j), io::Overwrite::yes);
    }
    test::Caught resume() const {
        return test::caught([&] { parts_of_same_run(dir / "run.json", describe()); });
    }
};

}  // namespace

TEST_CASE("the same run is resumed with the number of parts of the earlier one") {
    const DescriptionFixture f;
    f.write_earlier([](io::OrderedJson& j) { j["parts"] = 7; });
    CHECK(parts_of_same_run(f.dir / "run.json", f.describe()) == 7);
}

TEST_CASE("a run with other options or another tokenizer is refused") {
    DescriptionFixture f;
    f.write_earlier([](io::OrderedJson&) {});
    f.options.append_eod = true;
    CHECK(f.resume().says("--append-eod false, not true: ", "--force"));
    CHECK(f.resume().code == Exit::usage);
    f.options.append_eod = false;
    f.write_earlier([](io::OrderedJson& j) { j["tokenizer"] = "xxh3:other"; });
    CHECK(f.resume().says("tokenizer"));
    f.write_earlier([](io::OrderedJson& j) { j["version"] = 0; });
    CHECK(f.resume().says("version 0, not 3"));
}

TEST_CASE("a run with other or changed inputs is refused by name") {
    DescriptionFixture f;
    f.write_earlier([](io::OrderedJson&) {});
    f.add_input("b.jsonl", "two\n");
    CHECK(f.resume().says("inputs", "1", "2"));
    f.options.inputs = {f.dir / "b.jsonl"};
    CHECK(f.resume().says("input 1 ", f.dir / "a.jsonl", f.dir / "b.jsonl"));
    f.options.inputs = {f.dir / "a.jsonl"};
    CHECK_FALSE(f.resume().threw);
    f.add_input("a.jsonl", "six\n");
    CHECK(f.resume().says((f.dir / "a.jsonl") + ": ", "changed"));
}

TEST_CASE("a corrupt description is an error that names the remedy") {
    const DescriptionFixture f;
    const auto error_of = [&](const std::string& text) {
        io::write_file(f.dir / "run.json", text, io::Overwrite::yes);
        return f.resume();
    };
    CHECK(error_of("{").says("corrupt (", "JSON"));
    CHECK(error_of("{}").says("--force without --resume"));
    CHECK(error_of("{\"parts\": 0}").says("corrupt ('parts' ", "1)"));
    CHECK(error_of("{}").code == Exit::failure);
}

TEST_CASE("the origin of an output distinguishes another run from the same run") {
    DescriptionFixture f;
    const io::Json origin = origin_of(f.describe());
    CHECK(difference_of_origins(origin, origin).empty());
    CHECK_THAT(difference_of_origins(io::Json(), origin), HasInOrder("metadata", "options"));
    f.options.keep_empty = true;
    CHECK_THAT(difference_of_origins(origin, origin_of(f.describe())),
               EndsWith("--keep-empty false, not true"));
    f.options.keep_empty = false;
    f.add_input("b.jsonl", "two\n");
    CHECK_THAT(difference_of_origins(origin, origin_of(f.describe())),
               HasInOrder("inputs", "1", "2"));
    f.options.inputs = {f.dir / "b.jsonl"};
    CHECK_THAT(difference_of_origins(origin, origin_of(f.describe())),
               ContainsSubstring("other inputs"));
}
