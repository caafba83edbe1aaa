// SPDX-License-Identifier: Apache-2.0
#include "convert/hf/weights.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace lm::convert {

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
      head_(fmt::format("{}.weight", hf_.head)) {}

std::string HfWeights::in_file(const std::string& name) const {
    return prefixed_ || !name.starts_with(hf_.prefix) ? name : name.substr(hf_.prefix.size());
}

const SourceTensor& HfWeights::at(const std::string& name) const {
    if (const SourceTensor* found = tensors_.find(in_file(name))) return *found;
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

bool HfWeights::is_buffer(const std::string& in_file) const {
    return std::ranges::any_of(hf_.buffers,
                               [&](std::string_view ending) { return in_file.ends_with(ending); });
}

void HfWeights::check_rest(const std::set<std::string>& used) const {
    for (const auto& [name, unread] : tensors_.unread()) {
        if (is_buffer(name) || !tensors_.is_listed(name)) continue;
        run_error(unread.path, "tensor {}: {}", name, unread.problem);
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
