// SPDX-License-Identifier: Apache-2.0
#include "ckpt/copy.hpp"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "ckpt/damage.hpp"
#include "ckpt/data_file.hpp"
#include "ckpt/steps.hpp"
#include "io/append_file.hpp"
#include "io/atomic.hpp"
#include "io/block_file.hpp"
#include "io/checked.hpp"

namespace lm::ckpt {
namespace {

constexpr std::string_view lock_name = "lock";

// Limits the rate of a copy by sleeping. After a delay elsewhere, exceeds the rate only to make up
// for at most one second.
class Pace {
  public:
    explicit Pace(std::optional<i64> bytes_per_second) : rate_(bytes_per_second) {}

    // Returns the number of blocks that may be in progress at once: one, when their rate is
    // limited.
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

class Copier {
  public:
    Copier(const CopyPlan& plan, const std::string& path, const CopyOptions& options)
        : plan_(plan),
          path_(path),
          temporary_(copy_temporary(path)),
          options_(options),
          pace_(options.bytes_per_second) {}

    CopyResult run() {
        // Locks a file in the temporary directory. The lock ends with this process, even after a
        // kill.
        refuse_existing();
        io::checked::make_directory(temporary_);
        auto lock = io::AppendFile::open(in(std::string(lock_name)));
        if (!lock.lock())
            run_error(temporary_, "another copy to this place is running: wait for it");
        refuse_existing();  // again: another copy may have finished before the lock was acquired
        for (const DataFile& file : plan_.files) copy_file(file);
        // The manifest is the last document: a directory with a manifest has all its files.
        for (const auto& [name, text] : plan_.documents) {
            io::write_file(in(name), text, io::Overwrite::yes);
        }
        remove_others();
        // Every file is durable now. This makes the file names durable before the rename publishes
        // them.
        io::checked::fsync_path(temporary_);
        publish();
        return result_;
    }

  private:
    std::string in(const std::string& name) const { return temporary_ + "/" + name; }

    void refuse_existing() const {
        if (options_.replace || !io::exists(path_)) return;
        run_error(path_,
                  "exists already and is another step or an incomplete one: use --force to "
                  "replace it");
    }

    void copy_file(const DataFile& file) {
        const std::string path = in(file.name);
        const bool resumes = io::exists(path);
        if (resumes) {
            // The file of an earlier copy may be longer or shorter.
            const io::Fd fd(io::checked::create(path, O_WRONLY));
            io::checked::truncate(fd.get(), path, file.size);
        } else {
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

    // Copies a unit of a file. Does nothing when the file of an earlier copy, `kept`, has the right
    // bytes there. Verifies the bytes of the source before it writes them.
    void copy_unit(const DataFile& file, const FileUnit& unit, const io::BlockFile& out,
                   const std::optional<io::BlockFile>& kept, io::AlignedBlock& block) {
        const i64 n = unit.padded_end - unit.begin;
        if (kept && damage_of(file, unit, kept->read(block, unit.begin, n)).empty())
            return count(result_.n_kept, n);
        const auto bytes = plan_.source.read(file, unit.begin, unit.padded_end, block);
        const std::string damage = damage_of(file, unit, bytes);
        if (!damage.empty()) {
            damaged(plan_.source.path_of(file),
                    "{}: checksum mismatch: corrupt: copy another step (see lm-ckpt verify)",
                    damage);
        }
        out.write(bytes, unit.begin);
        count(result_.n_copied, n);
    }

    // Returns the first part of the unit that does not match its digest; empty: all are valid.
    std::string damage_of(const DataFile& file, const FileUnit& unit,
                          std::span<const std::byte> bytes) const {
        for (size_t at = unit.first; at < unit.last; ++at) {
            const Slice& slice = file.slices[at];
            const i64 begin = std::max(slice.offset, unit.begin);
            const i64 end = std::min(slice.end(), unit.end);
            const auto part = bytes.subspan(static_cast<size_t>(begin - unit.begin),
                                            static_cast<size_t>(end - begin));
            if (hash128(part) != file.digest_of(slice, unit.block))
                return plan_.source.describe(slice);
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
        if (!is_valid_in(plan_.source.path_of(file))) {
            damaged(plan_.source.path_of(file),
                    "its header: checksum mismatch: corrupt: copy another step (see lm-ckpt "
                    "verify)");
        }
        out.write(header, 0);
        count(result_.n_copied, file.header_bytes);
    }

    void count(i64& n, i64 n_bytes) {
        const std::lock_guard lock(mutex_);
        n += n_bytes;
        if (options_.progress) options_.progress(result_.n_kept + result_.n_copied);
        if (&n == &result_.n_copied) pace_.passed(n_bytes);
    }

    // Removes the lock file, and the files of an earlier copy that do not belong to this one.
    void remove_others() const {
        std::set<std::string> wanted;
        for (const DataFile& file : plan_.files) wanted.insert(file.name);
        for (const auto& [name, text] : plan_.documents) wanted.insert(name);
        for (const std::string& name : io::list_directory(temporary_)) {
            if (!wanted.contains(name)) io::remove_tree(in(name));
        }
    }

    void publish() const {
        if (options_.replace && io::exists(path_)) {
            io::checked::exchange_directories(temporary_, path_);
        } else if (!io::checked::rename_new(temporary_, path_)) {
            run_error(path_,
                      "was created by another program while it was being copied: left unchanged");
        }
        io::checked::fsync_parent_of(path_);
        io::remove_tree(temporary_);  // has the old step after an exchange
    }

    const CopyPlan& plan_;
    const std::string& path_;
    std::string temporary_;
    const CopyOptions& options_;
    Pace pace_;
    std::mutex mutex_;  // guards pace_ and result_
    CopyResult result_;
};

}  // namespace

std::string copy_temporary(const std::string& path) {
    return path + std::string(copy_mark);
}

CopyResult copy(const CopyPlan& plan, const std::string& path, const CopyOptions& options) {
    return Copier(plan, path, options).run();
}

}  // namespace lm::ckpt
