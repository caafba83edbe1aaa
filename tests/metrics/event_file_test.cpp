// SPDX-License-Identifier: Apache-2.0
// Golden bytes of the TFRecord framing and its events. tests/live/tensorboard_reader.py reads such
// files with TensorBoard's own reader.
#include "metrics/event_file.hpp"

#include <fstream>
#include <sstream>

#include "metrics/line_file.hpp"
#include "metrics/tensorboard.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace lm::metrics;

namespace {

std::string hex(const std::string& bytes) {
    std::string out;
    for (const char b : bytes) out += fmt::format("{:02x}", static_cast<u8>(b));
    return out;
}

std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

// Returns how often a tag occurs in an event file, as a length byte and a text.
int count_tag(const std::string& bytes, const std::string& tag) {
    const std::string needle = std::string("\x0A") + static_cast<char>(tag.size()) + tag + "\x15";
    int n = 0;
    for (size_t at = bytes.find(needle); at != bytes.npos; at = bytes.find(needle, at + 1)) ++n;
    return n;
}

std::string only_file(const std::string& directory) {
    std::string found;
    for (const std::string& name : io::list_directory(directory)) {
        if (!name.starts_with("events.")) continue;
        REQUIRE(found.empty());
        found = directory + "/" + name;
    }
    REQUIRE_FALSE(found.empty());
    return found;
}

}  // namespace

TEST_CASE("checksums and records have the format of TensorBoard") {
    CHECK(crc32c("123456789") == 0xE3069283U);
    CHECK(hex(version_event(1700000000.0)) ==
          "1800000000000000a37f4b220900000040fc54d9411a0d627261696e2e4576656e743a32eced8f9d");
    CHECK(hex(scalar_event(1700000001.5, 300, "lm loss", 2.5F)) ==
          "1e00000000000000d9dc12320900006040fc54d94110ac022a100a0e0a076c6d206c6f73731500002040"
          "b27d3837");
    CHECK(hex(purge_event(1700000000.0, 300)).substr(24, 32) == "0900000040fc54d94110ac023a020801");
}

TEST_CASE("two event files of one directory never share a name") {
    const test::TempDir dir;
    auto a = EventFile::create(dir / "tb", std::nullopt);
    auto b = EventFile::create(dir / "tb", 17);
    CHECK(a.path() != b.path());
    CHECK(content(a.path()).size() == 40);
    CHECK(content(b.path()).size() > 40);
    a.scalar(3, "x", 1.0);
    CHECK(content(a.path()).size() == 40);
    a.flush();
    CHECK(count_tag(content(a.path()), "x") == 1);
}

TEST_CASE("the scalars of a training have the tags of Megatron-DeepSpeed") {
    const test::TempDir dir;
    {
        TensorBoardOptions options;
        options.directory = dir.path();
        options.batch_size = options.validation_ppl = options.timers = true;
        auto board = TensorBoard::open(options);
        StepRecord r;
        r.iteration = 10;
        r.consumed_samples = 80;
        r.consumed_tokens = 640;
        r.loss = 2.5;
        r.loss_scale = 1;
        r.grad_norm = 1;
        r.num_zeros = 1;
        r.params_norm = 1;
        r.seq_length = 8;
        board.iteration(r);
        r.iteration = 11;
        board.iteration(r);
        board.interval(r);
        r.mfu = 0.5;
        board.interval(r);
        ValidationRecord v;
        v.iteration = 11;
        board.validation(v);
        v.name = "arxiv";
        board.validation(v);
    }
    const std::string bytes = content(only_file(dir.path()));
    const std::string by_samples = content(only_file(dir / "vs-samples"));
    const std::string by_tokens = content(only_file(dir / "vs-tokens"));
    const std::string by_gigaflos = content(only_file(dir / "vs-gigaflos"));
    for (const std::string tag :
         {"learning-rate/learning-rate", "lm-loss-training/lm loss", "loss-scale/loss-scale",
          "grad-norm/grad-norm", "num-zeros/num-zeros", "params-norm/params-norm"}) {
        CHECK(count_tag(bytes, tag) == 2);
        CHECK(count_tag(by_samples, tag + " vs samples") == 2);
        CHECK(count_tag(by_tokens, tag + " vs tokens") == 2);
    }
    CHECK(count_tag(by_gigaflos, "lm-loss-training/lm loss vs gigaflos (without embeddings)") == 2);
    CHECK(count_tag(by_samples, "batch-size/batch-size vs samples") == 2);
    CHECK(count_tag(by_tokens, "batch-size/batch-size vs tokens") == 0);
    CHECK(count_tag(bytes, "curriculum_seqlen") == 2);
    CHECK(count_tag(by_samples, "steps-vs-samples/y=steps,x=samples") == 2);
    CHECK(count_tag(bytes, "steps-vs-samples/y=samples,x=steps") == 2);
    CHECK(count_tag(by_tokens, "iteration-time/iteration-time vs tokens") == 2);
    CHECK(count_tag(bytes, "iteration-time/TFLOPs per gpu (estimated)") == 2);
    CHECK(count_tag(bytes, "iteration-time/MFU") == 1);  // the first record has none
    CHECK(count_tag(bytes, "iteration-time/world_size at restart") == 2);
    CHECK(count_tag(by_samples, "lm-loss-validation/lm loss validation ppl vs samples") == 1);
    CHECK(count_tag(bytes, "lm-loss-validation/arxiv/lm loss validation") == 1);
}

TEST_CASE("lines of two writers of one log are never mixed") {
    const test::TempDir dir;
    auto a = LineFile::open(dir / "log");
    auto b = LineFile::open(dir / "log");
    a.write("one");
    b.write("two");
    a.write("three");
    CHECK(content(dir / "log") == "one\ntwo\nthree\n");
    auto again = LineFile::open(dir / "log");
    again.write("four");
    CHECK(content(dir / "log") == "one\ntwo\nthree\nfour\n");
    CHECK_THROWS_AS(LineFile::open(dir / "no/such/directory/log"), Error);
}
