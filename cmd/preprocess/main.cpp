// SPDX-License-Identifier: Apache-2.0
// lm-preprocess: converts JSON Lines to the token files of Megatron-LM's tools/preprocess_data.py.
// Its verbs work on these files.
#include <malloc.h>

#include "args.hpp"
#include "cli/main.hpp"

int main(int argc, char** argv) {
    using namespace lm;
    // With a fixed threshold, glibc returns a large block to the system when it is freed. By
    // default glibc raises the threshold up to 32 MiB, and keeps freed blocks that are smaller than
    // the threshold for the thread that allocated them.
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
