// SPDX-License-Identifier: Apache-2.0
// lm-preprocess: JSON Lines to token files as Megatron-LM's tools/preprocess_data.py writes them,
// and verbs on what it made.
#include <malloc.h>

#include "args.hpp"
#include "cli/main.hpp"

int main(int argc, char** argv) {
    using namespace lm;
    // Large blocks go back to the system when they are freed: glibc would raise this by itself, up
    // to 32 MiB, and keep them for the thread that had them.
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
    options.epilogue(
        "Example: lm-preprocess --input corpus.jsonl.xz --output-prefix data/corpus --append-eod");
    return cli::run_main(argc, argv, options, [&] { return preprocess::preprocess(args); });
}
