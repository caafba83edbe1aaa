// SPDX-License-Identifier: Apache-2.0
#include "convert/conversion.hpp"

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "ckpt/history/generation.hpp"
#include "ckpt/history/steps.hpp"
#include "convert/hf_architecture.hpp"
#include "convert/hf_files.hpp"
#include "convert/megatron/from_megatron_deepspeed.hpp"
#include "convert/megatron/from_megatron_lm.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/output_place.hpp"

namespace lm::convert {
namespace {

constexpr std::string_view tmp = ".tmp.";  // separates a name from the suffix of its temporary name

bool is_model(const std::string& path) {
    const auto names = io::list_directory(path);
    return names.empty() || io::exists(path + "/config.json") || io::exists(path + "/latest") ||
           io::exists(path + "/latest_checkpointed_iteration.txt");
}

bool contains(const std::filesystem::path& outer, const std::filesystem::path& inner) {
    const auto [at, rest] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
    return at == outer.end();
}

}  // namespace

std::string_view name_of(Format format) {
    switch (format) {
        case Format::native:
            return "native";
        case Format::hf_gpt2:
            return "hf-gpt2";
        case Format::hf_bloom:
            return "hf-bloom";
        case Format::hf_llama:
            return "hf-llama";
        case Format::hf_gpt_neox:
            return "hf-gpt-neox";
        case Format::hf_mistral:
            return "hf-mistral";
        case Format::hf_starcoder2:
            return "hf-starcoder2";
        case Format::hf_gpt_bigcode:
            return "hf-gpt-bigcode";
        case Format::hf_stablelm:
            return "hf-stablelm";
        case Format::hf_nemotron:
            return "hf-nemotron";
        case Format::hf_qwen2:
            return "hf-qwen2";
        case Format::hf_qwen3:
            return "hf-qwen3";
        case Format::megatron_lm:
            return "megatron-lm";
        case Format::megatron_deepspeed:
            return "megatron-deepspeed";
    }
    return "?";
}

bool is_hugging_face(Format format) {
    return format != Format::native && !is_megatron(format);
}

bool is_megatron(Format format) {
    return format == Format::megatron_lm || format == Format::megatron_deepspeed;
}

namespace {

// Throws Error(usage) for a model that does not exist. The user may have meant a path such as
// bigscience/bloom-560m as the name of a model in the Hugging Face hub.
[[noreturn]] void refuse_missing(const std::string& path) {
    const size_t slash = path.find('/');
    const bool may_be_name = slash != path.npos && slash > 0 && slash + 1 < path.size() &&
                             path.find('/', slash + 1) == path.npos && path.front() != '.' &&
                             path.front() != '~';
    if (may_be_name && !io::exists(path.substr(0, slash))) {
        usage_error(path,
                    "does not exist (the directory {} does not exist): give an existing path; a "
                    "model of the Hugging Face hub must be downloaded first",
                    path.substr(0, slash));
    }
    usage_error(path, "does not exist: give a checkpoint or a Hugging Face model");
}

// Returns the format of the model with this config.json. For a missing or unknown model_type
// returns GPT-2, whose reader then reports the problem.
Format hugging_face_format(const std::string& config) {
    if (!io::exists(config)) return Format::hf_gpt2;
    const io::Json json = io::read_json(config);
    const auto type = io::json_get_or<std::string>(json, "model_type", "", config);
    for (const HfArchitecture& architecture : hf_architectures()) {
        if (architecture.model_type == type) return architecture.format;
    }
    return Format::hf_gpt2;
}

}  // namespace

Format detect_format(const std::string& path) {
    if (!io::exists(path)) refuse_missing(path);
    if (!io::is_directory(path)) {
        if (path.ends_with(".safetensors") || path.ends_with(".bin"))
            return hugging_face_format(hf_config_path(path));
        usage_error(
            path,
            "expected a directory, or a .safetensors or .bin file: give a checkpoint or a model");
    }
    if (is_megatron_deepspeed(path)) return Format::megatron_deepspeed;
    if (is_megatron_lm(path)) return Format::megatron_lm;
    const auto has = [&](const char* name) { return io::exists(path + "/" + name); };
    if (has("manifest.json") || has("latest") || !ckpt::steps_in(path).empty()) {
        return Format::native;
    }
    if (has("config.json") || has("model.safetensors") || has("model.safetensors.index.json") ||
        has("pytorch_model.bin") || has("pytorch_model.bin.index.json")) {
        return hugging_face_format(hf_config_path(path));
    }
    usage_error(
        path,
        "expected a checkpoint of lm-utils or Megatron, or the directory of a Hugging Face model");
}

namespace {

// Returns whether a training has saved to the directory: it has several steps, of lm-utils or of
// Megatron, or a start of lm-train has claimed it. An output of lm-convert or lm-ckpt merge has one
// step and no claim.
bool is_run(const std::string& directory) {
    if (ckpt::is_step(directory)) return false;
    const auto n_megatron_lm = std::ranges::count_if(
        io::list_directory(directory),
        [](const std::string& name) { return name.starts_with("iter_") || name == "release"; });
    return n_megatron_lm > 1 || ckpt::steps_in(directory).size() > 1 ||
           ckpt::newest_claim(directory).has_value();
}

}  // namespace

io::AtomicDirectory make_output(const std::string& out, const std::vector<std::string>& ins,
                                bool force) {
    const auto overwrite = force ? io::Overwrite::yes : io::Overwrite::no;
    std::string name = out;
    while (name.size() > 1 && name.ends_with('/')) name.pop_back();
    io::require_parent(name);
    for (const std::string& stale : io::stale_temporaries(name)) io::remove_tree(stale);
    if (force && io::is_directory(out)) {
        if (is_run(out)) {
            usage_error(out,
                        "is the directory of a run, which --force does not replace: choose another "
                        "name");
        }
        if (!is_model(out)) {
            usage_error(out,
                        "is a directory without a model, which --force does not replace: choose "
                        "another name");
        }
        std::error_code error;
        const auto out_path = std::filesystem::canonical(out, error);
        for (const std::string& in : ins) {
            const auto in_path = std::filesystem::canonical(in, error);
            if (contains(out_path, in_path))
                usage_error(out, "contains {}: choose another name", in);
        }
    }
    const std::string suffix = io::temporary_name(name).substr(name.size() + tmp.size());
    return io::AtomicDirectory::create(name, suffix, overwrite);
}

}  // namespace lm::convert
