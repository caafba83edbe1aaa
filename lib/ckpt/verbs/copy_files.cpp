// SPDX-License-Identifier: Apache-2.0
#include "ckpt/verbs/copy_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "ckpt/format/damage.hpp"
#include "ckpt/format/data_file.hpp"
#include "io/block_file.hpp"
#include "io/checked.hpp"

namespace lm::ckpt {
namespace {

// Limits the rate of a copy by sleeping. After a delay, the copy runs without sleeping until it has
// caught up with the rate. It catches up for a delay of at most one second.
class Pace {
  public:
    explicit Pace(std::optional<i64> bytes_per_second) : rate_(bytes_per_second) {}

    // Returns the number of blocks that may be in progress at once: 1 when the rate is limited.
    int blocks_in_flight() const { return rate_ ? 1 : io::blocks_in_flight; }

    void passed(i64 n_bytes) {
        if (!rate_) return;
        due_ = std::max(due_, monotonic_s() - 1) +
               static_cast<double>(n_bytes) / static_cast<double>(*rate_);
        const double wait_s = due_ - monotonic_s();
        if (wait_s > 0) std::this_thread::sleep_for(std::chrono::duration<double>(wait_s));
    }

  private:
    std::optional<i64> rate_;
    double due_ = monotonic_s();
};

// Returns whether `path` is a file that an earlier copy wrote. A file with further names (hard
// links) may also belong to a snapshot or to another user, so no copy writes into it.
bool is_own_file(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1;
}

class FileCopier {
  public:
    FileCopier(const Checkpoint& source, std::string directory, const CopyOptions& options)
        : source_(source),
          directory_(std::move(directory)),
          progress_(options.progress),
          pace_(options.bytes_per_second) {}

    const CopyResult& result() const { return result_; }

    void copy_file(const DataFile& file) {
        const std::string path = in(file.name);
        const bool resumes = is_own_file(path);
        if (resumes) {
            // `path` is from an earlier copy, and may be longer or shorter than `file`.
            const io::Fd fd(io::checked::create(path, O_WRONLY));
            io::checked::truncate(fd.get(), path, file.size);
        } else {
            io::remove_tree(path);
            (void)io::BlockFile::create(path, file.size);
        }
        const auto out = io::BlockFile::open_write(path);
        copy_header(file, out, resumes);
        std::optional<io::BlockFile> kept;
        if (resumes) kept = io::BlockFile::open_read(path);
        const std::vector<FileUnit> units = units_of(file);
        io::for_each_block(static_cast<i64>(units.size()), pace_.blocks_in_flight(),
                           [&](i64 at, io::AlignedBlock& block) {
                               copy_unit(file, units[static_cast<size_t>(at)], out, kept, block);
                           });
        out.sync();
    }

  private:
    std::string in(const std::string& name) const { return directory_ + "/" + name; }

    // Copies a unit of a file. `kept`: the file of an earlier copy, if there is one. When `kept`
    // already has the right bytes, copies nothing. Verifies the bytes of the source before it
    // writes them.
    void copy_unit(const DataFile& file, const FileUnit& unit, const io::BlockFile& out,
                   const std::optional<io::BlockFile>& kept, io::AlignedBlock& block) {
        const i64 n = unit.padded_end - unit.begin;
        if (kept && damage_of(file, unit, kept->read(block, unit.begin, n)).empty())
            return count(result_.n_kept, n);
        const auto bytes = source_.read(file, unit.begin, unit.padded_end, block);
        const std::string damage = damage_of(file, unit, bytes);
        if (!damage.empty()) {
            damaged(source_.path_of(file),
                    "{}: checksum mismatch: corrupt: copy another step (see lm-ckpt verify)",
                    damage);
        }
        out.write(bytes, unit.begin);
        count(result_.n_copied, n);
    }

    // Returns a description of the first slice of the unit that does not match its digest, or of
    // padding that is not zero; "" when all bytes of the unit are valid.
    std::string damage_of(const DataFile& file, const FileUnit& unit,
                          std::span<const std::byte> bytes) const {
        for (size_t at = unit.first; at < unit.last; ++at) {
            const Slice& slice = file.slices[at];
            const i64 begin = std::max(slice.offset, unit.begin);
            const i64 end = std::min(slice.end(), unit.end);
            const auto part = bytes.subspan(static_cast<size_t>(begin - unit.begin),
                                            static_cast<size_t>(end - begin));
            if (hash128(part) != file.digest_of(slice, unit.block)) return source_.describe(slice);
        }
        const auto padding = bytes.subspan(static_cast<size_t>(unit.end - unit.begin));
        const bool zero =
            std::ranges::all_of(padding, [](std::byte byte) { return byte == std::byte{0}; });
        return zero ? "" : fmt::format("padding after byte {}", unit.end);
    }

    void copy_header(const DataFile& file, const io::BlockFile& out, bool resumes) {
        std::vector<std::byte> header(static_cast<size_t>(file.header_bytes));
        const auto is_valid_in = [&](const std::string& path) {
            io::read_exact(io::open_read(path), path, header, 0);
            return digest(header) == file.header_digest;
        };
        if (resumes && is_valid_in(in(file.name))) return count(result_.n_kept, file.header_bytes);
        if (!is_valid_in(source_.path_of(file))) {
            damaged(
                source_.path_of(file),
                "checksum mismatch in the header: corrupt: copy another step (see lm-ckpt verify)");
        }
        out.write(header, 0);
        count(result_.n_copied, file.header_bytes);
    }

    void count(i64& n, i64 n_bytes) {
        const std::lock_guard lock(mutex_);
        n += n_bytes;
        if (progress_) progress_(result_.n_kept + result_.n_copied);
        if (&n == &result_.n_copied) pace_.passed(n_bytes);
    }

    const Checkpoint& source_;
    std::string directory_;
    const std::function<void(i64 done)>& progress_;
    Pace pace_;
    std::mutex mutex_;  // guards pace_ and result_
    CopyResult result_;
};

}  // namespace

CopyResult copy_files(const Checkpoint& source, const std::vector<DataFile>& files,
                      const std::string& directory, const CopyOptions& options) {
    FileCopier copier(source, directory, options);
    for (const DataFile& file : files) copier.copy_file(file);
    return copier.result();
}

}  // namespace lm::ckpt
