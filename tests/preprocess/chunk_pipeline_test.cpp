// SPDX-License-Identifier: Apache-2.0
// The pipeline from chunks to ids: order with any number of workers, errors of the reader and of
// workers, and stops at any point.
#include "preprocess/chunk_pipeline.hpp"

#include <unistd.h>

#include <chrono>
#include <stdexcept>

#include "build_fixture.hpp"
#include "io/atomic.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace lm::preprocess;

namespace {

constexpr auto no_check = [] {};

// A tokenizer with one id for each byte. Texts that begin with '!' make the encoder throw, texts
// that begin with '.' make it slow.
class TestTokenizer final : public text::Tokenizer {
  public:
    std::string_view type() const override { return "test"; }
    i64 vocab_size() const override { return 256; }
    std::optional<i32> eod() const override { return 0; }
    const std::string& digest() const override { return digest_; }
    bool has_token(i32) const override { return true; }
    std::string_view token(i32) const override { return ""; }
    std::unique_ptr<text::Encoder> make_encoder(i64 /*text_bytes*/) const override {
        return std::make_unique<Encoder>();
    }

  private:
    class Encoder final : public text::Encoder {
      public:
        i64 encode(std::string_view text, text::IdBuffer& out) override {
            if (text.starts_with("!")) throw std::runtime_error("the encoder failed");
            if (text.starts_with(".")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
            for (const char c : text) out.push(static_cast<unsigned char>(c));
            return static_cast<i64>(text.size());
        }
    };
    std::string digest_ = "xxh3:test";
};

struct Fixture {
    test::TempDir dir{test::memory_root()};
    std::string path = dir / "a.jsonl";
    EncodeRules rules{{"text"}, OnBadLine::skip, false, false, false};
    TestTokenizer tokenizer;
    MemoryBudget budget{i64{64} << 20};

    explicit Fixture(const std::string& text) { io::write_file(path, text, io::Overwrite::yes); }
    data::ChunkReader reader(i64 chunk_bytes) const {
        return {data::examine_inputs({path}), chunk_bytes};
    }
};

// Returns the bytes of the ids of all chunks, in the order of the items. Adds to `n_ahead` the
// number of items with `ahead`.
std::string encoded_text(Fixture& f, i64 chunk_bytes, int n_workers, i64* n_ahead = nullptr) {
    data::ChunkReader reader = f.reader(chunk_bytes);
    ChunkPipeline pipeline(reader, f.rules, f.tokenizer, f.budget, n_workers);
    pipeline.start();
    std::string text;
    while (const auto item = pipeline.next(no_check)) {
        if (item->ahead && n_ahead) ++*n_ahead;
        for (const u16 id : item->chunk->keys[0].ids.ids<u16>()) text += static_cast<char>(id);
    }
    return text;
}

std::string lines_of(std::initializer_list<std::string> texts) {
    std::string lines;
    for (const std::string& text : texts) lines += "{\"text\": \"" + text + "\"}\n";
    return lines;
}

}  // namespace

TEST_CASE("chunks come in input order, whatever the number of workers") {
    std::string lines, expected;
    for (int i = 0; i < 400; ++i) {
        // Every 40th text is slow, so that later chunks are encoded before it.
        const std::string text = (i % 40 == 0 ? "." : "") + std::to_string(i) + ",";
        lines += lines_of({text});
        expected += text;
    }
    Fixture f(lines);
    for (const int n_workers : {1, 2, 7}) CHECK(encoded_text(f, 64, n_workers) == expected);
}

TEST_CASE("an empty input has no chunks") {
    Fixture f("");
    CHECK(encoded_text(f, 64, 3).empty());
}

TEST_CASE("ids of a very long text precede their chunk, in order") {
    std::string text;
    for (int i = 0; text.size() < 3 * KeyTokens::max_bytes; ++i) text += std::to_string(i) + ",";
    Fixture f(lines_of({"first", text, "last"}));
    i64 n_ahead = 0;
    CHECK((encoded_text(f, 1 << 16, 3, &n_ahead) == "first" + text + "last"));
    CHECK(n_ahead >= 5);
}

TEST_CASE("documents larger than the budget are encoded, one at a time") {
    const std::string text(size_t{3} << 20, 'x');
    Fixture f(lines_of({text, text, text, text}));
    MemoryBudget small(1000);
    data::ChunkReader reader = f.reader(1 << 16);
    ChunkPipeline pipeline(reader, f.rules, f.tokenizer, small, 4);
    pipeline.start();
    i64 n = 0;
    while (const auto item = pipeline.next(no_check)) n += item->chunk->keys[0].ids.size();
    CHECK(n == 4 * static_cast<i64>(text.size()));
}

TEST_CASE("an error of a worker is thrown after the chunks before it") {
    std::string lines;
    for (int i = 0; i < 50; ++i) lines += lines_of({i == 30 ? "!" : "." + std::to_string(i)});
    Fixture f(lines);
    data::ChunkReader reader = f.reader(16);
    ChunkPipeline pipeline(reader, f.rules, f.tokenizer, f.budget, 4);
    pipeline.start();
    for (int i = 0; i < 30; ++i) REQUIRE(pipeline.next(no_check));
    CHECK_THROWS_WITH(pipeline.next(no_check), "the encoder failed");
}

TEST_CASE("an error of the reader is thrown after the chunks before it") {
    Fixture f(lines_of({"a", "b"}));
    data::ChunkReader reader({data::examine_inputs({f.path})[0], {f.path + ".gone", 5, true}}, 16);
    ChunkPipeline pipeline(reader, f.rules, f.tokenizer, f.budget, 3);
    pipeline.start();
    REQUIRE(pipeline.next(no_check));
    REQUIRE(pipeline.next(no_check));
    CHECK(test::caught([&] { pipeline.next(no_check); }).says(".gone"));
}

TEST_CASE("a pipeline is destroyed at any point, and gives its memory back to the budget") {
    std::string lines;
    const std::string text(size_t{12} << 20, 'x');
    for (int i = 0; i < 6; ++i) lines += lines_of({i % 2 == 0 ? text : "short"});
    Fixture f(lines);
    for (int n_items = 0; n_items < 6; ++n_items) {
        data::ChunkReader reader = f.reader(1 << 16);
        ChunkPipeline pipeline(reader, f.rules, f.tokenizer, f.budget, 3);
        pipeline.start();
        for (int i = 0; i < n_items; ++i) REQUIRE(pipeline.next(no_check));
    }
    const auto must_not_wait = [] { return MemoryBudget::Turn::later; };
    CHECK(f.budget.acquire(&f, i64{64} << 20, must_not_wait));
}

TEST_CASE("check is called while no chunk comes, and may end the wait") {
    int pipe_ends[2];
    REQUIRE(::pipe(pipe_ends) == 0);
    Fixture f("");
    data::ChunkReader reader({{"/proc/self/fd/" + std::to_string(pipe_ends[0])}}, 1 << 16);
    ChunkPipeline pipeline(reader, f.rules, f.tokenizer, f.budget, 2);
    pipeline.start();
    int n_checks = 0;
    const auto stop_at_third = [&] {
        if (++n_checks == 3) throw Stopped();
    };
    CHECK_THROWS_AS(pipeline.next(stop_at_third), Stopped);
    ::close(pipe_ends[0]);
    ::close(pipe_ends[1]);
}

TEST_CASE("bad lines are returned with the chunk that has them") {
    Fixture f("{\"text\": \"a\"}\nnot JSON\n\n{\"text\": \"b\"}\n");
    data::ChunkReader reader = f.reader(1 << 16);
    ChunkPipeline pipeline(reader, f.rules, f.tokenizer, f.budget, 1);
    pipeline.start();
    const auto item = pipeline.next(no_check);
    REQUIRE(item);
    CHECK(item->chunk->n_lines == 4);
    CHECK(item->chunk->n_documents == 2);
    CHECK(item->chunk->n_blank == 1);
    CHECK(item->chunk->bad.count == 1);
    CHECK(item->chunk->bad.first[0].line == 1);
}
