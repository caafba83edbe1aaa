// SPDX-License-Identifier: Apache-2.0
// Files: descriptors that close themselves, whole reads, directories and read-only mappings.
// Every error is Error(failure) that names the path and the system's reason.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace lm::io {

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

Fd open_read(const std::string& path);  // a directory is refused

std::string read_file(const std::string& path);
// Reads exactly bytes.size() bytes at `offset`; a short file is an error.
void read_exact(const Fd& fd, const std::string& path, std::span<std::byte> bytes, i64 offset);

bool exists(const std::string& path);  // false when it cannot be told
bool is_directory(const std::string& path);
i64 file_size(const std::string& path);
std::vector<std::string> list_directory(const std::string& path);  // names, sorted bytewise
void make_directories(const std::string& path);  // durably; existing ones are fine

class MappedFile {
  public:
    MappedFile() = default;
    explicit MappedFile(const std::string& path);  // an empty file maps to an empty span
    ~MappedFile();
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    std::span<const std::byte> bytes() const { return {data_, static_cast<size_t>(size_)}; }
    std::string_view text() const;
    const std::string& path() const { return path_; }
    void advise_will_need(i64 offset, i64 length) const;

  private:
    std::string path_;
    const std::byte* data_ = nullptr;
    i64 size_ = 0;
};

void remove_tree(const std::string& path);  // nothing there is fine; links are not followed

}  // namespace lm::io
