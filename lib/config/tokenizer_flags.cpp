// SPDX-License-Identifier: Apache-2.0
#include "config/tokenizer_flags.hpp"

namespace lm::config {

void add_tokenizer_options(cli::Options& options, text::TokenizerChoice& choice,
                           std::string_view without) {
    options.value(
        "--tokenizer-type", &choice.type, "TYPE",
        fmt::format("GPT2BPETokenizer, HFTokenizer (also HuggingFaceTokenizer, PretrainedFromHF) "
                    "or ByteTokenizer; {}",
                    without));
    options.completes({"GPT2BPETokenizer", "HFTokenizer", "ByteTokenizer"});
    options.value("--tokenizer-model,--tokenizer-name-or-path", &choice.model, "FILE",
                  "tokenizer.json of an HFTokenizer, or its directory, which may have vocab.json, "
                  "merges.txt and tokenizer_config.json instead; no tokenizer is downloaded; "
                  "--tokenizer-name-or-path is another name of this option");
    options.value("--vocab-file", &choice.vocab_file, "FILE",
                  "vocabulary of a GPT2BPETokenizer (vocab.json)");
    options.value("--merge-file", &choice.merge_file, "FILE",
                  "merges of a GPT2BPETokenizer (merges.txt)");
}

}  // namespace lm::config
