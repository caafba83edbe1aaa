// SPDX-License-Identifier: Apache-2.0
// The interface to the engine that computes a model's logits on the CPU, token by token, for one
// sequence of tokens or several together. lib/infer
// implements it in liblm_train.so. Only open_engine() opens this library, so programs that only
// list or copy checkpoints start without it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/threads.hpp"
#include "ckpt/format/tensor_source.hpp"

namespace lm::eval {

struct EngineOptions {
    int n_threads = 0;           // 0: all cores that this process may use
    i64 memory = 0;              // bytes that weights may use; 0: most of the host's free memory
    std::optional<DType> dtype;  // type of the matrices in memory; nullopt: as stored
    i64 sequences = 1;  // sequences whose keys and values are kept, if the free memory suffices
    i64 context = 0;    // largest length of a sequence, tokens; 0: the model's
};

// The probability of a token, given the tokens before it.
struct TokenScore {
    double log_probability = 0;  // natural logarithm
    bool greedy = false;         // no other token is more probable
};

// The weights of an engine.
struct Residency {
    DType dtype = DType::fp32;  // type of the matrices
    i64 bytes = 0;              // bytes of all weights
    i64 limit = 0;              // bytes that weights may use
    std::string whose;          // source of `limit`: "available memory of the host", "--memory"
    i64 n_layers_read = 0;      // layers that do not fit and are read for each pass; 0: none
    i64 bytes_read = 0;         // bytes of these layers
    double bytes_per_s = 0;     // speed of the first read
};

// The token that follows the tokens of a sequence.
struct NextToken {
    i64 sequence = 0;
    i32 id = 0;
};

// A model with sequences of tokens and the keys and values of these tokens. All sums are fp32,
// whatever the type of the weights. Results are the same for any number of threads, and those of a
// sequence do not depend on the other sequences.
class Engine {
  public:
    virtual ~Engine() = default;
    virtual const Residency& residency() const = 0;
    virtual i64 vocab_size() const = 0;
    virtual i64 context() const = 0;         // largest length of a sequence, tokens
    virtual i64 sequences() const = 0;       // number of sequences, at least 1
    virtual i64 sequence_bytes() const = 0;  // bytes of the keys and values of a sequence

    // Appends one token to each of several sequences, no two of which are the same. Reads the
    // weights once. Returns the logits [next.size(), vocab_size] of the tokens after these, valid
    // until the next call.
    virtual std::span<const float> append_each(std::span<const NextToken> next) = 0;

    // Calls task(i, worker) for every i in [0, n_tasks) on the engine's threads.
    virtual void run(i64 n_tasks, TaskRef task) = 0;

    // Selects the sequence of the functions below; at first this is sequence 0.
    virtual void select(i64 sequence) = 0;
    virtual i64 length() const = 0;  // tokens in the sequence
    // Shortens the sequence to its first `length` tokens.
    virtual void truncate(i64 length) = 0;
    // Appends tokens: at least one, and no more than fit into the context. Returns the logits
    // [vocab_size] of the next token, valid until the next call.
    virtual std::span<const float> append(std::span<const i32> tokens) = 0;
    // Appends tokens. Scores targets[i] as the token that follows the i-th of the last
    // targets.size() appended tokens, and writes this score to scores[i]. targets.size() <=
    // tokens.size().
    virtual void score(std::span<const i32> tokens, std::span<const i32> targets,
                       std::span<TokenScore> scores) = 0;
};

constexpr u32 engine_abi = 2;
constexpr const char* engine_symbol = "lm_engine_plugin";
// The functions of liblm_train.so. `engine_symbol` names the function of the library that returns a
// pointer to this struct.
struct EnginePlugin {
    u32 abi = engine_abi;
    std::unique_ptr<Engine> (*open)(const ckpt::TensorSource& source, const EngineOptions& options);
};

// Opens liblm_train.so and loads the weights of `source`, which must outlive the engine. Throws
// Error(failure) when the library is missing or of another version.
std::unique_ptr<Engine> open_engine(const ckpt::TensorSource& source, const EngineOptions& options);

}  // namespace lm::eval

// The symbol `engine_symbol` of the library.
extern "C" __attribute__((visibility("default"))) const lm::eval::EnginePlugin* lm_engine_plugin();
