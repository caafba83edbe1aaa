// SPDX-License-Identifier: Apache-2.0
// Each case runs in its own child process, which SIGBUS ends.
#include "cli/bus_error.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>
#include <vector>

#include "child.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;

namespace {

constexpr size_t n_bytes = 1 << 20;

int last_byte(const io::MappedFile& file) {
    return static_cast<int>(*const_cast<const volatile std::byte*>(&file.bytes().back()));
}

Ended in_quiet_child(const std::function<int()>& work) {
    return in_child([&] {
        const rlimit none{0, 0};
        setrlimit(RLIMIT_CORE, &none);
        cli::report_bus_errors("lm-x");
        return work();
    });
}

}  // namespace

TEST_CASE("a mapped file that becomes shorter: the error names it, exit code 3") {
    const test::TempDir dir;
    const std::string path = dir / "data.bin";
    io::write_file(path, std::string(n_bytes, 'x'), io::Overwrite::yes);
    const Ended ended = in_quiet_child([&] {
        const auto file = io::MappedFile::open(path);
        if (truncate(path.c_str(), 4096) != 0) return 1;
        std::vector<std::thread> threads;  // each of them reads the lost bytes
        for (int i = 0; i < 4; ++i) threads.emplace_back([&] { (void)last_byte(file); });
        for (std::thread& thread : threads) thread.join();
        return 2;
    });
    CHECK(ended.code == 3);
    CHECK_THAT(ended.err, StartsWith("lm-x: " + path + ": "));
    CHECK_THAT(ended.err, ContainsSubstring("1048576") && ContainsSubstring("4096"));
    CHECK(ended.err.find('\n') == ended.err.size() - 1);
}

TEST_CASE("files that were moved, unmapped and mapped again keep their names") {
    const test::TempDir dir;
    const auto make = [&](const char* name) {
        io::write_file(dir / name, std::string(n_bytes, 'x'), io::Overwrite::yes);
        return io::MappedFile::open(dir / name);
    };
    const Ended ended = in_quiet_child([&] {
        auto a = make("a");
        auto b = make("b\x1b");
        { const auto c = make("c"); }
        auto d = std::move(a);
        a = make("e");
        std::filesystem::resize_file(dir / "b\x1b", 0);
        std::filesystem::resize_file(dir / "e", 0);
        (void)last_byte(d);
        return last_byte(b);
    });
    CHECK(ended.code == 3);
    CHECK_THAT(ended.err, ContainsSubstring("/b?: "));
}

TEST_CASE("any other SIGBUS keeps its default action") {
    CHECK(in_quiet_child([] { return std::raise(SIGBUS); }).signal == SIGBUS);
    const test::TempDir dir;
    const std::string path = dir / "other";
    io::write_file(path, std::string(n_bytes, 'x'), io::Overwrite::yes);
    const Ended ended = in_quiet_child([&] {
        const int fd = open(path.c_str(), O_RDONLY);
        const auto* data =
            static_cast<const volatile char*>(mmap(nullptr, n_bytes, PROT_READ, MAP_SHARED, fd, 0));
        if (truncate(path.c_str(), 0) != 0) return 1;
        return static_cast<int>(data[0]);
    });
    CHECK(ended.signal == SIGBUS);
    CHECK(ended.err.empty());
}
