// SPDX-License-Identifier: Apache-2.0
// Streams over a pipe whose writer is silent: an interrupted read ends instead of waiting.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "compress.hpp"
#include "io/file.hpp"
#include "io/stream.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using io::Compression;

TEST_CASE("an interrupted stream continues with the next bytes") {
    std::string text;
    for (int i = 0; i < 8'000; ++i) text += std::to_string(i * 7919 % 100'003) + ' ';
    for (const auto kind :
         {Compression::none, Compression::gzip, Compression::xz, Compression::zstd}) {
        INFO(static_cast<int>(kind));
        const std::string packed = test::compress(kind, text);
        const size_t half = packed.size() / 2;
        const test::TempDir dir;
        const std::string pipe = dir.path() + "/pipe";
        REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
        const io::Fd interrupt(::eventfd(0, EFD_NONBLOCK));
        // O_RDWR: open() does not wait for a reader; a pipe holds 64 KiB
        io::Fd writer(::open(pipe.c_str(), O_RDWR));
        const auto put = [&](std::string_view part) {
            REQUIRE(::write(writer.get(), part.data(), part.size()) == std::ssize(part));
        };
        put(std::string_view(packed).substr(0, half));
        const auto stream = io::open_stream(pipe, 1, io::default_decoding_memory, interrupt.get());
        std::vector<std::byte> out(text.size() + 1);
        REQUIRE(::eventfd_write(interrupt.get(), 1) == 0);
        CHECK_THROWS_AS(stream->read(out), io::Interrupted);

        eventfd_t times = 0;
        REQUIRE(::eventfd_read(interrupt.get(), &times) == 0);
        put(std::string_view(packed).substr(half));
        writer = io::Fd();
        CHECK(stream->read(out) <= std::ssize(text));
        CHECK(stream->verified_bytes() == std::ssize(text));
    }
}
