// SPDX-License-Identifier: Apache-2.0
// A model of any format, opened for its logits, and its tokenizer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ckpt/format/tensor_source.hpp"
#include "text/tokenizer_choice.hpp"

namespace lm::eval {

struct OpenedModel {
    std::unique_ptr<ckpt::TensorSource> tensors;
    ckpt::TokenizerInfo tokenizer;  // as the model's files state it
    std::string digest;  // digest of the manifest of a checkpoint of lm-utils, else empty
    std::vector<std::string> directories;  // where its tokenizer files may be, the nearest first
};

// Opens a checkpoint of lm-utils or Megatron (a step, or a directory of steps: the latest one) or a
// model of Hugging Face, without reading tensors. Throws Error(usage) for a path without a model.
OpenedModel open_model(const std::string& path);

// The tokenizer of a model and its end of document, -1: unknown.
struct ModelTokenizer {
    std::shared_ptr<const text::Tokenizer> tokenizer;  // nullptr: none was found
    i32 end_of_document = -1;
};

// Returns the tokenizer that `choice` names. Without a choice: the tokenizer.json, or vocab.json
// and merges.txt, in one of the model's directories; else GPT-2's or the byte tokenizer, if its
// digest is the model's or, for a model without a digest, if it has as many ids as the model (with
// a note). Warns when the digest differs from the model's. Throws Error(usage) when the number of
// ids differs, too.
ModelTokenizer find_tokenizer(const OpenedModel& model, const text::TokenizerChoice& choice);

// Throws Error(usage) when no tokenizer was found.
void require_tokenizer(const OpenedModel& model, const ModelTokenizer& tokenizer);

// Throws Error(usage) naming `object` when an id is not in the model's vocabulary.
void check_ids(std::span<const i32> ids, i64 vocab_size, const std::string& object);

}  // namespace lm::eval
