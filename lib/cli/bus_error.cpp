// SPDX-License-Identifier: Apache-2.0
// The handler runs on the stack of the thread that read the mapping, which SIGBUS leaves intact. It
// uses only async-signal-safe functions, besides fmt with numbers and text in a fixed buffer, which
// neither locks nor allocates.
#include "cli/bus_error.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>

#include "base/error.hpp"
#include "io/mappings.hpp"

namespace lm::cli {
namespace {

std::array<char, 512> program_name;
std::atomic<bool> reporting = false;

void report(const io::Mapping& file) {
    static std::array<char, 8192> line;
    struct stat status {};
    const bool shorter = ::stat(file.path, &status) == 0 && status.st_size < file.size;
    const auto room = line.size() - 1;
    const auto text =
        shorter ? fmt::format_to_n(line.data(), room,
                                   "{}: {}: truncated while it was read: expected {} bytes, got "
                                   "{}: restore the file, then start again",
                                   program_name.data(), file.path, file.size, status.st_size)
                : fmt::format_to_n(line.data(), room,
                                   "{}: {}: cannot be read any more (SIGBUS): it was replaced, or "
                                   "its storage failed: see dmesg",
                                   program_name.data(), file.path);
    std::replace_if(
        line.data(), text.out, [](unsigned char c) { return c < ' ' || c == 0x7F; }, '?');
    *text.out = '\n';
    (void)!::write(STDERR_FILENO, line.data(), static_cast<size_t>(text.out - line.data()) + 1);
}

extern "C" void on_bus_error(int signal, siginfo_t* info, void*) {
    const bool of_kernel = info->si_code > 0;  // not sent by kill(2)
    const io::Mapping file = io::mapping_at(info->si_addr);
    if (!of_kernel || file.path == nullptr) {
        std::signal(signal, SIG_DFL);
        if (!of_kernel) std::raise(signal);
        return;  // the read is repeated, and ends the process
    }
    while (reporting.exchange(true)) ::pause();  // another thread reports and ends the process
    report(file);
    ::_exit(static_cast<int>(Exit::failure));
}

}  // namespace

void report_bus_errors(const std::string& program) {
    std::strncpy(program_name.data(), program.c_str(), program_name.size() - 1);
    struct sigaction action = {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    LM_CHECK(sigaction(SIGBUS, &action, nullptr) == 0, "sigaction() failed for SIGBUS");
}

}  // namespace lm::cli
