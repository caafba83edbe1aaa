// SPDX-License-Identifier: Apache-2.0
#include "sync/rclone_target.hpp"

#include "base/error.hpp"
#include "io/file.hpp"
#include "io/path.hpp"
#include "io/program.hpp"

namespace lm::sync {

RcloneTarget::RcloneTarget(std::string name, std::optional<i64> rate) : name_(std::move(name)) {
    while (name_.ends_with('/')) name_.pop_back();
    // The suffix B means bytes per second. Without a suffix, the unit would be KiB per second.
    if (rate) limit_ = fmt::format("--bwlimit={}B", *rate);
}

std::string RcloneTarget::manifests(const std::string& cache) {
    io::make_directories(cache);
    rclone({"mkdir", name_});
    rclone({"sync", "--filter", "- /*.tmp.*/**", "--filter", "+ /latest", "--filter",
            "+ /global_step*/manifest.json", "--filter", "- *", name_, cache});
    return cache;
}

void RcloneTarget::send_step(const std::string& path) {
    const std::string to = remote(io::base_name(path));
    const std::string temporary = to + std::string(incoming_suffix);
    std::vector<std::string> send{"sync", "--checksum", path, temporary};
    const bool shows = programs_show_progress();
    if (shows) send.emplace_back("--progress");
    rclone(send, true, shows ? io::Stdout::shown : io::Stdout::returned);
    rclone({"move", "--exclude", "/manifest.json", temporary, to});
    rclone({"moveto", temporary + "/manifest.json", to + "/manifest.json"});
    rclone({"purge", temporary}, false);
}

void RcloneTarget::send_file(const std::string& path, const std::string& name) {
    rclone({"copyto", path, remote(name)});
}

void RcloneTarget::rename(const std::string& from, const std::string& to) {
    rclone({"moveto", remote(from), remote(to)});
}

// Removes the manifest first, because no run loads a step without a manifest.
void RcloneTarget::remove_step(const std::string& name) {
    rclone({"deletefile", remote(name) + "/manifest.json"});
    rclone({"purge", remote(name)});
}

bool RcloneTarget::same_bytes(const std::string& path) {
    return io::run_program(
               {"rclone", "check", "--log-level", "ERROR", path, remote(io::base_name(path))})
               .code == 0;
}

std::string RcloneTarget::remote(const std::string& name) const {
    return name_ + (name_.ends_with(':') ? "" : "/") + name;
}

void RcloneTarget::rclone(std::vector<std::string> words, bool must_succeed, io::Stdout to) const {
    words.insert(words.begin(), "rclone");
    if (!limit_.empty()) words.push_back(limit_);
    if (must_succeed) {
        io::must_run(name_, words, to);
    } else {
        io::run_program(words);
    }
}

}  // namespace lm::sync
