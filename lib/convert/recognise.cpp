// SPDX-License-Identifier: Apache-2.0
// Which format a path holds.
#include "base/error.hpp"
#include "ckpt/checkpoint.hpp"
#include "convert/gpt2.hpp"
#include "convert/hf_files.hpp"

namespace lm::convert {

std::string_view name_of(Format format) {
    return format == Format::native ? "native" : "hf-gpt2";
}

Format recognise(const std::string& path) {
    if (!io::exists(path)) usage_error(path, "does not exist");
    if (!io::is_directory(path)) {
        if (path.ends_with(".safetensors")) return Format::hf_gpt2;
        usage_error(path, "is neither a directory nor a .safetensors file");
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

}  // namespace lm::convert
