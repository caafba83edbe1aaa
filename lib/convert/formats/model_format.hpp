// SPDX-License-Identifier: Apache-2.0
// The formats of models, and the format of a path.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "convert/hf/classes.hpp"

namespace lm::convert {

enum class Format { native, hugging_face, megatron_lm, megatron_deepspeed };

// A format with, for Hugging Face, the class of transformers.
struct ModelFormat {
    Format format = Format::native;
    const HfClass* hf_class = nullptr;  // nullptr: not Hugging Face, or a class that is not known

    ModelFormat() = default;
    ModelFormat(Format value, const HfClass* hf = nullptr) : format(value), hf_class(hf) {}
    bool operator==(const ModelFormat&) const = default;
    bool is_hugging_face() const { return format == Format::hugging_face; }
    bool is_megatron() const {
        return format == Format::megatron_lm || format == Format::megatron_deepspeed;
    }
};

// Returns the name of the options --to and --from, such as "native" or "hf-llama".
std::string_view name_of(const ModelFormat& format);
// Returns the formats of the options --to and --from.
std::vector<ModelFormat> all_formats();

// Returns the format of the model at `path`. Throws Error(usage) when the format is not known.
ModelFormat detect_format(const std::string& path);

// Throws Error unless `path` is a complete model of the given format: the model has each tensor of
// its configuration, with all elements, in files of the right size. Reads hardly any tensor data.
void check_output(const std::string& path, const ModelFormat& format);

}  // namespace lm::convert
