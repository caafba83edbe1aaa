// SPDX-License-Identifier: Apache-2.0
// The options of the verbs that compute logits (generate, score), and the function that loads the
// model of these verbs.
#pragma once

#include <memory>
#include <string>

#include "cli/options.hpp"
#include "eval/engine.hpp"
#include "eval/open_model.hpp"

namespace lm::ckpt_tool {

struct EngineArgs {
    text::TokenizerChoice tokenizer;
    i64 n_threads = 0;
    std::string dtype;
    std::optional<cli::Bytes> memory;
};

// Declares --tokenizer-*, --vocab-file, --merge-file, --dtype, --memory and --threads.
void add_engine_options(cli::Options& options, EngineArgs& args);

// Returns an engine with the weights of `tensors`. Logs a note when some layers do not fit into
// memory.
std::unique_ptr<eval::Engine> load_engine(const ckpt::TensorSource& tensors, const EngineArgs& args,
                                          i64 sequences = 1, i64 context = 0);

}  // namespace lm::ckpt_tool
