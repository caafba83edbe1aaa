// SPDX-License-Identifier: Apache-2.0
// test_logits CKPT < tokens > logits: prints the model's logits, for comparison with other
// programs. Standard input: rows of T int32 token ids, T the model's sequence length. Standard
// output: for each row [T, V] fp32. Native byte order.
#include <cstdio>

#include "base/error.hpp"
#include "ckpt/format/checkpoint.hpp"
#include "ckpt/history/steps.hpp"
#include "cpu/cpu_device.hpp"
#include "train/step/trainer.hpp"

using namespace lm;

int main(int argc, char** argv) try {
    if (argc != 2) return 2;
    const ckpt::Checkpoint checkpoint = ckpt::open(argv[1]);
    const spec::ModelConfig& model = checkpoint.manifest().model;
    const int n_threads = available_cores();
    const auto device = cpu::make_device(n_threads);
    const auto trainer =
        train::Trainer::allocate({.model = model, .n_threads = n_threads}, *device);
    trainer->load(checkpoint, false);
    trainer->gather_loaded();
    data::Batch batch(model.seq_length, {});
    while (std::fread(batch.tokens.data(), sizeof(i32), batch.tokens.size(), stdin) ==
           batch.tokens.size()) {
        trainer->logits(batch, [](i64, std::span<const float> row) {
            std::fwrite(row.data(), sizeof(float), row.size(), stdout);
        });
    }
    return std::fflush(stdout) == 0 ? 0 : 3;
} catch (const Error& error) {
    std::fprintf(stderr, "test_logits: %s\n", error.what());
    return static_cast<int>(error.code());
}
