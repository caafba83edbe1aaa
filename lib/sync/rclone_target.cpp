// SPDX-License-Identifier: Apache-2.0
// A sync target that is a remote of rclone. An object store cannot rename a directory in one
// operation. The manifest, which makes a step complete, is therefore the last file of a step that
// gets its final name.
#include "sync/sync_target.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "ckpt/history/steps.hpp"
#include "io/file.hpp"
#include "io/path.hpp"
#include "io/program.hpp"

namespace lm::sync {
namespace {

// Returns whether a report of rclone check --combined has a file that differs. Each line has a mark
// and the name of a file: = same bytes, * other bytes, + missing at the remote, - missing in the
// local step, ! not compared because of an error.
bool reports_difference(const std::string& report) {
    for (size_t begin = 0; begin < report.size();) {
        if (report[begin] == '*' || report[begin] == '+' || report[begin] == '-') return true;
        begin = std::min(report.find('\n', begin), report.size() - 1) + 1;
    }
    return false;
}

class RcloneTarget final : public SyncTarget {
  public:
    // `name`: remote:path.
    RcloneTarget(std::string name, const TransferOptions& options)
        : name_(std::move(name)), links_(fmt::format("--copy-links={}", options.follow_links)) {
        while (name_.ends_with('/')) name_.pop_back();
        // The suffix B means bytes per second. Without a suffix, the unit would be KiB per second.
        if (const auto rate = options.bytes_per_second)
            limit_ = fmt::format("--bwlimit={}B", *rate);
    }

    // Creates the destination, because rclone reports an error for a directory that does not exist.
    std::vector<std::string> files() override {
        rclone({"mkdir", name_});
        return names_in(io::must_run(name_, {"rclone", "lsf", "--files-only", name_}));
    }

    std::string manifests(const std::string& cache) override {
        io::make_directories(cache);
        rclone({"mkdir", name_});
        rclone({"sync", "--filter", "- /*.tmp.*/**", "--filter", "+ /latest", "--filter",
                "+ /global_step*/manifest.json", "--filter", "- *", name_, cache});
        return cache;
    }

    void send_step(const std::string& path) override {
        const std::string to = remote(io::base_name(path));
        const std::string temporary = to + std::string(ckpt::incoming_mark);
        std::vector<std::string> send{"sync", "--checksum", links_, path, temporary};
        const bool shows = programs_show_progress();
        if (shows) send.emplace_back("--progress");
        rclone(send, true, shows ? io::Stdout::shown : io::Stdout::returned);
        rclone({"move", "--exclude", "/manifest.json", temporary, to});
        rclone({"moveto", temporary + "/manifest.json", to + "/manifest.json"});
        rclone({"purge", temporary}, false);
    }

    void send_file(const std::string& path, const std::string& name) override {
        rclone({"copyto", "--checksum", path, remote(name)});
    }

    // Lists by a filter, because rclone reports an error for the name of a directory that does not
    // exist.
    bool has_directory(const std::string& name) override {
        return !io::must_run(name_, {"rclone", "lsf", "--recursive", "--files-only", "--include",
                                     "/" + name + "/*", name_})
                    .empty();
    }

    void rename(const std::string& from, const std::string& to) override {
        rclone({"moveto", remote(from), remote(to)});
    }

    // Removes the manifest first, because no run loads a step without a manifest.
    void remove_step(const std::string& name) override {
        rclone({"deletefile", remote(name) + "/manifest.json"});
        rclone({"purge", remote(name)});
    }

    bool same_bytes(const std::string& path) override {
        const io::ProgramResult result =
            io::run_program({"rclone", "check", links_, "--log-level", "ERROR", "--combined", "-",
                             path, remote(io::base_name(path))});
        // rclone has one exit code for different bytes and for a broken connection, so the report
        // of --combined decides.
        if (reports_difference(result.output)) return false;
        io::require_success(name_, "rclone", result);
        return true;
    }

  private:
    std::string remote(const std::string& name) const {
        return name_ + (name_.ends_with(':') ? "" : "/") + name;
    }

    void rclone(std::vector<std::string> words, bool must_succeed = true,
                io::Stdout to = io::Stdout::returned) const {
        words.insert(words.begin(), "rclone");
        if (!limit_.empty()) words.push_back(limit_);
        if (must_succeed) {
            io::must_run(name_, words, to);
        } else {
            io::run_program(words);
        }
    }

    std::string name_, links_, limit_;
};

}  // namespace

std::unique_ptr<SyncTarget> rclone_target(const std::string& name, const TransferOptions& options) {
    return std::make_unique<RcloneTarget>(name, options);
}

}  // namespace lm::sync
