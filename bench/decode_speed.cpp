// SPDX-License-Identifier: Apache-2.0
// Measures the engine of lm-ckpt generate: the time of a token and of a prompt, against the time to
// read the weights once from memory and against lm-train's forward pass. Prints a line of JSON.
//   decode_speed MODEL DTYPE THREADS [ROUNDS [TOKENS [PROMPT [SEQUENCES]]]]
// A token of each sequence is computed at a time, after a prompt of its own.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/clock.hpp"
#include "base/threads.hpp"
#include "cpu/cpu_device.hpp"
#include "eval/open_model.hpp"
#include "infer/local_engine.hpp"
#include "train/step/trainer.hpp"

using namespace lm;

namespace {

constexpr i64 read_bytes = i64{1} << 30;  // more than any cache

// Returns the bytes per second at which all threads together read memory.
double read_rate(device::Device& device, const device::Buffer& memory, std::vector<u64>& sums) {
    const Stopwatch watch;
    const auto* const words = reinterpret_cast<const u64*>(memory.data());
    static_cast<cpu::CpuDevice&>(device).pool().run_ranges(
        memory.bytes() / 8, i64{1} << 18, [&](i64 begin, i64 end, int worker) {
            u64 sum = 0;
            for (i64 i = begin; i < end; ++i) sum += words[i];
            sums[static_cast<size_t>(worker)] += sum;
        });
    return static_cast<double>(memory.bytes()) / watch.elapsed_s();
}

std::vector<i32> tokens_of(i64 n, i64 vocabulary) {
    std::vector<i32> tokens(static_cast<size_t>(n));
    for (i64 i = 0; i < n; ++i) {
        tokens[static_cast<size_t>(i)] = static_cast<i32>((i * 7919 + 13) % vocabulary);
    }
    return tokens;
}

struct OneBatch final : train::BatchSource {
    explicit OneBatch(const std::vector<i32>& tokens) : batch(std::ssize(tokens), {}) {
        std::ranges::copy(tokens, batch.tokens.begin());
    }
    const data::Batch& next() override { return batch; }
    data::Batch batch;
};

}  // namespace

int main(int argc, char** argv) {
    if (argc < 4) {
        std::fprintf(stderr,
                     "usage: decode_speed MODEL DTYPE THREADS [ROUNDS [TOKENS [PROMPT "
                     "[SEQUENCES]]]]\n");
        return 2;
    }
    const auto number = [&](int i, int fallback) {
        return argc > i ? std::atoi(argv[i]) : fallback;
    };
    const int n_threads = number(3, 1);
    const int rounds = number(4, 3);
    const int n_tokens = number(5, 32);
    const int n_prompt = number(6, 256);
    const int n_sequences = number(7, 1);
    const eval::OpenedModel model = eval::open_model(argv[1]);
    const spec::ModelConfig& config = model.tensors->model();
    const auto engine = infer::make_engine(*model.tensors, {.n_threads = n_threads,
                                                            .dtype = dtype_from_name(argv[2]),
                                                            .sequences = n_sequences,
                                                            .context = n_prompt + n_tokens});
    std::vector<eval::NextToken> next(static_cast<size_t>(engine->sequences()));
    const auto prompt = tokens_of(n_prompt, config.vocab_size);
    const auto device = cpu::make_device(n_threads);
    const device::Buffer memory = device->allocate(read_bytes, "memory");
    std::fill_n(memory.data(), memory.bytes(), std::byte{1});
    std::vector<u64> sums(static_cast<size_t>(n_threads));
    spec::ModelConfig trained = config;
    trained.seq_length = n_prompt;
    const auto trainer =
        train::Trainer::allocate({.model = trained, .n_threads = n_threads}, *device);
    trainer->initialize();
    OneBatch batch(prompt);
    double token_s = 1e9, prompt_s = 1e9, forward_s = 1e9, rate = 0;
    for (int round = 0; round < rounds; ++round) {
        rate = std::max(rate, read_rate(*device, memory, sums));
        Stopwatch watch;
        for (i64 sequence = 0; sequence < engine->sequences(); ++sequence) {
            next[static_cast<size_t>(sequence)].sequence = sequence;
            engine->select(sequence);
            engine->truncate(0);
            watch.restart();
            engine->append(prompt);
            prompt_s = std::min(prompt_s, watch.elapsed_s());
        }
        for (int i = 0; i < n_tokens; ++i) {
            for (eval::NextToken& each : next) each.id = prompt[static_cast<size_t>(i % n_prompt)];
            watch.restart();
            engine->append_each(next);
            token_s = std::min(token_s, watch.elapsed_s());
        }
        watch.restart();
        trainer->evaluate(batch, 1);
        forward_s = std::min(forward_s, watch.elapsed_s());
    }
    // A token reads only one row of each embedding table. The table of words is read as a whole
    // only where the head is tied to it.
    i64 bytes = engine->residency().bytes;
    const i64 words = config.vocab_size * config.hidden * size_of(dtype_from_name(argv[2]));
    if (config.untied_head) bytes -= words;
    std::printf(
        "{\"tool\": \"lm-ckpt\", \"dtype\": \"%s\", \"threads\": %d, \"sequences\": %lld, "
        "\"weights_bytes\": %lld, "
        "\"tokens_per_s\": %.2f, \"read_bytes_per_s\": %.4g, \"of_bandwidth\": %.3f, "
        "\"prompt_tokens_per_s\": %.1f, \"forward_tokens_per_s\": %.1f, \"of_forward\": %.3f}\n",
        argv[2], n_threads, static_cast<long long>(engine->sequences()),
        static_cast<long long>(bytes), static_cast<double>(engine->sequences()) / token_s, rate,
        static_cast<double>(bytes) / token_s / rate, n_prompt / prompt_s, n_prompt / forward_s,
        forward_s / prompt_s);
    return sums[0] == 1 ? 1 : 0;
}
