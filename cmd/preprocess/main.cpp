// SPDX-License-Identifier: Apache-2.0
// lm-preprocess: converts JSON Lines to the token files of Megatron-LM's tools/preprocess_data.py.
// Its verbs work on these files.
#include <malloc.h>

#include "args.hpp"
#include "cli/main.hpp"

int main(int argc, char** argv) {
    using namespace lm;
    // Large blocks return to the system when they are freed. By default glibc raises this threshold
    // up to 32 MiB and keeps freed blocks below it for the thread that allocated them.
    ::mallopt(M_MMAP_THRESHOLD, 1 << 20);
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
    options.examples(
        {"lm-preprocess --input corpus.jsonl.xz --output-prefix data/corpus --append-eod",
         "zcat part*.gz | lm-preprocess --input - --output-prefix data/all --append-eod",
         "lm-preprocess info data/corpus_text_document"});
    return cli::run_main(argc, argv, options, [&] { return preprocess::preprocess(args); });
}
