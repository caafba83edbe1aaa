// SPDX-License-Identifier: Apache-2.0
#include "convert/output.hpp"

#include <unistd.h>

#include <filesystem>

#include "base/error.hpp"

namespace lm::convert {
namespace {

bool is_a_model(const std::string& path) {
    const auto names = io::list_directory(path);
    return names.empty() || io::exists(path + "/config.json") || io::exists(path + "/latest");
}

bool contains(const std::filesystem::path& outer, const std::filesystem::path& inner) {
    const auto [at, rest] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
    return at == outer.end();
}

}  // namespace

io::AtomicDirectory make_output(const std::string& out, const std::vector<std::string>& ins,
                                bool force) {
    const auto overwrite = force ? io::Overwrite::yes : io::Overwrite::no;
    if (force && io::is_directory(out)) {
        if (!is_a_model(out)) {
            usage_error(out, "is a directory that holds no model: --force does not replace it");
        }
        std::error_code error;
        const auto out_path = std::filesystem::canonical(out, error);
        for (const std::string& in : ins) {
            const auto in_path = std::filesystem::canonical(in, error);
            if (contains(out_path, in_path)) usage_error(out, "holds {}: choose another name", in);
        }
    }
    return {out, std::to_string(::getpid()), overwrite};
}

}  // namespace lm::convert
