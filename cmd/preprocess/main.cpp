// SPDX-License-Identifier: Apache-2.0
// lm-preprocess: JSON Lines to token files as Megatron-LM's tools/preprocess_data.py writes them,
// and verbs on what it made.
#include "cli/main.hpp"
#include "args.hpp"

int main(int argc, char** argv) {
    using namespace lm;
    cli::Options options("lm-preprocess", "turn text into token files for training");
    preprocess::Args args;
    preprocess::declare(options, args);
    preprocess::declare_info(options);
    preprocess::declare_verify(options);
    preprocess::declare_cat(options);
    preprocess::declare_merge(options);
    preprocess::declare_train_tokenizer(options);
    preprocess::declare_encode(options);
    preprocess::declare_decode(options);
    options.epilogue(
        "Example: lm-preprocess --input corpus.jsonl.xz --output-prefix data/corpus --append-eod");
    return cli::run_main(argc, argv, options, [&] { return preprocess::preprocess(args); });
}
