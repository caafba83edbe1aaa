// SPDX-License-Identifier: Apache-2.0
// Command lines and the models that result.
#include "config/model_flags.hpp"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "base/error.hpp"
#include "base/log.hpp"
#include "config/megatron_flags.hpp"
#include "config/optimizer_flags.hpp"
#include "config/parallel_flags.hpp"
#include "config/presets.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::spec;

namespace {

struct Program {
    cli::Options options{"lm-test", "a test"};
    config::ModelFlags model;
    config::ParallelFlags parallel;
    config::PrecisionFlags precision;
    config::MegatronChoices choices;
    std::vector<std::string> notes;

    explicit Program(const std::string& line) {
        config::add_model_options(options, model);
        config::add_parallel_options(options, parallel);
        config::declare(options, config::precision_fields(), precision);
        config::add_megatron_flags(options, choices);
        set_log_sink([this](Severity, std::string_view text) { notes.emplace_back(text); });
        std::istringstream words(line);
        std::vector<std::string> arguments;
        for (std::string word; words >> word;) arguments.push_back(word);
        options.parse(arguments);
    }
    ~Program() { set_log_sink({}); }
    ModelConfig resolve(std::optional<i64> data_vocab = std::nullopt) {
        return config::resolve_model(model, data_vocab);
    }
};

const std::string tiny = "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 ";

ModelConfig model_of(const std::string& line) {
    return Program(line).resolve();
}

// Returns the error of the command line `line`, "" if it is valid.
std::string error_of(const std::string& line) {
    try {
        Program program(line);
        const ModelConfig model = program.resolve();
        resolve_parallel(program.parallel, program.model, model);
        config::resolve_precision(program.precision, {});
    } catch (const Error& error) {
        CHECK(error.code() == Exit::usage);
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("Megatron's defaults") {
    const ModelConfig model = model_of(tiny);
    CHECK(model.ffn_hidden == 256);
    CHECK(model.head_dim == 16);
    CHECK(model.n_groups == 4);
    CHECK(model.max_positions == 32);
    CHECK(model.vocab_size == 50257);
    CHECK(model.activation == Activation::gelu_tanh);
    CHECK(model.attention_dropout == 0.1);
    CHECK(model.hidden_dropout == 0.1);
    CHECK(model.init_std == 0.02);
    CHECK(Program(tiny).model.seed == 1234);
}

TEST_CASE("flags select the form of GELU") {
    CHECK(model_of(tiny + "--openai-gelu").activation == Activation::gelu_tanh);
    CHECK(model_of(tiny + "--no-bias-gelu-fusion").activation == Activation::gelu_erf);
    CHECK(model_of(tiny + "--no-bias-gelu-fusion --openai-gelu").activation ==
          Activation::gelu_tanh);
    CHECK(model_of(tiny + "--swiglu --no-bias-gelu-fusion").activation == Activation::swiglu);
    CHECK(model_of("--model llama-7b --no-bias-gelu-fusion").activation == Activation::swiglu);
}

TEST_CASE("width of the MLP") {
    CHECK(model_of(tiny + "--swiglu").ffn_hidden == 128);  // 170 rounded down to 64s
    CHECK(model_of(tiny + "--glu-activation geglu").ffn_hidden == 256);
    CHECK(model_of(tiny + "--swiglu --ffn-hidden-size 100").ffn_hidden == 100);
    CHECK(model_of("--model llama-7b").ffn_hidden == 11008);
    CHECK(model_of("--model llama-7b --hidden-size 2048").ffn_hidden == 5440);
    CHECK(model_of("--model gpt2-124m --hidden-size 1536").ffn_hidden == 6144);
}

TEST_CASE("grouped queries") {
    CHECK(model_of(tiny + "--group-query-attention").n_groups == 1);
    CHECK(model_of(tiny + "--group-query-attention --num-query-groups 2").n_groups == 2);
    CHECK(model_of("--model llama-70b --num-query-groups 16").n_groups == 16);
    CHECK(error_of(tiny + "--num-query-groups 2").starts_with("--num-query-groups: "));
    CHECK(model_of(tiny + "--num-key-value-heads 2").n_groups == 2);
    const i64 n_heads = model_of(tiny).n_heads;
    CHECK(model_of(tiny + fmt::format("--num-key-value-heads {}", n_heads)).n_groups ==
          model_of(tiny).n_groups);
    CHECK(error_of(tiny + "--group-query-attention --num-query-groups 1 --num-key-value-heads 2")
              .starts_with("--num-key-value-heads: "));
    CHECK(error_of(tiny + "--num-key-value-heads 3").starts_with("--num-query-groups: "));
    CHECK(error_of(tiny + "--group-query-attention --num-query-groups 3")
              .starts_with("--num-query-groups"));
}

TEST_CASE("every kind of position, norm and activation is a flag that gives it") {
    std::vector<std::string> lines;
    for (const auto& [value, name] : position_embeddings) {
        const std::string flag = fmt::format("--position-embedding-type {}", name);
        CAPTURE(flag);
        CHECK(model_of(tiny + flag).position == value);
        lines.push_back(flag);
    }
    for (const auto& [value, name] : normalizations) {
        const std::string flag = fmt::format("--normalization {}", name);
        CAPTURE(flag);
        CHECK(model_of(tiny + flag).normalization == value);
        lines.push_back(flag);
    }
    for (const auto& [value, name] : activations) {
        ModelConfig model = model_of(tiny);
        model.activation = value;
        lines.push_back(config::as_flags(model));
        CAPTURE(lines.back());
        CHECK(Program(lines.back()).resolve().activation == value);
    }
    // The names of Megatron-DeepSpeed.
    CHECK(model_of(tiny + "--normalization rmsnorm").normalization == Normalization::rms_norm);
    CHECK(model_of(tiny + "--normalization layernorm").normalization == Normalization::layer_norm);
    CHECK(model_of(tiny + "--position-embedding-type rotary").position == PositionEmbedding::rope);
    for (const std::string& line : lines) {  // as_flags() is the inverse
        CAPTURE(line);
        const ModelConfig model = model_of(tiny + line);
        const ModelConfig again = Program(config::as_flags(model)).resolve();
        CHECK(again.position == model.position);
        CHECK(again.normalization == model.normalization);
        CHECK(again.activation == model.activation);
    }
}

TEST_CASE("an unknown kind is refused, also past the parser") {
    Program program(tiny + "--position-embedding-type rope");
    program.model.position.value = "spiral";
    CHECK_THROWS_WITH(program.resolve(), HasInOrder("--position-embedding-type: 'spiral' ",
                                                    "absolute, alibi, rope, none"));
}

TEST_CASE("positions") {
    CHECK(model_of(tiny + "--position-embedding-type learned_absolute").position ==
          PositionEmbedding::absolute);
    CHECK(model_of(tiny + "--no-position-embedding").position == PositionEmbedding::none);
    CHECK(model_of(tiny + "--no-position-embedding --position-embedding-type rope").position ==
          PositionEmbedding::rope);
    CHECK(model_of(tiny + "--use-rotary-position-embeddings").position == PositionEmbedding::rope);
}

TEST_CASE("the vocabulary: flag, then data, then preset, then GPT-2") {
    CHECK(Program(tiny + "--vocab-size 300").resolve(257).vocab_size == 300);
    CHECK(Program(tiny).resolve(257).vocab_size == 257);
    CHECK(Program("--model bloom-560m").resolve(257).vocab_size == 257);
    CHECK(Program("--model bloom-560m").resolve().vocab_size == 250880);
    CHECK(Program(tiny).resolve().vocab_size == 50257);
}

TEST_CASE("flags override a preset, also with its default value") {
    Program program(
        "--model bloom-176b --num-layers 2 --init-method-std 0.02 "
        "--position-embedding-type absolute --norm-epsilon 1e-6");
    const ModelConfig model = program.resolve();
    CHECK(model.n_layers == 2);
    CHECK(model.hidden == 14336);
    CHECK(model.init_std == 0.02);
    CHECK(model.norm_eps == 1e-6);
    CHECK(model.position == PositionEmbedding::absolute);
    REQUIRE(program.notes.size() == 1);
    CHECK(program.notes[0].starts_with("--model bloom-176b (BLOOM) sets --num-layers 70 "));
}

TEST_CASE("overrides of a preset and derived values are noted") {
    const auto note_of = [](const std::string& line, std::optional<i64> data_vocab = {}) {
        Program program(line);
        program.resolve(data_vocab);
        const std::string note = program.notes.at(0);
        const size_t at = note.find(';');
        return at == std::string::npos ? "" : note.substr(at + 2);
    };
    CHECK(note_of("--model gpt2-124m").empty());
    CHECK(note_of("--model gpt2-124m", 50257).empty());
    CHECK(note_of("--model gpt2-124m --hidden-size 768 --init-method-std 0.02").empty());
    CHECK(note_of("--model gpt2-124m --hidden-size 384") ==
          "overridden: --hidden-size 384 instead of 768; "
          "derived: --ffn-hidden-size 1536 instead of 3072, --kv-channels 32 instead of 64");
    CHECK(note_of("--model gpt2-124m --seq-length 512", 300) ==
          "overridden: --seq-length 512 instead of 1024, --vocab-size 300 instead of 50257; "
          "derived: --max-position-embeddings 512 instead of 1024");
    CHECK(note_of("--model gpt2-124m --no-bias-gelu-fusion --ffn-hidden-size 100") ==
          "overridden: --ffn-hidden-size 100 instead of 3072, --no-bias-gelu-fusion");
    CHECK(note_of("--model llama-7b --glu-activation geglu --num-query-groups 4 "
                  "--group-query-attention --seq-length 128 --rotary-base 5e5") ==
          "overridden: --group-query-attention, --num-query-groups 4, --seq-length 128 instead of "
          "4096, --rotary-base 500000 instead of 10000, --glu-activation geglu instead of "
          "--swiglu");
    CHECK(note_of("--model bloom-176b --position-embedding-type rope") ==
          "overridden: --position-embedding-type rope instead of alibi");
}

TEST_CASE("flags without effect on the model are noted") {
    const auto notes_of = [](const std::string& line) {
        Program program(tiny + line);
        program.resolve();
        return program.notes;
    };
    const auto first_of = [&](const std::string& line) {
        const auto notes = notes_of(line);
        REQUIRE(notes.size() == 1);
        return notes[0].substr(0, notes[0].find(": ignored: "));
    };
    CHECK(first_of("--rotary-base 500") == "--rotary-base");
    CHECK(first_of("--rotary-base 500 --position-embedding-type alibi") == "--rotary-base");
    CHECK(first_of("--swiglu --openai-gelu") == "--openai-gelu");
    CHECK(first_of("--squared-relu --openai-gelu") == "--openai-gelu");
    CHECK(first_of("--rotary-percent 0.5") == "--rotary-percent");
    CHECK(first_of("--use-rope-scaling") == "--use-rope-scaling");
    CHECK(first_of("--use-rotary-position-embeddings --rope-scaling-factor 4") ==
          "--rope-scaling-factor");
    CHECK(first_of("--add-qkv-bias") == "--add-qkv-bias");
    CHECK(first_of("--glu-activation geglu --no-bias-gelu-fusion") == "--no-bias-gelu-fusion");
    CHECK(notes_of("--rotary-base 500 --use-rotary-position-embeddings").empty());
    CHECK(notes_of("--no-bias-gelu-fusion").empty());
}

TEST_CASE("Megatron's flags of other architectures") {
    const ModelConfig plain = model_of(tiny);
    CHECK(plain.rotary_percent == 1);
    CHECK(plain.rope_scaling == spec::RotaryScaling{});
    CHECK(plain.window == 0);
    const std::string rope = tiny + "--use-rotary-position-embeddings ";
    CHECK(model_of(rope + "--rotary-percent 0.5").rotary_percent == 0.5);
    CHECK(model_of(rope + "--rotary-interleaved").rotary_interleaved);
    CHECK(model_of(rope + "--use-rope-scaling").rope_scaling ==
          spec::usual_scaling(spec::RotaryRule::llama3));
    CHECK(model_of(rope + "--use-rope-scaling --rope-scaling-factor 32").rope_scaling.factor == 32);
    CHECK(model_of(tiny + "--apply-layernorm-1p").norm_1p);
    CHECK(model_of(tiny + "--qk-layernorm").qk_norm);
    CHECK(!model_of(tiny + "--qk-layernorm").joint_qk_norm);
    const spec::ModelConfig olmo = model_of(
        tiny + "--qk-layernorm-all-heads --normalization RMSNorm --norm-placement reordered");
    CHECK(olmo.qk_norm);
    CHECK(olmo.joint_qk_norm);
    CHECK(olmo.norms == spec::NormPlacement::reordered);
    CHECK(model_of(tiny + "--use-parallel-residual").parallel_residual);
    CHECK(model_of(tiny + "--squared-relu").activation == Activation::squared_relu);
    CHECK(model_of(tiny + "--squared-relu").ffn_hidden == plain.ffn_hidden);
    CHECK(model_of(tiny + "--disable-bias-linear --add-qkv-bias").has_qkv_bias());
    for (const char* window : {"7,0", "(7,0)", "7,-1"}) {
        CHECK(model_of(tiny + "--window-size " + window).window == 8);
    }
    CHECK(model_of(tiny + "--window-size -1,0").window == 0);
    for (const char* window : {"7", "7,", "x,0", "-2,0", "7,0,0"}) {
        CHECK(error_of(tiny + "--window-size " + window).starts_with("--window-size: "));
    }
    CHECK(error_of(tiny + "--window-size 7,1").starts_with("--window-size: "));
    CHECK_THAT(error_of(tiny + "--squared-relu --swiglu"),
               HasInOrder("--squared-relu: ", "--swiglu"));
    CHECK(error_of(rope + "--rotary-percent 0").starts_with("--rotary-percent"));
    CHECK(error_of(rope + "--rotary-percent 1.5").starts_with("--rotary-percent"));
    CHECK(error_of(rope + "--rotary-percent 0.2 --kv-channels 8").starts_with("--rotary-percent"));
    CHECK(error_of(rope + "--use-rope-scaling --rope-scaling-factor 0.5")
              .starts_with("--rope-scaling-factor"));
}

TEST_CASE("flags of scaled rotary frequencies") {
    using spec::RotaryRule;
    const std::string rope = tiny + "--use-rotary-position-embeddings ";
    const spec::RotaryScaling llama3 =
        model_of(rope +
                 "--use-rope-scaling --rope-scaling-factor 16 --rope-scaling-low-freq-factor "
                 "2 --rope-scaling-high-freq-factor 3 "
                 "--rope-scaling-original-max-position-embeddings 32")
            .rope_scaling;
    CHECK(llama3 == spec::RotaryScaling{.rule = RotaryRule::llama3,
                                        .factor = 16,
                                        .original_length = 32,
                                        .low_freq_factor = 2,
                                        .high_freq_factor = 3});
    const std::string yarn = tiny + "--position-embedding-type yarn ";
    CHECK(model_of(yarn).position == PositionEmbedding::rope);
    CHECK(model_of(yarn).rope_scaling == spec::usual_scaling(RotaryRule::yarn));
    const std::string all_of_yarn =
        yarn +
        "--rotary-scaling-factor 4 --yarn-original-max-position-embeddings 64 "
        "--yarn-beta-fast 16 --yarn-beta-slow 2 --mscale 0.5 --mscale-all-dim 0.25 "
        "--no-yarn-correction-range-round-to-int --rope-attention-factor 1.5";
    const spec::RotaryScaling expected{.rule = RotaryRule::yarn,
                                       .factor = 4,
                                       .original_length = 64,
                                       .beta_fast = 16,
                                       .beta_slow = 2,
                                       .truncate = false,
                                       .mscale = 0.5,
                                       .mscale_all_dim = 0.25,
                                       .attention_factor = 1.5};
    CHECK(model_of(all_of_yarn).rope_scaling == expected);
    // The flags that name the model mean the same model.
    CHECK(model_of(config::as_flags(model_of(all_of_yarn))).rope_scaling == expected);
    CHECK(model_of(rope + "--rotary-seq-len-interpolation-factor 2").rope_scaling ==
          spec::RotaryScaling{.rule = RotaryRule::linear, .factor = 2});
    CHECK(model_of(rope + "--rotary-seq-len-interpolation-factor 1").rope_scaling.rule ==
          RotaryRule::none);
    CHECK(model_of(rope + "--window-size 7,0 --rope-local-base-freq 500").rotary_local_base == 500);
    CHECK(model_of(yarn + "--llama-4-scaling-beta 0.1").query_beta == 0.1);
    CHECK(error_of(rope + "--llama-4-scaling-beta 0.1").starts_with("--llama-4-scaling-beta"));
    CHECK(error_of(yarn + "--use-rope-scaling").starts_with("--use-rope-scaling"));
    CHECK(error_of(yarn + "--rotary-scaling-factor 0.5").starts_with("--rotary-scaling-factor"));
    // A saved scaling stays, unless the flags name another.
    Program program(tiny);
    program.model.saved = model_of(all_of_yarn);
    CHECK(config::resolve_model(program.model).rope_scaling == expected);
    Program other(yarn + "--rotary-scaling-factor 8");
    other.model.saved = program.model.saved;
    CHECK(config::resolve_model(other.model).rope_scaling.factor == 8);
    CHECK(config::resolve_model(other.model).rope_scaling.beta_fast == 16);
    Program plain(rope + "--position-embedding-type rope");
    plain.model.saved = program.model.saved;
    CHECK(config::resolve_model(plain.model).rope_scaling.rule == RotaryRule::none);
}

TEST_CASE("the sequence length of an invalid model") {
    const auto length_of = [](const std::string& line) {
        return config::seq_length_of(Program(line).model);
    };
    CHECK(length_of("--model gpt2-124m --num-attention-heads 7") == 1024);
    CHECK(length_of("--model gpt2-124m --seq-length 3") == 3);
    CHECK(length_of("--model none --seq-length 3") == 3);
    CHECK(!length_of("--model none"));
    CHECK(!length_of("--num-layers 2"));
}

TEST_CASE("the flags that a preset notes mean the same model") {
    for (const config::Preset& preset : config::presets()) {
        CAPTURE(preset.name);
        const ModelConfig named = model_of("--model " + std::string(preset.name));
        const ModelConfig spelled = model_of(config::as_flags(preset.model));
        CHECK(config::as_flags(named) == config::as_flags(spelled));
        CHECK(named.norm_eps == spelled.norm_eps);
        CHECK(named.rotary_base == spelled.rotary_base);
        CHECK(named.head_dim == spelled.head_dim);
        CHECK(named.max_positions == spelled.max_positions);
    }
}

TEST_CASE("divisions over ranks") {
    CHECK(error_of(tiny + "--tensor-model-parallel-size 4").empty());
    CHECK(error_of(tiny + "--tensor-model-parallel-size 3").empty());  // 1, 1 and 2 heads
    CHECK_THAT(error_of(tiny + "--tensor-model-parallel-size 5"),
               HasInOrder("--tensor-model-parallel-size: 5 ", "--num-attention-heads 4: ", "4"));
    CHECK_THAT(
        error_of(tiny +
                 "--group-query-attention --num-query-groups 2 --tensor-model-parallel-size 4"),
        HasInOrder("--tensor-model-parallel-size: 4 ", "--num-query-groups 2: ", "2"));
    CHECK(error_of(tiny + "--pipeline-model-parallel-size 3")
              .starts_with("--pipeline-model-parallel-size: 3 stages"));
    CHECK(error_of(tiny + "--pad-vocab-size-to 50000").starts_with("--pad-vocab-size-to"));
    CHECK(error_of(tiny + "--fp16 --bf16").starts_with("--bf16"));
    CHECK(error_of(tiny + "--bf16 --fp32-residual-connection")
              .starts_with("--fp32-residual-connection"));
    CHECK(error_of(tiny + "--fp32-residual-connection").empty());
}

TEST_CASE("--softmax-over-padding makes the padding part of the vocabulary") {
    const auto vocabulary_of = [](const std::string& more, i64 tensor_ranks) {
        Program program(tiny + "--softmax-over-padding " + more);
        return config::resolve_model(program.model, 257, tensor_ranks).vocab_size;
    };
    CHECK(vocabulary_of("", 1) == 384);
    CHECK(vocabulary_of("", 4) == 512);
    CHECK(vocabulary_of("--make-vocab-size-divisible-by 8", 1) == 264);
    CHECK(vocabulary_of("--padded-vocab-size 300", 2) == 300);
    CHECK(model_of(tiny + "--vocab-size 257").vocab_size == 257);
}

TEST_CASE("stages, chunks and their balance") {
    const std::string deep =
        "--num-layers 10 --hidden-size 64 --num-attention-heads 4 --seq-length 32 ";
    const std::string chunks = "--num-layers-per-virtual-pipeline-stage ";
    const auto parallel = [&](const std::string& more) {
        Program program(deep + more);
        return resolve_parallel(program.parallel, program.model, program.resolve());
    };
    CHECK(parallel("").n_chunks == 1);
    CHECK(parallel("--pipeline-model-parallel-size 2 " + chunks + "1").n_chunks == 5);
    CHECK(parallel("--pipeline-model-parallel-size 2 " + chunks + "2").n_chunks == 3);
    CHECK(parallel("--pipeline-model-parallel-size 2 " + chunks + "5").n_chunks == 1);
    CHECK(error_of(deep + chunks + "1").starts_with(chunks.substr(0, chunks.size() - 1) + ": "));
    CHECK(
        error_of(deep + "--pipeline-model-parallel-size 2 " + chunks + "0").ends_with("1, got 0"));
    CHECK_THAT(error_of(deep + "--pipeline-model-parallel-size 4 " + chunks + "1"),
               HasInOrder("4 stages x 3 chunks ", "--num-layers 10: "));
    using enum PipelineBalance;
    CHECK(parallel("--pp-partition-method type:transformer|embedding").balance ==
          layers_and_embedding);
    CHECK(parallel("--pp-partition-method TYPE:transformer").balance == layers);
    CHECK(parallel("--pp-partition-method parameters").balance == parameters);
    CHECK(
        error_of(deep + "--pp-partition-method type:mlp").starts_with("--pp-partition-method: '"));
    CHECK(!parallel("--sequence-parallel").sequence_parallel);  // one rank has all rows
    const ParallelConfig cut = parallel("--sequence-parallel --tensor-model-parallel-size 4");
    CHECK(cut.sequence_parallel);
    CHECK_NOTHROW(config::require_equal_rows(cut, 2, 6));
    CHECK_THROWS_AS(config::require_equal_rows(cut, 1, 6), Error);
}

TEST_CASE("recomputation flags") {
    using enum Recompute::Granularity;
    using enum Recompute::Method;
    const auto recompute = [&](const std::string& more) {
        Program program(tiny + more);
        const Recompute r =
            resolve_parallel(program.parallel, program.model, program.resolve()).recompute;
        return std::tuple(r.granularity, r.method, r.n_layers);
    };
    CHECK(recompute("") == std::tuple(none, uniform, 1));
    CHECK(recompute("--recompute-activations") == std::tuple(selective, uniform, 1));
    CHECK(recompute("--recompute-granularity selective") == std::tuple(selective, uniform, 1));
    CHECK(recompute("--recompute-granularity full") == std::tuple(full, uniform, 1));
    CHECK(recompute("--recompute-granularity full --recompute-method block "
                    "--recompute-num-layers 3") == std::tuple(full, block, 3));
    CHECK(recompute("--checkpoint-activations") == std::tuple(full, uniform, 1));
    CHECK(recompute("--checkpoint-activations --checkpoint-num-layers 2") ==
          std::tuple(full, uniform, 2));
    for (const char* wrong :
         {"--recompute-activations --recompute-granularity full", "--recompute-method block",
          "--recompute-num-layers 2", "--recompute-granularity full --recompute-num-layers 0",
          "--checkpoint-activations --recompute-granularity full"}) {
        CAPTURE(wrong);
        CHECK(error_of(tiny + wrong).starts_with("--"));
    }
}

TEST_CASE("a given flag with an invalid value is an error") {
    for (const char* flag : {"--ffn-hidden-size", "--kv-channels", "--max-position-embeddings",
                             "--vocab-size", "--pad-vocab-size-to", "--num-layers"}) {
        CAPTURE(flag);
        CHECK(error_of(tiny + flag + " 0").starts_with(flag));
    }
}

// The flags are from the scripts of tr1-13B, tr11-176B and AWS's examples.
TEST_CASE("Megatron's other flags: accepted with a note, or refused") {
    Program program(
        tiny +
        "--distributed-backend nccl --data-impl mmap --num-workers 2 --valid-num-workers 0 "
        "--optimizer adam --no-masked-softmax-fusion --attention-softmax-in-fp32 "
        "--apply-query-key-layer-scaling --accumulate-allreduce-grads-in-fp32 "
        "--sync-tp-duplicated-parameters --deepspeed-activation-checkpointing "
        "--abort-on-unmet-fused-kernel-constraints --use-flash-attn --transformer-impl "
        "transformer_engine --use-mcore-models --no-rope-fusion --DDP-impl local");
    CHECK(program.notes.size() == 16);
    CHECK(error_of(tiny + "--optimizer sgd").starts_with("--optimizer"));
    CHECK(error_of(tiny + "--apply-residual-connection-post-layernorm")
              .starts_with("--apply-residual-connection-post-layernorm"));
    const Program neutral(tiny +
                          "--context-parallel-size 1 --expert-model-parallel-size 1 "
                          "--rotary-percent 1.0 --optimizer-offload-fraction 0 "
                          "--main-grads-dtype fp32 --num-distributed-optimizer-instances 1");
    CHECK(neutral.notes.size() == 5);
    CHECK(error_of(tiny + "--context-parallel-size 2").starts_with("--context-parallel-size"));
}

TEST_CASE("a program's own option is not declared as a Megatron flag too") {
    cli::Options options("lm-test", "a test");
    i64 workers = 1;
    options.value("--num-workers", &workers, "N", "workers");
    config::MegatronChoices choices;
    config::add_megatron_flags(options, choices);
    options.parse({"--num-workers", "3"});
    CHECK(workers == 3);
}

TEST_CASE("a model without a table of positions has at least those of its sequences") {
    config::ModelFlags flags;
    flags.saved = model_of(tiny + " --position-embedding-type rope");
    flags.seq_length = flags.saved->max_positions * 2;
    CHECK(config::resolve_model(flags).max_positions == *flags.seq_length);
    flags.max_positions = flags.saved->max_positions;
    CHECK_THROWS_AS(config::resolve_model(flags), Error);
}
