// SPDX-License-Identifier: Apache-2.0
#include "eval/open_model.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/log.hpp"
#include "ckpt/history/steps.hpp"
#include "convert/formats/model_format.hpp"
#include "convert/hf/config_json.hpp"
#include "convert/hf/from_hf.hpp"
#include "convert/megatron/open_megatron.hpp"
#include "io/path.hpp"

namespace lm::eval {
namespace {

// Returns the installed tokenizer that has the digest that the model states. If the model states no
// digest, returns the installed tokenizer with as many ids as the model. Returns nullptr when no
// installed tokenizer fits.
std::shared_ptr<const text::Tokenizer> installed(const OpenedModel& model) {
    const std::string& digest = model.tokenizer.digest;
    if (!digest.empty()) return text::installed_tokenizer(digest);
    for (const char* type : {"GPT2BPETokenizer", "ByteTokenizer"}) {
        auto tokenizer = text::load_tokenizer({.type = type});
        if (tokenizer->vocab_size() == model.tensors->model().vocab_size) {
            note("{}: states no tokenizer: using {}, because it has {} ids like the model",
                 model.tensors->path(), type, tokenizer->vocab_size());
            return tokenizer;
        }
    }
    return nullptr;
}

// Warns or throws Error(usage) when the chosen tokenizer is not the tokenizer of the training.
void check_tokenizer(const OpenedModel& model, const text::Tokenizer& tokenizer) {
    const std::string& digest = model.tokenizer.digest;
    if (digest.empty() || digest == tokenizer.digest()) return;
    const i64 trained = model.tensors->model().vocab_size;
    if (tokenizer.vocab_size() != trained) {
        usage_error(model.tensors->path(),
                    "was trained with a tokenizer of {} ids, but the given {} has {}: give the "
                    "tokenizer of the checkpoint",
                    trained, tokenizer.type(), tokenizer.vocab_size());
    }
    warn(
        "{}: was trained with another tokenizer file than the given {} of {} ids: check that both "
        "files contain the same tokenizer",
        model.tensors->path(), tokenizer.type(), tokenizer.vocab_size());
}

std::shared_ptr<const text::Tokenizer> chosen(const OpenedModel& model,
                                              const text::TokenizerChoice& choice) {
    const std::string& digest = model.tokenizer.digest;
    if (choice.names_one()) return text::load_tokenizer(choice, digest);
    for (const std::string& directory : model.directories) {
        if (auto files = text::choice_in(directory)) {
            files->special = choice.special;
            return text::load_tokenizer(*files, digest);
        }
    }
    return installed(model);
}

}  // namespace

OpenedModel open_model(const std::string& path) {
    const convert::ModelFormat format = convert::detect_format(path);
    if (format.is_megatron()) {
        return {convert::open_megatron_tensors(path, true), {}, {}, {path, io::parent_of(path)}};
    }
    if (format.is_hugging_face()) {
        convert::HfSource source = convert::open_hf_source(path);
        return {std::move(source.tensors),
                source.tokenizer,
                {},
                {io::parent_of(convert::hf_config_path(path))}};
    }
    auto checkpoint = std::make_unique<ckpt::Checkpoint>(ckpt::open(path));
    const ckpt::TokenizerInfo tokenizer = checkpoint->manifest().tokenizer;
    const std::string digest = checkpoint->manifest().digest;
    const std::string step = checkpoint->path();
    return {std::move(checkpoint), tokenizer, digest, {step, io::parent_of(step)}};
}

ModelTokenizer find_tokenizer(const OpenedModel& model, const text::TokenizerChoice& choice) {
    ModelTokenizer result{chosen(model, choice), static_cast<i32>(model.tokenizer.end_of_document)};
    if (result.tokenizer) check_tokenizer(model, *result.tokenizer);
    if (result.end_of_document < 0 && result.tokenizer && result.tokenizer->eod()) {
        result.end_of_document = *result.tokenizer->eod();
    }
    if (result.end_of_document >= model.tensors->model().vocab_size) result.end_of_document = -1;
    return result;
}

i32 ModelTokenizer::before(std::span<const i32> document) const {
    const auto prefix = tokenizer ? tokenizer->prefix() : std::span<const i32>();
    const bool begins = !prefix.empty() && document.size() >= prefix.size() &&
                        std::ranges::equal(document.first(prefix.size()), prefix);
    return begins ? -1 : end_of_document;
}

void require_tokenizer(const OpenedModel& model, const ModelTokenizer& tokenizer) {
    if (tokenizer.tokenizer) return;
    usage_error(model.tensors->path(),
                "has no tokenizer: give --tokenizer-model FILE, or --vocab-file and --merge-file, "
                "or copy tokenizer.json into {}",
                model.directories.front());
}

void check_ids(std::span<const i32> ids, i64 vocab_size, const std::string& object) {
    for (const i32 id : ids) {
        if (id >= 0 && id < vocab_size) continue;
        usage_error(object,
                    "has the id {}, but the ids of the model are 0 to {}: use ids of the tokenizer "
                    "of the model",
                    id, vocab_size - 1);
    }
}

}  // namespace lm::eval
