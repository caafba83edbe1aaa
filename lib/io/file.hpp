// SPDX-License-Identifier: Apache-2.0
// Files: descriptors that close themselves, whole reads, directories and read-only mappings.
// Every error is Error(failure) naming the path and the reason of the system.
#pragma once

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

// Opens a file for reading; a directory is an error.
Fd open_read(const std::string& path);

// Returns the whole content of a file, also of a file under /proc.
std::string read_file(const std::string& path);
// Reads bytes.size() bytes at `offset`. Throws when the file is too short.
void read_exact(const Fd& fd, const std::string& path, std::span<std::byte> bytes, i64 offset);

bool exists(const std::string& path);  // a file of any type; false if lstat() fails
bool is_directory(const std::string& path);
i64 file_size(const std::string& path);
std::vector<std::string> list_directory(const std::string& path);  // names in bytewise order
// Creates a directory and its parents as needed, and makes them durable.
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
    std::string_view text() const;
    const std::string& path() const { return path_; }
    // Asks the kernel to read the bytes [offset, offset + length) ahead (madvise(2)).
    void advise_will_need(i64 offset, i64 length) const;

  private:
    std::string path_;
    const std::byte* data_ = nullptr;
    i64 size_ = 0;
};

// Removes a file, or a directory with its content, if it exists. Does not follow links.
void remove_tree(const std::string& path);

}  // namespace lm::io
