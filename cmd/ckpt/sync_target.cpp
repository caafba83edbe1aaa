// SPDX-License-Identifier: Apache-2.0
#include "sync_target.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/error.hpp"
#include "ckpt/copy.hpp"
#include "ckpt/prune.hpp"
#include "ckpt/steps.hpp"
#include "io/atomic.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"
#include "paths.hpp"
#include "program.hpp"
#include "verbs.hpp"

namespace lm::ckpt_tool {
namespace {

constexpr std::string_view incoming = ".tmp.sync";  // suffix of a step that is not complete yet

// A directory of this machine. Every byte is verified while it is copied.
class PathTarget : public SyncTarget {
  public:
    PathTarget(std::string path, std::optional<i64> rate) : path_(std::move(path)), rate_(rate) {
        while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
        io::make_directories(path_);
    }

    std::string manifests(const std::string&) override { return path_; }

    void send_step(const std::string& path) override {
        const auto step = ckpt::Checkpoint::open(path);
        ckpt::copy(ckpt::plan_copy(step, false), in(base_name(path)),
                   {.replace = false, .bytes_per_second = rate_, .progress = {}});
    }

    void send_file(const std::string& path, const std::string& name) override {
        io::make_directories(io::parent_of(in(name)));
        io::write_file(in(name), io::read_file(path), io::Overwrite::yes);
    }

    void rename(const std::string& from, const std::string& to) override {
        io::make_directories(io::parent_of(in(to)));
        io::checked::rename(in(from), in(to));
        io::checked::fsync_parent_of(in(to));
        io::checked::fsync_path(path_);
    }

    void remove_step(const std::string& name) override { ckpt::remove_whole(path_, name); }

    bool same_bytes(const std::string& path) override {
        return ckpt::verify(in(base_name(path)), nullptr).problems.empty();
    }

    bool can_drop_state() const override { return true; }
    void drop_state(const std::string& name) override {
        ckpt::prune(path_, {{}, {{ckpt::PruneKind::optimizer_state, name, 0}}, {}}, nullptr);
    }

  private:
    std::string in(const std::string& name) const { return path_ + "/" + name; }
    std::string path_;
    std::optional<i64> rate_;
};

// Runs a program and returns its output. Throws Error(failure) when its exit code is not 0.
std::string must_run(const std::string& target, const std::vector<std::string>& words) {
    const ProgramResult result = run_program(words);
    if (result.code == 127) run_error(words[0], "cannot be started: install it");
    if (result.code != 0) {
        run_error(target, "{} failed with exit code {}: run the command again to continue",
                  words[0], result.code);
    }
    return result.output;
}

// host:path over ssh. rsync verifies each file that it transfers; RSYNC_RSH names another ssh.
class RsyncTarget : public SyncTarget {
  public:
    RsyncTarget(const std::string& name, std::optional<i64> rate) : name_(name) {
        const size_t colon = name.find(':');
        host_ = name.substr(0, colon);
        path_ = name.substr(colon + 1);
        if (path_.empty()) usage_error(name, "has no path: give host:path");
        const char* shell = std::getenv("RSYNC_RSH");
        ssh_ = shell != nullptr && *shell != '\0' ? shell : "ssh";
        rsync_ = {"rsync", "-a", "--partial-dir=.rsync-partial", "-e", ssh_};
        // rsync counts in KiB per second.
        if (rate) rsync_.push_back(fmt::format("--bwlimit={}", std::max<i64>(1, *rate / 1024)));
    }

    std::string manifests(const std::string& cache) override {
        on_host("mkdir -p " + shell_quoted(path_));
        io::make_directories(cache);
        auto words = rsync_;
        for (const char* word :
             {"--delete", "--delete-excluded", "--prune-empty-dirs", "--exclude=/*.tmp.*",
              "--include=/latest", "--include=/global_step*/",
              "--include=/global_step*/manifest.json", "--exclude=*"}) {
            words.emplace_back(word);
        }
        words.push_back(remote("") + "/");
        words.push_back(cache + "/");
        must_run(name_, words);
        return cache;
    }

    void send_step(const std::string& path) override {
        const std::string name = base_name(path);
        const std::string temporary = name + std::string(incoming);
        auto words = rsync_;
        words.insert(words.end(), {"--delete", path + "/", remote(temporary) + "/"});
        must_run(name_, words);
        // -T: mv fails when a directory of that name exists, instead of moving the step into it.
        on_host(fmt::format("cd {} && sync && mv -T {} {} && sync", shell_quoted(path_),
                            shell_quoted(temporary), shell_quoted(name)));
    }

    void send_file(const std::string& path, const std::string& name) override {
        const std::string parent = io::parent_of(path_ + "/" + name);
        on_host("mkdir -p " + shell_quoted(parent));
        auto words = rsync_;
        words.insert(words.end(), {path, remote(name)});
        must_run(name_, words);
    }

    void rename(const std::string& from, const std::string& to) override {
        const std::string parent = io::parent_of(path_ + "/" + to);
        on_host(fmt::format("cd {} && mkdir -p {} && mv -T {} {}", shell_quoted(path_),
                            shell_quoted(parent), shell_quoted(from), shell_quoted(to)));
    }

    void remove_step(const std::string& name) override {
        const std::string aside = name + ".tmp.removed";
        on_host(fmt::format("cd {0} && rm -rf {2} && mv -T {1} {2} && rm -rf {2}",
                            shell_quoted(path_), shell_quoted(name), shell_quoted(aside)));
    }

    bool same_bytes(const std::string& path) override {
        auto words = rsync_;
        words.insert(words.end(),
                     {"-n", "-c", "--itemize-changes", "--no-times", "--no-perms",
                      "--omit-dir-times", "--delete", path + "/", remote(base_name(path)) + "/"});
        return must_run(name_, words).empty();
    }

  private:
    std::string remote(const std::string& name) const {
        return host_ + ":" + path_ + (name.empty() ? "" : "/" + name);
    }

    void on_host(const std::string& command) const {
        std::vector<std::string> words;
        for (size_t begin = 0; begin < ssh_.size();) {
            const size_t end = std::min(ssh_.find(' ', begin), ssh_.size());
            if (end > begin) words.push_back(ssh_.substr(begin, end - begin));
            begin = end + 1;
        }
        words.push_back(host_);
        words.push_back(command);
        must_run(name_, words);
    }

    std::string name_, host_, path_, ssh_;
    std::vector<std::string> rsync_;
};

// A remote of rclone. An object store has no directories: there the manifest, which makes a step
// complete, is the last file that gets its final name.
class RcloneTarget : public SyncTarget {
  public:
    RcloneTarget(std::string name, std::optional<i64> rate) : name_(std::move(name)) {
        while (name_.ends_with('/')) name_.pop_back();
        // rclone takes a number with suffix B in bytes per second.
        if (rate) limit_ = fmt::format("--bwlimit={}B", *rate);
    }

    std::string manifests(const std::string& cache) override {
        io::make_directories(cache);
        rclone({"mkdir", name_});
        rclone({"sync", "--filter", "- /*.tmp.*/**", "--filter", "+ /latest", "--filter",
                "+ /global_step*/manifest.json", "--filter", "- *", name_, cache});
        return cache;
    }

    void send_step(const std::string& path) override {
        const std::string to = remote(base_name(path));
        const std::string temporary = to + std::string(incoming);
        rclone({"sync", "--checksum", path, temporary});
        rclone({"move", "--exclude", "/manifest.json", temporary, to});
        rclone({"moveto", temporary + "/manifest.json", to + "/manifest.json"});
        rclone({"purge", temporary}, false);
    }

    void send_file(const std::string& path, const std::string& name) override {
        rclone({"copyto", path, remote(name)});
    }

    void rename(const std::string& from, const std::string& to) override {
        rclone({"moveto", remote(from), remote(to)});
    }

    // Removes the manifest first: without it the step is incomplete, so that no run loads it.
    void remove_step(const std::string& name) override {
        rclone({"deletefile", remote(name) + "/manifest.json"});
        rclone({"purge", remote(name)});
    }

    bool same_bytes(const std::string& path) override {
        return run_program(
                   {"rclone", "check", "--log-level", "ERROR", path, remote(base_name(path))})
                   .code == 0;
    }

  private:
    std::string remote(const std::string& name) const {
        return name_ + (name_.ends_with(':') ? "" : "/") + name;
    }

    void rclone(std::vector<std::string> words, bool must_succeed = true) const {
        words.insert(words.begin(), "rclone");
        if (!limit_.empty()) words.push_back(limit_);
        if (must_succeed) {
            must_run(name_, words);
        } else {
            run_program(words);
        }
    }

    std::string name_, limit_;
};

bool is_rclone_remote(const std::string& remote) {
    const ProgramResult result = run_program({"rclone", "listremotes"});
    return result.code == 0 &&
           ("\n" + result.output).find("\n" + remote + "\n") != std::string::npos;
}

}  // namespace

void SyncTarget::drop_state(const std::string& name) {
    usage_error(name, "--weights-only-older-than: expected a local directory as DEST");
}

std::unique_ptr<SyncTarget> SyncTarget::open(const std::string& name,
                                             std::optional<i64> bytes_per_second) {
    const size_t colon = name.find(':');
    if (colon == name.npos || name.find('/') < colon) {
        return std::make_unique<PathTarget>(name, bytes_per_second);
    }
    if (is_rclone_remote(name.substr(0, colon + 1))) {
        return std::make_unique<RcloneTarget>(name, bytes_per_second);
    }
    return std::make_unique<RsyncTarget>(name, bytes_per_second);
}

}  // namespace lm::ckpt_tool
