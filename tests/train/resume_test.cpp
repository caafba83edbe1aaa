// SPDX-License-Identifier: Apache-2.0
#include "train/resume/resume.hpp"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/problem_list.hpp"
#include "ckpt/history/generation.hpp"
#include "ckpt/history/save.hpp"
#include "comm/self/group.hpp"
#include "cpu/cpu_device.hpp"
#include "golden.hpp"
#include "io/atomic.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;

namespace {

spec::ModelConfig llama() {
    spec::ModelConfig model;
    model.n_layers = 2;
    model.hidden = 32;
    model.n_heads = 4;
    model.seq_length = 16;
    model.max_positions = 16;
    model.vocab_size = 100;
    model.position = spec::PositionEmbedding::rope;
    model.resolve();
    return model;
}

}  // namespace

TEST_CASE("a resumed run refuses another model and names the flag") {
    using Change = std::function<void(spec::ModelConfig&)>;
    const std::vector<std::pair<std::string, Change>> changes{
        {"--num-layers", [](auto& m) { m.n_layers = 3; }},
        {"--hidden-size", [](auto& m) { m.hidden = 48; }},
        {"--ffn-hidden-size", [](auto& m) { m.ffn_hidden = 96; }},
        {"--num-attention-heads", [](auto& m) { m.n_heads = 2; }},
        {"--num-query-groups", [](auto& m) { m.n_groups = 2; }},
        {"--kv-channels", [](auto& m) { m.head_dim = 16; }},
        {"--max-position-embeddings", [](auto& m) { m.max_positions = 32; }},
        {"--vocab-size", [](auto& m) { m.vocab_size = 101; }},
        {"--position-embedding-type", [](auto& m) { m.position = spec::PositionEmbedding::none; }},
        {"--normalization", [](auto& m) { m.normalization = spec::Normalization::rms_norm; }},
        {"the activation function", [](auto& m) { m.activation = spec::Activation::swiglu; }},
        {"--layernorm-epsilon", [](auto& m) { m.norm_eps = 1e-6; }},
        {"--rotary-base", [](auto& m) { m.rotary_base = 5e5; }},
        {"--rotary-percent", [](auto& m) { m.rotary_percent = 0.5; }},
        {"--rotary-interleaved", [](auto& m) { m.rotary_interleaved = true; }},
        {"the scaling of rotary frequencies",
         [](auto& m) { m.rope_scaling = spec::usual_scaling(spec::RotaryRule::llama3); }},
        {"--window-size", [](auto& m) { m.window = 4; }},
        {"--apply-layernorm-1p", [](auto& m) { m.norm_1p = true; }},
        {"--qk-layernorm", [](auto& m) { m.qk_norm = true; }},
        {"--embedding-multiplier", [](auto& m) { m.embedding_scale = 2; }},
        {"--attention-multiplier", [](auto& m) { m.attention_scale = 2; }},
        {"--residual-multiplier", [](auto& m) { m.residual_scale = 2; }},
        {"--logit-scale", [](auto& m) { m.logit_scale = 2; }},
        {"--norm-placement", [](auto& m) { m.norms = spec::NormPlacement::peri; }},
        {"--use-parallel-residual", [](auto& m) { m.parallel_residual = true; }},
        {"--add-qkv-bias", [](auto& m) { m.qkv_bias = true; }},
        {"--untie-embeddings-and-output-weights", [](auto& m) { m.untied_head = true; }},
        {"--disable-bias-linear", [](auto& m) { m.linear_bias = false; }},
        {"--embed-layernorm", [](auto& m) { m.embedding_norm = true; }},
    };
    for (const auto& [flag, change] : changes) {
        spec::ModelConfig wanted = llama();
        change(wanted);
        CHECK_THROWS_WITH(train::require_same_model(llama(), wanted, "run/global_step5"),
                          HasInOrder(flag, "run/global_step5 "));
        CHECK_THROWS_WITH(train::require_same_model(wanted, llama(), "run/global_step5"),
                          ContainsSubstring("run/global_step5 "));
    }
}

TEST_CASE("a resumed run names all flags of another model, without the defaults that follow them") {
    spec::ModelConfig saved;
    saved.n_layers = 2;
    saved.hidden = 32;
    saved.n_heads = 4;
    saved.seq_length = saved.max_positions = 16;
    saved.vocab_size = 100;
    spec::ModelConfig wanted = saved;
    wanted.n_layers = 3;
    wanted.hidden = 64;
    wanted.n_heads = 2;
    wanted.seq_length = wanted.max_positions = 32;
    saved.resolve();
    wanted.resolve();
    std::vector<std::string> flags;
    try {
        train::require_same_model(saved, wanted, "run/global_step5");
    } catch (const Error& error) {
        for (const std::string_view problem : problems_in(error.what()))
            flags.emplace_back(problem.substr(0, problem.find(':')));
    }
    CHECK(flags == std::vector<std::string>{"--seq-length", "--num-layers", "--hidden-size",
                                            "--num-attention-heads"});
    CHECK_THROWS_WITH(train::require_same_model(saved, wanted, "run/global_step5"),
                      ContainsSubstring("--use-checkpoint-args"));
}

TEST_CASE("a resumed run may change dropout and the scale of initial weights") {
    spec::ModelConfig wanted = llama();
    wanted.attention_dropout = 0.5;
    wanted.hidden_dropout = 0.5;
    wanted.init_std = 0.01;
    CHECK_NOTHROW(train::require_same_model(llama(), wanted, "run/global_step5"));
}

TEST_CASE("a continued pretraining may have a longer context") {
    spec::ModelConfig wanted = llama();
    wanted.seq_length *= 4;
    wanted.max_positions *= 4;
    wanted.rotary_base = 500000;
    CHECK_NOTHROW(train::require_same_model(llama(), wanted, "run/global_step5", true));
    CHECK_THROWS_AS(train::require_same_model(llama(), wanted, "run/global_step5"), Error);
    wanted.n_groups = 1;
    CHECK_THROWS_WITH(train::require_same_model(llama(), wanted, "run/global_step5", true),
                      StartsWith("--num-query-groups: "));
}

TEST_CASE("a run loads the step that replaced another one while the run read it") {
    const test::TempDir scratch;
    const test::Golden golden("gpt2_tiny");
    const auto device = cpu::make_device(1);
    train::RunConfig config{
        .trainer = {.model = golden.config(), .micro_batch = 1, .n_threads = 1},
        .schedule = spec::Schedule({.seq_length = 8, .train_iters = 4, .lr = 1e-3})};
    config.checkpoints.load = scratch / "run";
    const auto trainer = train::Trainer::allocate(config.trainer, *device);
    const auto save = [&](const std::string& directory, u64 seed, i64 samples) {
        train::TrainerConfig seeded = config.trainer;
        seeded.seed = seed;
        const auto saving = train::Trainer::allocate(seeded, *device);
        saving->initialize();
        ckpt::SaveInfo info;
        info.model = golden.config();
        info.counters = {.iteration = 2, .consumed_samples = samples};
        ckpt::save(ckpt::claim(directory), info, saving->checkpoint_pieces());
    };
    save(scratch / "run", 1, 10);
    save(scratch / "other", 2, 20);
    comm::SelfGroup group("world");
    auto chosen = train::open_checkpoint(config, group);
    REQUIRE(chosen);
    const std::string step = scratch / "run/global_step2";
    std::filesystem::rename(step, scratch / "aside");
    std::filesystem::rename(scratch / "other/global_step2", step);
    std::filesystem::copy_file(scratch / "other/latest", scratch / "run/latest",
                               std::filesystem::copy_options::overwrite_existing);
    CHECK_FALSE(chosen->is_current());
    const std::string manifest = step + "/manifest.json";
    std::filesystem::rename(manifest, scratch / "manifest.json");
    CHECK_FALSE(chosen->is_current());
    io::write_file(manifest, "damaged", io::Overwrite::no);
    CHECK(chosen->is_current());
    std::filesystem::rename(scratch / "manifest.json", manifest);
    const auto progress = train::load_or_initialize(config, {}, std::move(chosen), group, *trainer);
    CHECK(progress.done.samples == 20);
}
