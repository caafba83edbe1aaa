// SPDX-License-Identifier: Apache-2.0
// The files that --input arguments mean.
#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "base/log.hpp"
#include "io/file.hpp"
#include "io/inputs.hpp"
#include "io/stream.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using test::caught;

TEST_CASE("a directory means the files below it, in bytewise order") {
    const test::TempDir dir;
    for (const char* name : {"d/a", "d/b/c", "d/b/.git", "d/.cache", "d/b-d", "e"}) {
        io::make_directories(std::filesystem::path(dir / name).parent_path());
        std::ofstream(dir / name) << "";
    }
    io::make_directories(dir / "d/empty");
    std::filesystem::create_symlink(dir / "e", dir / "d/link");
    std::filesystem::create_directory_symlink(dir / "d", dir / "d/ring");
    std::filesystem::create_directory_symlink(dir / "d/b", dir / "start");
    const std::vector<std::string> arguments = {dir / "e", "-", dir / "d", dir / "d/",
                                                dir / "start"};
    CHECK(io::expand_inputs(arguments) ==
          std::vector<std::string>{dir / "e", "-", dir / "d/a", dir / "d/b-d", dir / "d/b/c",
                                   dir / "d/link", dir / "d/a", dir / "d/b-d", dir / "d/b/c",
                                   dir / "d/link", dir / "start/c"});
    CHECK(io::expand_inputs({}).empty());
}

TEST_CASE("entries of a directory that are not JSON Lines are skipped with a note") {
    const test::TempDir dir;
    for (const char* sub : {"d/out.unfinished", "d/sub"}) io::make_directories(dir / sub);
    const auto put = [&](const std::string& name, std::string_view content) {
        std::ofstream(dir / ("d/" + name), std::ios::binary) << content;
    };
    const std::string line = "{\"text\":\"a\"}\n";
    const std::vector<std::string> taken = {"a.json",          "a.jsonl.gz", "bad.jsonl",
                                            "corpus.jsonl.00", "empty",      "marked.txt",
                                            "part-00",         "sub/a.z",    "wide.txt"};
    for (const std::string& name : taken) put(name, name == "empty" ? "" : line);
    put("bad.jsonl",
        "not JSON at all");        // its name is that of JSON Lines: the reader reports the error
    put("sub/a.z", "PK\x03\x04");  // refused by name
    put("marked.txt", "\xEF\xBB\xBF\n " + line);
    put("wide.txt", std::string_view("\xFF\xFE{\0\n\0", 6));
    for (const char* name : {"out_text_document.bin", "out_text_document.idx",
                             "out_text_document.json", "tokenizer.json", "merged.json.tmp.host.1",
                             "out.unfinished/part-0000.0.bin", "out.unfinished/run.json"})
        put(name, line);
    for (const char* name : {"README.md", "sub/NOTES.md", "SHA256SUMS", "b.txt"})
        put(name, "words [1, 2]\n");

    std::vector<std::string> notes;
    set_log_sink([&](Severity, std::string_view message) { notes.emplace_back(message); });
    const std::string argument = dir / "d";
    std::vector<std::string> wanted;
    for (const std::string& name : taken) wanted.push_back(dir / ("d/" + name));
    CHECK(io::expand_inputs(std::span(&argument, 1)) == wanted);
    REQUIRE(notes.size() == 4);
    CHECK_THAT(notes[0], HasInOrder(dir / "d/SHA256SUMS: ", "--input"));
    CHECK_THAT(notes[1], HasInOrder(dir / "d/README.md: ", "1 more *.md", "--input"));
    CHECK_THAT(notes[2], HasInOrder(dir / "d/b.txt: ", "--input"));
    CHECK_THAT(notes[3], HasInOrder(dir / "d/merged.json.tmp.host.1: ", "5 more ", "dataset"));

    // A named file is read, whatever its name and content are.
    const std::string named = dir / "d/README.md";
    CHECK(io::expand_inputs(std::span(&named, 1)) == std::vector<std::string>{named});
    set_log_sink(nullptr);
}

TEST_CASE("a name that does not exist may be a pattern") {
    const test::TempDir dir;
    for (const char* name : {"b.jsonl", "a.jsonl", "c.txt", "d.jsonl/e.jsonl", "[x].jsonl"}) {
        io::make_directories(std::filesystem::path(dir / name).parent_path());
        std::ofstream(dir / name) << "";
    }
    std::filesystem::create_symlink(dir / "nowhere", dir / "link*.jsonl");
    const auto expand = [](const std::string& path) {
        return io::expand_inputs(std::span(&path, 1));
    };
    CHECK(expand(dir / "[a-d].jsonl") ==
          std::vector<std::string>{dir / "a.jsonl", dir / "b.jsonl", dir / "d.jsonl/e.jsonl"});
    CHECK(expand(dir / "[x].jsonl") == std::vector<std::string>{dir / "[x].jsonl"});
    CHECK(expand(dir / "link*") == std::vector<std::string>{dir / "link*.jsonl"});
    CHECK(caught([&] { expand(dir / "*.gz"); }).code == Exit::usage);
}

TEST_CASE("inputs that do not exist are usage errors") {
    const test::TempDir dir;
    io::make_directories(dir / "empty/sub");
    const auto expand = [](const std::string& path) {
        return caught([&] { io::expand_inputs(std::span(&path, 1)); });
    };
    CHECK(expand(dir / "no").code == Exit::usage);
    CHECK(expand(dir / "no").says(dir / "no: "));
    CHECK(expand(dir / "empty").code == Exit::usage);
    CHECK(expand(dir / "empty").says(dir / "empty: ", "no files"));
    io::make_directories(dir / "other");
    std::ofstream(dir / "other/a.txt") << "words";
    std::ofstream(dir / "other/a.bin") << "words";
    CHECK(expand(dir / "other").code == Exit::usage);
    CHECK(expand(dir / "other").says(dir / "other: ", "2 files"));
}
