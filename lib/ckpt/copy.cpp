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

// Follows the bytes of a file and tells how far they fit.
class RegionCheck {
  public:
    // From the start of region `at` on.
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

// Sleeps so that no more than so many bytes a second go by. A pause elsewhere is not made up for.
class Pace {
  public:
    explicit Pace(std::optional<i64> bytes_per_second) : rate_(bytes_per_second) {}

    // A tenth of a second at a time.
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
        refuse_existing();
        io::checked::make_directory(temporary_);
        auto lock = io::AppendFile::open(in(std::string(lock_name)));
        if (!lock.lock()) run_error(temporary_, "another copy to this place is at work");
        refuse_existing();  // that one may have ended just now
        for (const CopyFile& file : plan_.files) copy_file(file);
        for (const auto& [name, text] : plan_.documents) {
            io::write_file(in(name), text, io::Overwrite::yes);
        }
        remove_others();
        io::checked::fsync_path(temporary_);
        publish();
        return result_;
    }

  private:
    std::string in(const std::string& name) const { return temporary_ + "/" + name; }

    void refuse_existing() const {
        if (options_.replace || !io::exists(path_)) return;
        run_error(path_,
                  "is there already, another step or an incomplete one: use --force to "
                  "replace it");
    }

    void copy_file(const CopyFile& file) {
        const std::string source_path = plan_.from + "/" + file.name;
        const io::Fd source = io::open_read(source_path);
        auto out = io::AppendFile::open(in(file.name), io::ReadAgain::no);
        RegionCheck check(file, keep_good(file, out));
        std::vector<std::byte> chunk;
        for (i64 at = out.size(); at < file.size(); at += static_cast<i64>(chunk.size())) {
            chunk.resize(static_cast<size_t>(std::min(pace_.chunk(), file.size() - at)));
            io::read_exact(source, source_path, chunk, at);
            check.update(chunk);
            if (check.bad()) throw_damage(source_path, check.current());
            out.write(chunk);
            result_.n_copied += static_cast<i64>(chunk.size());
            report();
            pace_.passed(static_cast<i64>(chunk.size()));
        }
        out.sync();
    }

    // Leaves in `out` what fits; so many regions.
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
                          fmt::format("{}: {}: its bytes do not fit their checksum: damaged: copy "
                                      "another step (see lm-ckpt verify)",
                                      path, region.what));
    }

    void report() const {
        if (options_.progress) options_.progress(result_.n_kept + result_.n_copied);
    }

    // What an earlier copy of more, or of another step, left; and the lock.
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
            run_error(path_, "came to exist while it was being copied: it was left as it is");
        }
        io::checked::fsync_parent_of(path_);
        io::remove_tree(temporary_);  // by now the old one, if there was one
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
