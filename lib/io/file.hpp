// SPDX-License-Identifier: Apache-2.0
// Files: descriptors that close themselves, whole reads, directories and read-only mappings.
// Every error is Error(failure) naming the path and the reason of the system.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace lm::io {

// Owns a file descriptor.
class Fd {
  public:
    Fd() = default;
    explicit Fd(int fd) : fd_(fd) {}
    ~Fd();
    Fd(Fd&& other) noexcept;
    Fd& operator=(Fd&& other) noexcept;
    int get() const { return fd_; }
    bool valid() const { return fd_ >= 0; }
    int release();

  private:
    int fd_ = -1;
};

enum class Links { follow, refuse };  // for the last component of a path

// Opens a regular file for reading. Throws for a FIFO, socket, device or directory in its place,
// naming its kind, and never waits for the other end of a FIFO.
Fd open_read(const std::string& path, Links links = Links::follow);
// Opens an input that the user named, which may also be a pipe, a terminal or /dev/null, but no
// other device, which might have no end. Waits for the first writer of a FIFO, and throws when no
// process opens it for writing within 10 seconds (pipe_wait.hpp).
Fd open_input(const std::string& path);

// The largest size of a file that is read as a whole, unless the caller allows more: far above the
// size of any real manifest, index or config.json, and far below the memory of a host.
constexpr i64 max_document_bytes = i64{1} << 30;

// Returns the whole content of a regular file, also of a file under /proc. Throws for a file with
// more than `limit` bytes.
std::string read_file(const std::string& path, i64 limit = max_document_bytes,
                      Links links = Links::follow);
// Returns the whole content of an input that the user named, which may also be a pipe or a
// terminal. Throws for a FIFO that no process opens for writing within 10 seconds, for any other
// device (/dev/zero has no end), and for more than `limit` bytes.
std::string read_input(const std::string& path, i64 limit = max_document_bytes);
// Reads bytes.size() bytes at `offset`. Throws when the file is too short.
void read_exact(const Fd& fd, const std::string& path, std::span<std::byte> bytes, i64 offset);

bool exists(const std::string& path);  // a file of any type; false if lstat() fails
bool is_directory(const std::string& path);
i64 file_size(const std::string& path);
std::vector<std::string> list_directory(const std::string& path);  // names in bytewise order
// Returns the names in an open directory, in bytewise order. `path` is its name in messages.
std::vector<std::string> names_in(Fd directory, const std::string& path);
// Creates a directory that the user named and its parents as needed, and makes them durable.
// Follows links.
void make_directories(const std::string& path);

// A read-only mapping of a whole file.
class MappedFile {
  public:
    MappedFile() = default;
    // Maps a regular file. For an empty file bytes() is an empty span.
    static MappedFile open(const std::string& path);
    ~MappedFile();
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    std::span<const std::byte> bytes() const { return {data_, static_cast<size_t>(size_)}; }
    const std::string& path() const { return path_; }
    // Asks the kernel to read the bytes [offset, offset + length) ahead (madvise(2)).
    void advise_will_need(i64 offset, i64 length) const;

  private:
    std::string path_;
    const std::byte* data_ = nullptr;
    i64 size_ = 0;
};

// Removes a file, or a directory with its content, if it exists. Opens each directory by its name
// in the open parent directory (openat(2)) and never follows a link, so that a link that another
// program creates meanwhile does not lead to other files.
void remove_tree(const std::string& path);

// Returns the Unix time of the last change of a file's content, in seconds. Throws Error(failure).
double modified_s(const std::string& path);

}  // namespace lm::io
