// SPDX-License-Identifier: Apache-2.0
#include "convert/formats/model_format.hpp"

#include <algorithm>
#include <array>
#include <functional>

#include "base/error.hpp"
#include "base/named.hpp"
#include "ckpt/format/checkpoint.hpp"
#include "ckpt/history/steps.hpp"
#include "convert/hf/config_json.hpp"
#include "convert/hf/from_hf.hpp"
#include "convert/megatron/from_megatron_deepspeed.hpp"
#include "convert/megatron/from_megatron_lm.hpp"
#include "convert/megatron/open_megatron.hpp"
#include "io/file.hpp"
#include "io/other_format.hpp"

namespace lm::convert {

namespace {

constexpr std::array formats{Named{Format::native, "native"},
                             Named{Format::hugging_face, "hugging-face"},
                             Named{Format::megatron_lm, "megatron-lm"},
                             Named{Format::megatron_deepspeed, "megatron-deepspeed"}};

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

ModelFormat hugging_face_format(const std::string& model) {
    const std::string config = hf_config_path(model);
    return {Format::hugging_face, io::exists(config) ? hf_class_in(config) : nullptr};
}

}  // namespace

std::string_view name_of(const ModelFormat& format) {
    return format.hf_class ? format.hf_class->name : name_in(formats, format.format);
}

std::vector<ModelFormat> all_formats() {
    std::vector<ModelFormat> all;
    for (const auto& [format, name] : formats) {
        if (format != Format::hugging_face) {
            all.emplace_back(format);
            continue;
        }
        for (const HfClass* hf : hf_classes()) all.emplace_back(format, hf);
    }
    return all;
}

namespace {

// Throws Error(usage) for a directory with steps of Megatron-LM.
void refuse_without_tracker(const std::string& path) {
    std::vector<std::string> names = io::list_directory(path);
    std::ranges::sort(names, std::greater<>());
    for (const std::string& name : names) {
        const std::string step = path + "/" + name;
        if (!name.starts_with("iter_") || !is_megatron_lm(step)) continue;
        usage_error(path,
                    "has steps of Megatron-LM, but no latest_checkpointed_iteration.txt: give one "
                    "of them, such as {}",
                    step);
    }
}

}  // namespace

ModelFormat detect_format(const std::string& path) {
    if (!io::exists(path)) refuse_missing(path);
    if (!io::is_directory(path)) {
        if (path.ends_with(".safetensors") || path.ends_with(".bin"))
            return hugging_face_format(path);
        const auto other = io::other_format_of(path);
        const bool is_zip = other.starts_with("a zip file");  // that of torch.save, too
        if (!is_zip && !other.empty()) run_error(path, "is {}", other);
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
    if (has("adapter_config.json") && !has("model.safetensors") &&
        !has("model.safetensors.index.json")) {
        usage_error(path,
                    "is a LoRA adapter without its base model: merge both with "
                    "merge_and_unload() of peft, and save the result with save_pretrained()");
    }
    if (has("config.json") || has("model.safetensors") || has("model.safetensors.index.json") ||
        has("pytorch_model.bin") || has("pytorch_model.bin.index.json")) {
        return hugging_face_format(path);
    }
    refuse_without_tracker(path);
    usage_error(
        path,
        "expected a checkpoint of lm-utils or Megatron, or the directory of a Hugging Face model");
}

void check_output(const std::string& path, const ModelFormat& format) {
    if (format.is_hugging_face() && !io::exists(hf_config_path(path))) {
        usage_error(path,
                    "exists without config.json: remove the directory, and run lm-convert again");
    }
    const ModelFormat found = detect_format(path);
    if (found != format) {
        usage_error(path, "exists with the format {}, expected {}: use --force to replace it",
                    name_of(found), name_of(format));
    }
    ConversionRequest request;
    request.in = path;
    if (format == Format::native) {
        ckpt::open(path);
    } else if (format.is_megatron()) {
        open_megatron(request).sources().check_complete(path);
    } else {
        open_hf(path).import.check_complete(path);
    }
}

}  // namespace lm::convert
