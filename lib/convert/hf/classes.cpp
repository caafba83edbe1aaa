// SPDX-License-Identifier: Apache-2.0
#include "convert/hf/classes.hpp"

#include <fmt/format.h>

#include <array>

#include "convert/hf/families/bloom.hpp"
#include "convert/hf/families/cohere2.hpp"
#include "convert/hf/families/exaone4.hpp"
#include "convert/hf/families/gemma3.hpp"
#include "convert/hf/families/glm4.hpp"
#include "convert/hf/families/gpt2.hpp"
#include "convert/hf/families/gpt_bigcode.hpp"
#include "convert/hf/families/gpt_neox.hpp"
#include "convert/hf/families/granite.hpp"
#include "convert/hf/families/llama.hpp"
#include "convert/hf/families/ministral.hpp"
#include "convert/hf/families/ministral3.hpp"
#include "convert/hf/families/mistral.hpp"
#include "convert/hf/families/nemotron.hpp"
#include "convert/hf/families/olmo2.hpp"
#include "convert/hf/families/olmo3.hpp"
#include "convert/hf/families/phi3.hpp"
#include "convert/hf/families/qwen2.hpp"
#include "convert/hf/families/qwen3.hpp"
#include "convert/hf/families/seed_oss.hpp"
#include "convert/hf/families/smollm3.hpp"
#include "convert/hf/families/stablelm.hpp"
#include "convert/hf/families/starcoder2.hpp"

namespace lm::convert {
namespace {

// The most common class first, of those that can hold one model.
constexpr std::array classes{
    &hf::gpt2,        &hf::bloom,      &hf::llama,    &hf::gpt_neox, &hf::mistral, &hf::starcoder2,
    &hf::gpt_bigcode, &hf::stablelm,   &hf::nemotron, &hf::qwen2,    &hf::qwen3,   &hf::ministral,
    &hf::smollm3,     &hf::olmo2,      &hf::exaone4,  &hf::granite,  &hf::cohere2, &hf::phi3,
    &hf::seed_oss,    &hf::ministral3, &hf::gemma3,   &hf::olmo3,    &hf::glm4};

}  // namespace

std::span<const HfClass* const> hf_classes() {
    return classes;
}

const HfClass* hf_class_of_type(std::string_view model_type) {
    for (const HfClass* hf : classes) {
        if (hf->model_type == model_type) return hf;
    }
    return nullptr;
}

std::vector<MappedTensor> hf_tensors(const HfClass& hf, const ModelTensors& tensors) {
    std::vector<MappedTensor> mapped;
    const auto add = [&](std::span<const HfClass::Row> rows, const std::string& theirs,
                         const std::string& ours, bool conv1d) {
        for (const HfClass::Row& row : rows) {
            for (const char* suffix : {".weight", ".bias"}) {
                auto tensor = tensors.map(fmt::format("{}{}{}", theirs, row.theirs, suffix),
                                          fmt::format("{}{}{}", ours, row.ours, suffix), hf.qkv);
                if (!tensor) continue;
                tensor->transposed = conv1d && tensor->rank == 2;
                mapped.push_back(std::move(*tensor));
            }
        }
    };
    const std::string prefix(hf.prefix);
    add(hf.before_layers, prefix, "", false);
    for (i64 layer = 0; layer < tensors.config().n_layers; ++layer) {
        add(hf.in_layers, fmt::format("{}{}{}.", prefix, hf.layer_prefix, layer),
            fmt::format("layers.{}.", layer), hf.conv1d);
    }
    add(hf.after_layers, prefix, "", false);
    const HfClass::Row head{hf.head, "head"};
    add(std::span(&head, 1), "", "", false);
    return mapped;
}

}  // namespace lm::convert
