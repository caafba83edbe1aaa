// SPDX-License-Identifier: Apache-2.0
#include "io/inputs.hpp"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"
#include "io/stream.hpp"

namespace lm::io {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view text_endings[] = {".jsonl", ".ndjson", ".json"};
constexpr std::string_view compressed_endings[] = {".gz", ".bgz", ".xz", ".lzma", ".zst", ".zstd"};
// Files that train-tokenizer and other tokenizer libraries write.
constexpr std::string_view tokenizer_files[] = {"tokenizer.json", "tokenizer_config.json",
                                                "special_tokens_map.json", "vocab.json"};

bool ends_with_one_of(std::string_view name, std::span<const std::string_view> endings) {
    return std::ranges::any_of(endings, [&](std::string_view e) { return name.ends_with(e); });
}

std::string_view ending_of(std::string_view name) {
    const size_t dot = name.rfind('.');
    return dot == name.npos ? ""sv : name.substr(dot);
}

bool is_named_json_lines(std::string_view name) {
    if (ends_with_one_of(name, compressed_endings)) name = name.substr(0, name.rfind('.'));
    return ends_with_one_of(name, text_endings);
}

// Returns whether the content of a file starts like JSON Lines: with an object, after an optional
// byte order mark and blanks. Also returns true when the file is empty or cannot be read, so that
// the reader reports the error.
bool begins_as_json_lines(const std::string& path) {
    constexpr i64 n_bytes = i64{4} << 10;
    std::string text;
    try {
        text = first_bytes_of(path, n_bytes);
    } catch (const Error&) {
        return true;
    }
    for (const std::string_view mark : {"\xEF\xBB\xBF"sv, "\xFF\xFE"sv, "\xFE\xFF"sv})
        if (text.starts_with(mark)) text.erase(0, mark.size());
    const size_t first = text.find_first_not_of(" \t\r\n\0"sv);
    return first == text.npos || text[first] == '{';
}

// Collects the files below a directory, and the skipped entries.
class Directory {
  public:
    explicit Directory(const std::string& path) : path_(path) {}

    // Returns the files with JSON Lines, sorted. Call it once.
    std::vector<std::string> files() {
        collect(path_);
        for (const auto& [ending, skipped] : skipped_) {
            note(
                "{}: skipped{}: not JSON Lines by name or content: to read such a file, name it in "
                "--input",
                skipped.first, skipped.others(ending.empty() ? "such names" : "*" + ending));
        }
        if (own_.n > 0) {
            note("{}: skipped{}: part of a dataset or a tokenizer", own_.first,
                 own_.others("such files"));
        }
        if (files_.empty()) {
            const i64 n = n_skipped();
            usage_error(path_, "the directory holds no {}",
                        n == 0 ? "files" : fmt::format("JSON Lines: {} skipped", count(n)));
        }
        std::ranges::sort(files_);
        return std::move(files_);
    }

  private:
    struct Skipped {
        std::string first;
        i64 n = 0;

        void add(const std::string& path) {
            if (n++ == 0 || path < first) first = path;
        }
        std::string others(const std::string& kind) const {
            return n == 1 ? "" : fmt::format(", with {} more {}", n - 1, kind);
        }
    };

    static std::string count(i64 n) {
        return n == 1 ? "one file was" : fmt::format("{} files were", n);
    }

    i64 n_skipped() const {
        i64 n = own_.n;
        for (const auto& [ending, skipped] : skipped_) n += skipped.n;
        return n;
    }

    // Treats a link to a file as a file. Does not follow a link to a directory, because links may
    // form a cycle.
    void collect(const std::string& directory) {
        const std::vector<std::string> names = list_directory(directory);
        const std::set<std::string_view> known(names.begin(), names.end());
        for (const std::string& name : names) {
            if (name.starts_with('.')) continue;
            std::string path = directory + (directory.ends_with('/') ? "" : "/") + name;
            struct stat status {};
            if (::stat(path.c_str(), &status) != 0) {
                if (errno == ENOENT)
                    run_error(path,
                              "is a link to a file that does not exist: correct or remove it");
                system_error(path, "get the status", errno);
            }
            const bool is_directory = S_ISDIR(status.st_mode);
            if (S_ISREG(status.st_mode)) {
                add(std::move(path), name, known);
            } else if (!is_directory) {
                note("{}: skipped: neither a file nor a directory", path);
            } else if (::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode)) {
                note(
                    "{}: skipped: a link to a directory: to read the directory, name the link in "
                    "--input",
                    path);
            } else if (name.ends_with(".unfinished")) {
                own_.add(path);
            } else {
                collect(path);
            }
        }
    }

    void add(std::string path, std::string_view name, const std::set<std::string_view>& beside) {
        if (is_own(name, beside)) {
            own_.add(path);
        } else if (is_named_json_lines(name) || begins_as_json_lines(path)) {
            files_.push_back(std::move(path));
        } else {
            skipped_[std::string(ending_of(name))].add(path);
        }
    }

    // Returns whether a file of that name belongs to a dataset or a tokenizer: token, index and
    // metadata files (also unfinished files), and tokenizer files.
    static bool is_own(std::string_view name, const std::set<std::string_view>& beside) {
        const size_t temporary = name.find(".tmp.");
        const std::string_view final_name = name.substr(0, temporary);
        const std::string_view ending = ending_of(final_name);
        if (ending == ".bin" || ending == ".idx") return true;
        if (std::ranges::find(tokenizer_files, final_name) != std::end(tokenizer_files))
            return true;
        if (ending != ".json") return false;
        const std::string stem(final_name.substr(0, final_name.size() - ending.size()));
        return temporary != name.npos || beside.contains(stem + ".idx");
    }

    std::string path_;
    std::vector<std::string> files_;
    Skipped own_;
    std::map<std::string, Skipped> skipped_;  // by the suffix of the name
};

// Returns the paths that match the pattern, sorted; none if it matches nothing.
std::vector<std::string> matches_of(const std::string& pattern) {
    glob_t found{};
    const int rc = ::glob(pattern.c_str(), 0, nullptr, &found);
    std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    ::globfree(&found);
    if (rc == GLOB_NOSPACE) system_error(pattern, "match", ENOMEM);
    std::ranges::sort(paths);
    return paths;
}

}  // namespace

std::string input_name(const std::string& path) {
    return path == "-" ? "standard input" : path;
}

std::vector<std::string> expand_inputs(std::span<const std::string> arguments) {
    std::vector<std::string> inputs;
    const auto add = [&](const std::string& path) {
        if (is_directory(path))
            std::ranges::move(Directory(path).files(), std::back_inserter(inputs));
        else
            inputs.push_back(path);
    };
    for (const std::string& argument : arguments) {
        if (argument == "-") {
            if (std::ranges::find(inputs, argument) != inputs.end())
                usage_error("--input", "- is given twice: standard input can be read only once");
            inputs.push_back(argument);
        } else if (::access(argument.c_str(), F_OK) == 0) {
            add(argument);
        } else if (errno != ENOENT) {
            usage_error(argument, "{}", std::generic_category().message(errno));
        } else {
            const std::vector<std::string> paths = matches_of(argument);
            if (paths.empty()) usage_error(argument, "does not exist");
            for (const std::string& path : paths) add(path);
        }
    }
    return inputs;
}

}  // namespace lm::io
