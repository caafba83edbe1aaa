// SPDX-License-Identifier: Apache-2.0
// A model of any format, opened to compute logits, and the tokenizer of the model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ckpt/format/tensor_source.hpp"
#include "text/choice/tokenizer_choice.hpp"

namespace lm::eval {

struct OpenedModel {
    std::unique_ptr<ckpt::TensorSource> tensors;
    ckpt::TokenizerInfo tokenizer;  // as the model's files state it
    std::string digest;  // digest of the manifest of a checkpoint of lm-utils, else empty
    std::vector<std::string> directories;  // searched for tokenizer files, in this order
};

// Opens a checkpoint of lm-utils or Megatron, or a model of Hugging Face, without reading tensors.
// In a directory of steps, opens the latest step. Throws Error(usage) for a path without a model.
OpenedModel open_model(const std::string& path);

// The tokenizer of a model, and the id of the end of document (-1: unknown).
struct ModelTokenizer {
    std::shared_ptr<const text::Tokenizer> tokenizer;  // nullptr: none was found
    i32 end_of_document = -1;

    // Returns the id that the first token of a document is scored after: the end of the document
    // before. Returns -1 if it is unknown, and if the document begins with the id that the
    // tokenizer puts before every text: that id is then the context, as in lm-evaluation-harness.
    i32 before(std::span<const i32> document) const;
};

// Returns the tokenizer that `choice` names. If `choice` names none, returns the tokenizer of the
// files tokenizer.json, or vocab.json and merges.txt, in one of the model's directories. Without
// such files, returns the GPT-2 or the byte tokenizer, whichever has the digest that the model
// states. If the model states no digest, returns whichever of these two tokenizers has as many ids
// as the model, and prints a note. When the digest of the tokenizer differs from the digest that
// the model states, warns if the numbers of ids are equal, else throws Error(usage).
ModelTokenizer find_tokenizer(const OpenedModel& model, const text::TokenizerChoice& choice);

// Throws Error(usage) when no tokenizer was found.
void require_tokenizer(const OpenedModel& model, const ModelTokenizer& tokenizer);

// Throws Error(usage) naming `object` when an id is not in the model's vocabulary.
void check_ids(std::span<const i32> ids, i64 vocab_size, const std::string& object);

}  // namespace lm::eval
