// SPDX-License-Identifier: Apache-2.0
#include "convert/conversion.hpp"

#include <unistd.h>

#include <filesystem>

#include "base/error.hpp"
#include "ckpt/steps.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"

namespace lm::convert {
namespace {

bool is_model(const std::string& path) {
    const auto names = io::list_directory(path);
    return names.empty() || io::exists(path + "/config.json") || io::exists(path + "/latest");
}

bool contains(const std::filesystem::path& outer, const std::filesystem::path& inner) {
    const auto [at, rest] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
    return at == outer.end();
}

}  // namespace

std::string_view name_of(Format format) {
    return format == Format::native ? "native" : "hf-gpt2";
}

Format detect_format(const std::string& path) {
    if (!io::exists(path))
        usage_error(path, "does not exist: give a checkpoint or a Hugging Face model");
    if (!io::is_directory(path)) {
        if (path.ends_with(".safetensors")) return Format::hf_gpt2;
        usage_error(path,
                    "is neither a directory nor a .safetensors file: give a checkpoint or a model");
    }
    const auto has = [&](const char* name) { return io::exists(path + "/" + name); };
    if (has("manifest.json") || has("latest") || !ckpt::steps_in(path).empty()) {
        return Format::native;
    }
    if (has("config.json") || has("model.safetensors") || has("model.safetensors.index.json")) {
        return Format::hf_gpt2;
    }
    usage_error(path, "is neither a checkpoint (global_step*) nor a Hugging Face model directory");
}

io::AtomicDirectory make_output(const std::string& out, const std::vector<std::string>& ins,
                                bool force) {
    const auto overwrite = force ? io::Overwrite::yes : io::Overwrite::no;
    if (force && io::is_directory(out)) {
        if (!is_model(out)) {
            usage_error(
                out,
                "is a directory without a model: --force does not replace it: choose another name");
        }
        std::error_code error;
        const auto out_path = std::filesystem::canonical(out, error);
        for (const std::string& in : ins) {
            const auto in_path = std::filesystem::canonical(in, error);
            if (contains(out_path, in_path))
                usage_error(out, "contains {}: choose another name", in);
        }
    }
    return io::AtomicDirectory::create(out, std::to_string(::getpid()), overwrite);
}

}  // namespace lm::convert
