// SPDX-License-Identifier: Apache-2.0
// The journal of a part, and the record from which a resume continues after a kill.
#include "preprocess/part_writer.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include "io/atomic.hpp"
#include "io/file.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace lm::preprocess;

namespace {

constexpr auto unchecked = [] {};

struct PartFixture {
    test::TempDir dir{test::memory_root()};
    std::string journal = dir / "journal";

    PartWriter open() const {
        return PartWriter::open(journal, {dir / "part"}, data::TokenType::u16, io::ReadAgain::yes);
    }
    std::string journal_text() const { return io::read_file(journal); }
    void set_journal(const std::string& text) const {
        io::write_file(journal, text, io::Overwrite::yes);
    }
    i64 resumed_documents() const {
        PartWriter writer = open();
        writer.resume(unchecked);
        return writer.record().totals.documents;
    }
};

// Returns the chunk after `n_before` others: one document of two ids.
EncodedChunk chunk_after(i64 n_before) {
    EncodedChunk encoded;
    encoded.chunk.first = n_before == 0;
    encoded.chunk.next = {0, 100 * (n_before + 1)};
    KeyTokens& key = encoded.keys.emplace_back(false);
    key.ids.push(static_cast<i32>(n_before));
    key.ids.push(7);
    key.lengths = {2};
    key.sequences_per_document = {1};
    key.find_largest();
    encoded.n_lines = 3;
    encoded.n_documents = 1;
    encoded.n_blank = 2;
    return encoded;
}

// Appends and records `n` chunks, one record each.
void write_chunks(const PartFixture& f, i64 n) {
    PartWriter writer = f.open();
    writer.resume(unchecked);
    for (i64 i = 0; i < n; ++i) {
        writer.append(chunk_after(i));
        writer.save();
    }
}

}  // namespace

TEST_CASE("a record survives its line of the journal, a changed line does not parse") {
    PartRecord record;
    record.next = {3, 1234};
    record.lines = 17;
    record.finished = true;
    record.totals.tokens = 99;
    record.totals.replaced = 2;
    record.keys.resize(2);
    record.keys[1].bytes = 42;
    const std::string line = record.to_line();
    const auto back = PartRecord::parse(line.substr(0, line.size() - 1), "journal");
    REQUIRE(back);
    CHECK(back->next == record.next);
    CHECK(back->to_line() == line);
    for (size_t i = 0; i + 1 < line.size(); i += 7) {
        std::string changed = line.substr(0, line.size() - 1);
        changed[i] ^= 1;
        CHECK_FALSE(PartRecord::parse(changed, "journal"));
        CHECK_FALSE(PartRecord::parse(line.substr(0, i), "journal"));
    }
}

TEST_CASE("a part resumes at its last record") {
    const PartFixture f;
    CHECK(f.resumed_documents() == 0);
    write_chunks(f, 3);
    PartWriter writer = f.open();
    writer.resume(unchecked);
    CHECK(writer.record().totals.documents == 3);
    CHECK(writer.record().totals.blank == 6);
    CHECK(writer.record().next == data::ReadPosition{0, 300});
    CHECK(writer.record().lines == 9);
    CHECK(writer.record().keys[0].bytes == 12);
    CHECK_FALSE(writer.record().finished);
}

TEST_CASE("a truncated journal resumes at the last whole line, and the files are cut back") {
    const PartFixture f;
    write_chunks(f, 3);
    const std::string text = f.journal_text();
    const size_t cut = GENERATE(1, 10, 200);
    f.set_journal(text.substr(0, text.size() - cut));
    CHECK(f.resumed_documents() == 2);
    CHECK(io::file_size(f.dir / "part.bin") == 8);
    CHECK(f.journal_text() == text.substr(0, text.find('\n', text.find('\n') + 1) + 1));
}

TEST_CASE("a file that lost bytes resumes at the last record that it agrees with") {
    const PartFixture f;
    write_chunks(f, 3);
    REQUIRE(::truncate((f.dir / "part.bin").c_str(), 9) == 0);
    CHECK(f.resumed_documents() == 2);
}

TEST_CASE("a file with changed bytes resumes before them") {
    const PartFixture f;
    write_chunks(f, 3);
    std::string bytes = io::read_file(f.dir / "part.bin");
    bytes[5] ^= 1;
    io::write_file(f.dir / "part.bin", bytes, io::Overwrite::yes);
    CHECK(f.resumed_documents() == 1);
    f.set_journal("not a journal\n");
    CHECK(f.resumed_documents() == 0);
    CHECK(io::file_size(f.dir / "part.bin") == 0);
}

TEST_CASE("a resumed part has the files of one that was never interrupted") {
    const PartFixture whole, resumed;
    write_chunks(whole, 5);
    write_chunks(resumed, 2);
    {
        PartWriter writer = resumed.open();
        writer.resume(unchecked);
        writer.append(chunk_after(2));  // not recorded: lost
    }
    PartWriter writer = resumed.open();
    writer.resume(unchecked);
    CHECK(writer.record().totals.documents == 2);
    for (i64 i = 2; i < 5; ++i) writer.append(chunk_after(i));
    writer.save();
    for (const char* file : {"part.bin", "part.lengths"})
        CHECK(io::read_file(whole.dir / file) == io::read_file(resumed.dir / file));
}

TEST_CASE("ids that precede the rest of their chunk are not recorded before the chunk") {
    const PartFixture f;
    {
        PartWriter writer = f.open();
        writer.resume(unchecked);
        writer.append(chunk_after(0));
        KeyTokens ahead(false);
        ahead.ids.push(5);
        ahead.find_largest();
        CHECK(writer.append_ahead(ahead, 0).tokens == 1);
        const std::string journal = f.journal_text();
        writer.save();
        CHECK(f.journal_text() == journal);
        EncodedChunk rest = chunk_after(1);
        rest.keys[0].lengths = {3};
        CHECK(writer.append(rest).tokens == 2);
        writer.save();
    }
    CHECK(f.resumed_documents() == 2);
    CHECK(io::file_size(f.dir / "part.bin") == 2 * 5);
}

TEST_CASE("finish marks the part, and a resume finds it finished") {
    const PartFixture f;
    {
        PartWriter writer = f.open();
        writer.resume(unchecked);
        writer.append(chunk_after(0));
        writer.finish();
    }
    PartWriter writer = f.open();
    writer.resume(unchecked);
    CHECK(writer.record().finished);
}

TEST_CASE("lines are counted from the start of each piece") {
    const PartFixture f;
    PartWriter writer = f.open();
    EncodedChunk encoded = chunk_after(0);
    CHECK(writer.lines_before(encoded.chunk) == 0);
    writer.append(encoded);
    encoded.chunk.first = false;
    CHECK(writer.lines_before(encoded.chunk) == 3);
    encoded.chunk.next = {1, -1};  // the last of its piece
    writer.append(encoded);
    CHECK(writer.record().lines == 0);
}

TEST_CASE("a second process cannot open the part") {
    const PartFixture f;
    const PartWriter writer = f.open();
    const pid_t child = ::fork();
    if (child == 0) ::_exit(test::caught([&] { f.open(); }).says("another process") ? 0 : 1);
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}
