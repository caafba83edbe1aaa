// SPDX-License-Identifier: Apache-2.0
// Writes a checkpoint of a GPT-2 of 1.01 billion random fp32 weights (4.0 GB), without optimizer
// state, for bench/convert.py.
//   random_checkpoint DIR
#include <bit>
#include <cstdio>

#include "base/rng.hpp"
#include "ckpt/format/geometry.hpp"
#include "ckpt/history/save.hpp"
#include "io/file.hpp"

using namespace lm;

namespace {

spec::ModelConfig gpt2_1b() {
    spec::ModelConfig config;
    config.n_layers = 18;
    config.hidden = 2048;
    config.n_heads = 16;
    config.seq_length = 1024;
    config.vocab_size = 50257;
    config.resolve();
    return config;
}

// Writes floats with magnitudes in [1/32, 1/16) and random mantissas.
void fill(std::span<std::byte> to, u64 key, i64 first) {
    auto* const values = reinterpret_cast<u32*>(to.data());
    constexpr u32 exponent = 0x3d000000;  // 1/32
    u64 state = key ^ (static_cast<u64>(first) * 0x9e3779b97f4a7c15);
    for (size_t i = 0; i < to.size() / sizeof(u32); ++i) {
        state = state * 6364136223846793005 + 1442695040888963407;
        const auto random = static_cast<u32>(state >> 32);
        values[i] = (random & 0x807fffff) | exponent;
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: random_checkpoint DIR\n");
        return 2;
    }
    const spec::ModelConfig config = gpt2_1b();
    const std::vector<spec::TensorSpec> table = spec::tensor_table(config);
    std::vector<ckpt::Piece> pieces;
    for (size_t i = 0; i < table.size(); ++i) {
        const ckpt::Region all = ckpt::whole(table[i].shape);
        ckpt::Piece piece{.tensor = static_cast<i64>(i),
                          .kind = ckpt::SliceKind::weight,
                          .box = all.box,
                          .flat_end = all.flat_end};
        piece.concurrent = true;
        piece.read = [key = stream_key(1, table[i].name)](std::span<std::byte> to, i64 offset) {
            fill(to, key, offset);
        };
        pieces.push_back(std::move(piece));
    }
    io::make_directories(argv[1]);
    ckpt::SaveInfo info;
    info.model = config;
    ckpt::save({argv[1], 0}, info, pieces);
}
