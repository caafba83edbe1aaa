// SPDX-License-Identifier: Apache-2.0
#include "convert/hf/weights.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"

namespace lm::convert {
namespace {

// Endings of tensors that are not parameters: versions of transformers saved them and ignore them.
constexpr std::array<std::string_view, 8> buffers{".attn.bias",
                                                  ".attn.masked_bias",
                                                  ".attention.bias",
                                                  ".attention.masked_bias",
                                                  "rotary_emb.inv_freq",
                                                  "rotary_emb.cos_cached",
                                                  "rotary_emb.sin_cached",
                                                  "position_ids"};

bool is_buffer(const std::string& name) {
    return std::ranges::any_of(buffers,
                               [&](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace

HfWeights HfWeights::open(const std::string& path, const HfModel& model) {
    return {path, model, HfTensors::open(path)};
}

HfWeights::HfWeights(std::string path, const HfModel& model, HfTensors tensors)
    : path_(std::move(path)),
      hf_(*model.hf_class),
      tied_(!model.config.untied_head),
      tensors_(std::move(tensors)),
      prefixed_(std::ranges::any_of(
          tensors_.all(), [&](const auto& entry) { return entry.first.starts_with(hf_.prefix); })),
      word_(fmt::format("{}{}.weight", hf_.prefix, hf_.before_layers.front().theirs)),
      head_(fmt::format("{}.weight", hf_.head)) {
    // transformers 5 has one name for the head of every class.
    constexpr const char* newer = "lm_head.weight";
    if (tensors_.find(head_) == nullptr && tensors_.find(newer) != nullptr) head_ = newer;
}

std::string HfWeights::in_file(const std::string& name) const {
    return prefixed_ || !name.starts_with(hf_.prefix) ? name : name.substr(hf_.prefix.size());
}

const SourceTensor& HfWeights::at(const std::string& name) const {
    const bool is_head = name == fmt::format("{}.weight", hf_.head);
    if (const SourceTensor* found = tensors_.find(is_head ? head_ : in_file(name))) return *found;
    if (tied_ && name == word_) {
        if (const SourceTensor* head = tensors_.find(head_)) return *head;
    }
    refuse_missing(name);
}

void HfWeights::refuse_missing(const std::string& name) const {
    const std::string wanted = in_file(name);
    if (const auto other = tensors_.unread().find(wanted); other != tensors_.unread().end()) {
        run_error(other->second.path, "tensor {}: {}", wanted, other->second.problem);
    }
    refuse_absent(wanted);
    // Wrappers of PyTorch and scripts put a prefix before all names, or before those of the inner
    // model: "module.", "_orig_mod.". A tied model may have only its head.
    const std::string inner = name.starts_with(hf_.prefix) ? name.substr(hf_.prefix.size()) : name;
    for (const auto& entry : tensors_.all()) {
        const std::string& has = entry.first;
        const bool is_head = tied_ && name == word_ && has.ends_with("." + head_);
        if (!is_head && !has.ends_with("." + inner)) continue;
        run_error(path_, "tensor {} is missing, but {} exists: remove the prefix of all names",
                  is_head ? head_ : name, has);
    }
    run_error(path_, "tensor {} is missing: copy all files of the model", wanted);
}

void HfWeights::refuse_absent(const std::string& in_file) const {
    const auto absent = tensors_.absent().find(in_file);
    if (absent == tensors_.absent().end()) return;
    run_error(absent->second,
              "corrupt or incomplete: the index names tensor {}, which this file does not have",
              in_file);
}

void HfWeights::check_rest(const std::set<std::string>& used) const {
    for (const auto& [name, path] : tensors_.absent()) {
        const bool is_tied = tied_ && (name == head_ || name == in_file(word_));  // one is enough
        if (!is_buffer(name) && !is_tied) refuse_absent(name);
    }
    // No parameter of a supported class is missing, so these are masks, positions or counters.
    for (const auto& [name, unread] : tensors_.unread()) {
        if (is_buffer(name) || !tensors_.is_listed(name)) continue;
        note("{}: tensor {} is ignored ({}): a {} has no such tensor", unread.path, name,
             unread.problem, hf_.class_name);
    }
    for (const auto& [name, tensor] : tensors_.all()) {
        if (used.contains(name) || is_buffer(name) || !tensors_.is_listed(name)) continue;
        if (tied_ && name == head_) {
            const SourceTensor& word = at(word_);
            if (same_elements(tensor, word)) continue;
            run_error(tensor.path(),
                      "{} differs from {}, although tie_word_embeddings is true for this model: "
                      "correct config.json",
                      tensor.name, word.name);
        }
        run_error(tensor.path(), "tensor {} is not part of a {} model of this configuration", name,
                  hf_.class_name);
    }
}

}  // namespace lm::convert
