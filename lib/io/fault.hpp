// SPDX-License-Identifier: Apache-2.0
// Fault injection. Every operation of lib/io that changes files (create, write, fsync, rename, ...)
// first calls next(). Some tests make the k-th operation fail, write fewer bytes or kill the
// process, for every k. Other tests record all operations and check their order. Such a test cannot
// cut the power, but can detect a missing fsync. LM_IO_FAULT = "fail:K", "short:K", "kill:K" or
// "cached:K" (K counts from 1) arms a fault in any program. "read:K" makes the K-th open, status or
// read of an input file fail; K counts only these operations. "fail:K:ERROR" and "read:K:ERROR"
// fail with EACCES, ESTALE or ENOSPC instead of EIO. "slow:MS" makes each operation and read take
// MS milliseconds longer. While no fault is armed and nothing is recorded, next() only tests two
// flags.
#pragma once

#include <cerrno>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace lm::io::fault {

// fail: the operation does nothing and fails with error_number(). short_write: a write writes half
// of its bytes and fails with ENOSPC; other operations fail with EIO. kill: SIGKILL before the
// operation. fail_read: a read fails with error_number(); only reads are counted. cached_only: a
// write with O_DIRECT fails with EINVAL, as on some file systems; other operations succeed. slow:
// operations and reads succeed, after a delay.
enum class Action { none, fail, short_write, kill, cached_only, fail_read, slow };

// Counts an operation and returns the action for it; does not return for `kill`. Throws
// Error(usage) for a malformed LM_IO_FAULT. Thread-safe.
Action next(std::string_view operation, std::string_view path);

// Details of a recorded operation, in addition to its name and its path.
struct Detail {
    std::string_view from = {};  // the old name of a rename
    i64 offset = 0;              // offset of a write; the size of "reserve" and "truncate"
    std::span<const std::byte> bytes = {};  // data of a write
};
Action next(std::string_view operation, std::string_view path, const Detail& detail);

// Counts a read and returns whether it should fail. Returns false for files of the kernel, which
// are not on a disk.
bool read_fails(std::string_view path);
// Waits as a read does under "slow:MS". Call it before a read of mapped memory, because this layer
// does not see that read.
void delay_mapped_read();
// Returns the errno of the armed fault.
int error_number();

// Applies `action` to the `at`-th operation after this call, for tests in the same process;
// Action::none disarms.
void arm(Action action, i64 at, int error_number = EIO);

struct FileOperation {
    // The operation: "create", "write", "reserve", "truncate", "fsync", "rename", "exchange",
    // "link", "unlink", "mkdir" or "rmdir".
    std::string name;
    std::string path;
    std::string from = {};  // as in Detail
    i64 offset = 0;
    std::string bytes = {};
};
void start_recording();
std::vector<FileOperation> stop_recording();

}  // namespace lm::io::fault
