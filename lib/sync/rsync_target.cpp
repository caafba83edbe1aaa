// SPDX-License-Identifier: Apache-2.0
// A sync target host:path, over rsync and ssh. rsync verifies each file that it transfers. The
// environment variable RSYNC_RSH replaces the command `ssh`.
#include "sync/sync_target.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/error.hpp"
#include "ckpt/history/steps.hpp"
#include "io/file.hpp"
#include "io/path.hpp"
#include "io/program.hpp"

namespace lm::sync {
namespace {

// Returns shell commands that fail when `path` or one of its parents is a symbolic link, relative
// to the directory of the destination. Such a link would lead rsync and mkdir to other files.
std::string refuse_links(const std::string& path) {
    std::string commands;
    for (size_t end = path.find('/');; end = path.find('/', end + 1)) {
        const std::string part = io::shell_quoted(path.substr(0, end));
        commands += fmt::format(
            "if [ -L {0} ]; then echo {0}: is a symbolic link: remove it >&2; exit 1; fi; ", part);
        if (end == path.npos) return commands;
    }
}

using Words = std::vector<std::string>;

class RsyncTarget final : public SyncTarget {
  public:
    // `name`: host:path.
    RsyncTarget(const std::string& name, const TransferOptions& options)
        : name_(name), step_words_(options.follow_links ? Words{"--copy-links"} : Words{}) {
        const size_t colon = name.find(':');
        host_ = name.substr(0, colon);
        path_ = name.substr(colon + 1);
        if (path_.empty()) usage_error(name, "has no path: give host:path");
        const char* shell = std::getenv("RSYNC_RSH");
        ssh_ = shell != nullptr && *shell != '\0' ? shell : "ssh";
        rsync_ = {"rsync", "-a", "--partial-dir=.rsync-partial", "-e", ssh_};
        // The unit of rsync's --bwlimit is KiB per second.
        if (const auto rate = options.bytes_per_second)
            rsync_.push_back(fmt::format("--bwlimit={}", std::max<i64>(1, *rate / 1024)));
    }

    std::vector<std::string> files() override {
        return names_in(
            on_host(fmt::format("if [ -d {0} ]; then ls -A {0}; fi", io::shell_quoted(path_))));
    }

    std::string manifests(const std::string& cache) override {
        on_host("mkdir -p " + io::shell_quoted(path_));
        io::make_directories(cache);
        auto words = rsync_;
        // --checksum: another step of the same number may have a manifest of the same size and
        // second. A link or a FIFO of the host would block the reader of the cache, or lead it to
        // other files.
        for (const char* word :
             {"--checksum", "--no-links", "--no-devices", "--no-specials", "--delete",
              "--delete-excluded", "--prune-empty-dirs", "--exclude=/*.tmp.*", "--include=/latest",
              "--include=/global_step*/", "--include=/global_step*/manifest.json", "--exclude=*"}) {
            words.emplace_back(word);
        }

        words.push_back(remote("") + "/");
        words.push_back(cache + "/");
        io::must_run(name_, words);
        return cache;
    }

    // Does not know of quotas.
    bool has_space(const std::string& path, i64 bytes) override {
        const std::string temporary = io::base_name(path) + std::string(ckpt::incoming_mark);
        std::istringstream numbers(on_host(fmt::format(
            "cd {0} && df -Pk . | {{ read -r header && read -r fs size used available rest && "
            "echo $available; }} && if [ -d {1} ]; then du -sk {1}; fi",
            io::shell_quoted(path_), io::shell_quoted(temporary))));
        constexpr i64 kib = 1024;
        i64 available = 0;
        i64 copied = 0;
        if (!(numbers >> available)) return true;
        numbers >> copied;
        constexpr i64 block = 4;  // KiB that the end of a file may need
        const auto n_blocks = static_cast<i64>(io::list_directory(path).size()) + 1;
        return bytes / kib + n_blocks * block <= available + copied;
    }

    void send_step(const std::string& path) override {
        const std::string name = io::base_name(path);
        const std::string temporary = name + std::string(ckpt::incoming_mark);
        on_host(
            fmt::format("cd {} && {{ {}:; }}", io::shell_quoted(path_), refuse_links(temporary)));
        auto words = words_for_step();
        words.insert(words.end(), {"--delete", path + "/", remote(temporary) + "/"});
        const bool shows = programs_show_progress();
        if (shows) words.emplace_back("--info=progress2");
        io::must_run(name_, words, shows ? io::Stdout::shown : io::Stdout::returned);
        // -T: if a directory with the new name exists, mv fails instead of moving the step into
        // this directory.
        on_host(fmt::format("cd {} && sync && mv -T {} {} && sync", io::shell_quoted(path_),
                            io::shell_quoted(temporary), io::shell_quoted(name)));
    }

    void send_file(const std::string& path, const std::string& name) override {
        const std::string parent = io::parent_of(name);
        on_host(fmt::format("cd {} && {{ {}mkdir -p {}; }}", io::shell_quoted(path_),
                            refuse_links(parent), io::shell_quoted(parent)));
        auto words = rsync_;
        // `latest` may have the size and the second of the one before, from an earlier sync.
        if (name == ckpt::latest_file) words.emplace_back("--checksum");
        words.insert(words.end(), {path, remote(name)});
        io::must_run(name_, words);
    }

    bool has_directory(const std::string& name) override {
        const std::string directory = io::shell_quoted(path_ + "/" + name);
        return !on_host(fmt::format("if [ -d {0} ]; then ls -A {0}; fi", directory)).empty();
    }

    void rename(const std::string& from, const std::string& to) override {
        const std::string parent = io::parent_of(to);
        on_host(fmt::format("cd {} && {{ {}mkdir -p {} && mv -T {} {}; }}", io::shell_quoted(path_),
                            refuse_links(parent), io::shell_quoted(parent), io::shell_quoted(from),
                            io::shell_quoted(to)));
    }

    void remove_step(const std::string& name) override {
        const std::string aside = name + std::string(ckpt::removal_mark);
        on_host(fmt::format("cd {0} && rm -rf {2} && mv -T {1} {2} && rm -rf {2}",
                            io::shell_quoted(path_), io::shell_quoted(name),
                            io::shell_quoted(aside)));
    }

    bool same_bytes(const std::string& path) override {
        auto words = words_for_step();
        words.insert(words.end(), {"-n", "-c", "--itemize-changes", "--no-times", "--no-perms",
                                   "--omit-dir-times", "--delete", path + "/",
                                   remote(io::base_name(path)) + "/"});
        return io::must_run(name_, words).empty();
    }

  private:
    Words words_for_step() const {
        Words words = rsync_;
        words.insert(words.end(), step_words_.begin(), step_words_.end());
        return words;
    }

    std::string remote(const std::string& name) const {
        return host_ + ":" + path_ + (name.empty() ? "" : "/" + name);
    }

    // Runs `command` in the shell of the host. Throws Error(failure) when it fails.
    std::string on_host(const std::string& command) const {
        std::vector<std::string> words;
        for (size_t begin = 0; begin < ssh_.size();) {
            const size_t end = std::min(ssh_.find(' ', begin), ssh_.size());
            if (end > begin) words.push_back(ssh_.substr(begin, end - begin));
            begin = end + 1;
        }

        words.push_back(host_);
        words.push_back(command);
        return io::must_run(name_, words);
    }

    std::string name_, host_, path_, ssh_;
    Words rsync_;       // the words that all calls of rsync start with
    Words step_words_;  // further words of the calls that read a step
};

}  // namespace

std::unique_ptr<SyncTarget> rsync_target(const std::string& name, const TransferOptions& options) {
    return std::make_unique<RsyncTarget>(name, options);
}

}  // namespace lm::sync
