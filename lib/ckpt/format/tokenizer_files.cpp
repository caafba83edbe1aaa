// SPDX-License-Identifier: Apache-2.0
#include "ckpt/format/tokenizer_files.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "ckpt/format/damage.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "io/other_format.hpp"

namespace lm::ckpt {

TokenizerFile tokenizer_file(std::string_view name, std::string text) {
    return {.name = std::string(name),
            .bytes = std::ssize(text),
            .digest = digest(text),
            .text = std::make_shared<const std::string>(std::move(text))};
}

std::vector<TokenizerFile> tokenizer_files_in(const std::string& directory) {
    std::vector<TokenizerFile> files;
    for (const std::string_view name : tokenizer_file_names) {
        const std::string path = fmt::format("{}/{}", directory, name);
        if (!io::exists(path)) continue;
        std::string text = io::read_file(path);
        if (io::is_lfs_pointer(text)) {
            note("{}: not stored: is {}", path, io::other_format(text));
            continue;
        }
        files.push_back(tokenizer_file(name, std::move(text)));
    }
    return files;
}

std::vector<TokenizerFile> read_tokenizer_files(const std::string& step_path,
                                                std::vector<TokenizerFile> files) {
    for (TokenizerFile& file : files) {
        const std::string path = step_path + "/" + file.name;
        if (!io::exists(path)) damaged(path, "is missing: use another step");
        TokenizerFile found = tokenizer_file(file.name, io::read_file(path));
        if (found.digest != file.digest) {
            damaged(path, "checksum mismatch: corrupt or edited: use another step");
        }
        file.text = std::move(found.text);
    }
    return files;
}

void write_tokenizer_files(const std::vector<TokenizerFile>& files, const std::string& directory) {
    for (const TokenizerFile& file : files) {
        io::write_file(directory + "/" + file.name, *file.text, io::Overwrite::no);
    }
}

}  // namespace lm::ckpt
