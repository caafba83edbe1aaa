// SPDX-License-Identifier: Apache-2.0
#include "ckpt/copy.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "ckpt/steps.hpp"
#include "io/append_file.hpp"
#include "io/atomic.hpp"
#include "io/checked.hpp"

namespace lm::ckpt {
namespace {

constexpr i64 chunk_bytes = i64{8} << 20;
constexpr std::string_view lock_name = "lock";

// Computes the digests of a file's regions and counts the regions that match.
class RegionCheck {
  public:
    // Starts at region `at`.
    explicit RegionCheck(const CopyFile& file, size_t at = 0)
        : file_(file), at_(at), done_(end_of_good()) {}

    void update(std::span<const std::byte> bytes) {
        while (!bytes.empty() && !bad_ && at_ < file_.regions.size()) {
            const i64 left = file_.regions[at_].end - done_;
            const size_t n = std::min(bytes.size(), static_cast<size_t>(left));
            digester_.update(bytes.first(n));
            done_ += static_cast<i64>(n);
            bytes = bytes.subspan(n);
            if (done_ == file_.regions[at_].end) finish_region();
        }
    }

    bool bad() const { return bad_; }
    size_t n_good() const { return at_; }
    i64 end_of_good() const { return at_ == 0 ? 0 : file_.regions[at_ - 1].end; }
    const CopyFile::Region& current() const { return file_.regions[at_]; }

  private:
    void finish_region() {
        bad_ = digester_.finish() != current().digest;
        if (bad_) return;
        ++at_;
        digester_ = Digester();
    }

    const CopyFile& file_;
    size_t at_;
    i64 done_;
    bool bad_ = false;
    Digester digester_;
};

// Limits the rate of a copy by sleeping. A copy that was delayed elsewhere catches up at most one
// second.
class Pace {
  public:
    explicit Pace(std::optional<i64> bytes_per_second) : rate_(bytes_per_second) {}

    // Returns the bytes of a tenth of a second.
    i64 chunk() const {
        return rate_ ? std::clamp(*rate_ / 10, i64{4096}, chunk_bytes) : chunk_bytes;
    }

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
        // The lock file is in the temporary directory and ends with this process, even after a
        // kill.
        refuse_existing();
        io::checked::make_directory(temporary_);
        auto lock = io::AppendFile::open(in(std::string(lock_name)));
        if (!lock.lock())
            run_error(temporary_, "another copy to this place is running: wait for it");
        refuse_existing();  // again: another copy may have finished before the lock was acquired
        for (const CopyFile& file : plan_.files) copy_file(file);
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

    void copy_file(const CopyFile& file) {
        const std::string source_path = plan_.from + "/" + file.name;
        // Kept regions are not read from the source again: their digest is the one in the manifest.
        const io::Fd source = io::open_read(source_path);
        auto out = io::AppendFile::open(in(file.name), io::ReadAgain::no);
        RegionCheck check(file, keep_good(file, out));
        std::vector<std::byte> chunk;
        for (i64 at = out.size(); at < file.size(); at += static_cast<i64>(chunk.size())) {
            chunk.resize(static_cast<size_t>(std::min(pace_.chunk(), file.size() - at)));
            io::read_exact(source, source_path, chunk, at);
            check.update(chunk);
            // The region is checked before its last bytes are written. So every region of the copy
            // is either valid or shorter than its full size.
            if (check.bad()) throw_damage(source_path, check.current());
            out.write(chunk);
            result_.n_copied += static_cast<i64>(chunk.size());
            report();
            pace_.passed(static_cast<i64>(chunk.size()));
        }
        out.sync();
    }

    // Truncates `out` to its leading regions that match their digests; returns the number of
    // regions.
    size_t keep_good(const CopyFile& file, io::AppendFile& out) {
        const i64 before = result_.n_kept;
        RegionCheck check(file);
        out.for_each_block(std::min(out.size(), file.size()),
                           [&](std::span<const std::byte> bytes) {
                               check.update(bytes);
                               result_.n_kept = before + check.end_of_good();
                               report();
                           });
        out.truncate(check.end_of_good());
        return check.n_good();
    }

    [[noreturn]] static void throw_damage(const std::string& path, const CopyFile::Region& region) {
        throw DamageError(Exit::failure,
                          fmt::format("{}: {}: checksum mismatch: corrupt: copy another step (see "
                                      "lm-ckpt verify)",
                                      path, region.what));
    }

    void report() const {
        if (options_.progress) options_.progress(result_.n_kept + result_.n_copied);
    }

    // Removes the lock, and files of an earlier copy that do not belong to this one.
    void remove_others() const {
        std::set<std::string> wanted;
        for (const CopyFile& file : plan_.files) wanted.insert(file.name);
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
        io::remove_tree(temporary_);  // the old step, after an exchange
    }

    const CopyPlan& plan_;
    const std::string& path_;
    std::string temporary_;
    const CopyOptions& options_;
    Pace pace_;
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
