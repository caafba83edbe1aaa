// SPDX-License-Identifier: Apache-2.0
#include "convert/tokenizer_fit.hpp"

#include "base/error.hpp"

namespace lm::convert {

text::TokenizerIds tokenizer_ids(const std::string& directory) {
    try {
        return text::read_tokenizer_ids(directory);
    } catch (const Error&) {
        return {};
    }
}

void check_tokenizer_fits(const std::string& directory, i64 vocab_size) {
    const text::TokenizerIds ids = tokenizer_ids(directory);
    if (ids.largest < vocab_size) return;
    run_error(ids.path,
              "token '{}' has the id {}, but the model has {} rows of the vocabulary: give the "
              "tokenizer of the model, or resize the model with resize_token_embeddings() of "
              "transformers",
              ids.largest_token, ids.largest, vocab_size);
}

}  // namespace lm::convert
