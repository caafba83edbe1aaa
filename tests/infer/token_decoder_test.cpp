// SPDX-License-Identifier: Apache-2.0
// The engine's logits against those of lm-train's model, for all architectures.
#include "infer/token_decoder.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "../ckpt/support.hpp"
#include "../support/odd_models.hpp"
#include "../support/temp_dir.hpp"
#include "ckpt/history/steps.hpp"
#include "cpu/cpu_device.hpp"
#include "infer/local_engine.hpp"
#include "support/catch.hpp"
#include "train/step/trainer.hpp"

using namespace lm;

namespace {

constexpr i64 context = 90;  // more than a block of the cache

// Saves a step with fp32 weights in [-0.5, 0.5), all of which are exact in `rounded`.
ckpt::Checkpoint save(const std::string& directory, const spec::ModelConfig& model,
                      DType rounded = DType::fp32) {
    const ckpt::Generation generation = ckpt::claim(directory);
    const ckpt::SaveInfo info = test::info_of(model, 3);
    const std::string temporary = ckpt::begin_save(generation, 3);
    test::Buffers buffers(model, {}, 0, 0);
    buffers.fill(model, 5);
    for (float& weight : buffers.of(ckpt::SliceKind::weight)) {
        weight *= 0.005F;
        if (rounded == DType::bf16) weight = fp32_from_bf16(bf16_from_fp32(weight));
        if (rounded == DType::fp16) weight = fp32_from_fp16(fp16_from_fp32(weight));
    }
    ckpt::commit_save(generation, info, {ckpt::write_part(temporary, info, 0, buffers.pieces())});
    return ckpt::open(directory);
}

struct NamedModel {
    std::string name;
    spec::ModelConfig config;
};

spec::ModelConfig changed(spec::ModelConfig config, void (*change)(spec::ModelConfig&)) {
    config.seq_length = config.max_positions = context;
    change(config);
    config.resolve();
    return config;
}

std::vector<NamedModel> models() {
    using Config = spec::ModelConfig;
    const auto same = [](Config&) {};
    return {
        {"gpt2", changed(test::odd_model(2), same)},
        {"bloom", changed(test::bloom_model(2, 5, 4), same)},
        {"llama", changed(test::llama_model(2, 6, 2), same)},
        {"one group", changed(test::llama_model(2, 70, 1), same)},
        {"nemotron", changed(test::nemotron_model(2, 6, 3), same)},
        {"window", changed(test::llama_model(2, 4, 2), [](Config& c) { c.window = 7; })},
        {"layers that differ",
         changed(test::patterned_model(5, 4, 2), [](Config& c) { c.window = 7; })},
        {"scaled", changed(test::llama_model(1, 4, 4),
                           [](Config& c) {
                               c.rope_scaling = spec::usual_scaling(spec::RotaryRule::llama3);
                           })},
        {"two bases and queries scaled by position",
         changed(test::patterned_model(5, 4, 2),
                 [](Config& c) {
                     c.window = 7;
                     c.rotary_local_base = 50;
                     c.rope_scaling = spec::usual_scaling(spec::RotaryRule::yarn);
                     c.rope_scaling.factor = 4;
                     c.rope_scaling.original_length = 3;
                     c.query_beta = 0.5;
                 })},
        {"interleaved",
         changed(test::llama_model(1, 4, 4), [](Config& c) { c.rotary_interleaved = true; })},
        {"geglu", changed(test::llama_model(1, 4, 4),
                          [](Config& c) { c.activation = spec::Activation::geglu; })},
        {"erf",
         changed(test::odd_model(1), [](Config& c) { c.activation = spec::Activation::gelu_erf; })},
        {"no positions", changed(test::odd_model(1),
                                 [](Config& c) { c.position = spec::PositionEmbedding::none; })},
        {"query and key norms",
         changed(test::llama_model(2, 4, 2), [](Config& c) { c.qk_norm = true; })},
        {"one norm of all heads", changed(test::llama_model(2, 4, 2),
                                          [](Config& c) {
                                              c.qk_norm = c.joint_qk_norm = true;
                                              c.norms = spec::NormPlacement::reordered;
                                          })},
        {"parallel reordered norms",
         changed(test::neox_model(2, 5),
                 [](Config& c) { c.norms = spec::NormPlacement::reordered; })},
        {"one norm for both", changed(test::neox_model(2, 5),
                                      [](Config& c) {
                                          c.shared_norm = true;
                                          c.norm_bias = false;
                                      })},
        {"multipliers", changed(test::odd_model(2),
                                [](Config& c) {
                                    c.norms = spec::NormPlacement::peri;
                                    c.embedding_scale = 3;
                                    c.attention_scale = 0.3;
                                    c.residual_scale = 0.6;
                                    c.logit_scale = 0.25;
                                })},
        {"parallel", changed(test::neox_model(2, 5), same)},
        {"normalized", changed(test::odd_model(1), [](Config& c) { c.embedding_norm = true; })},
    };
}

std::vector<i32> tokens_of(const spec::ModelConfig& config, i64 n) {
    std::vector<i32> tokens(static_cast<size_t>(n));
    for (i64 i = 0; i < n; ++i) {
        tokens[static_cast<size_t>(i)] = static_cast<i32>((i * i * 7 + i + 3) % config.vocab_size);
    }
    return tokens;
}

// Returns the logits [n, V] of lm-train's model.
std::vector<float> trained_logits(const ckpt::Checkpoint& checkpoint, std::span<const i32> tokens) {
    spec::ModelConfig model = checkpoint.model();
    model.seq_length = std::ssize(tokens);
    const auto device = cpu::make_device(2);
    const auto trainer = train::Trainer::allocate({.model = model, .n_threads = 2}, *device);
    trainer->load_rounded(checkpoint, DType::fp32);
    trainer->gather_loaded();
    data::Batch batch(model.seq_length, {});
    std::ranges::copy(tokens, batch.tokens.begin());
    std::vector<float> logits;
    trainer->logits(batch, [&](i64, std::span<const float> row) {
        logits.insert(logits.end(), row.begin(), row.end());
    });
    return logits;
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
    REQUIRE(a.size() == b.size());
    double largest = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        largest = std::max(largest, std::abs(double{a[i]} - b[i]));
    }
    return largest;
}

std::span<const float> row(const std::vector<float>& logits, i64 index, i64 width) {
    return std::span(logits).subspan(static_cast<size_t>(index * width),
                                     static_cast<size_t>(width));
}

// Appends the tokens in groups of these sizes; the last size repeats. Returns the largest
// difference of a group's logits from `expected`.
double differences(eval::Engine& engine, std::span<const i32> tokens,
                   const std::vector<float>& expected, const std::vector<i64>& sizes) {
    engine.truncate(0);
    double largest = 0;
    size_t at = 0;
    for (size_t group = 0; at < tokens.size(); ++group) {
        const auto size = static_cast<size_t>(sizes[std::min(group, sizes.size() - 1)]);
        const auto n = std::min(size, tokens.size() - at);
        const auto logits = engine.append(tokens.subspan(at, n));
        at += n;
        largest = std::max(
            largest, largest_difference(
                         logits, row(expected, static_cast<i64>(at) - 1, engine.vocab_size())));
    }
    return largest;
}

}  // namespace

TEST_CASE("logits are those of training, however tokens are grouped") {
    for (const NamedModel& model : models()) {
        INFO(model.name);
        const test::TempDir dir(test::memory_root());
        const ckpt::Checkpoint checkpoint = save(dir / "run", model.config);
        const auto tokens = tokens_of(model.config, context);
        const auto expected = trained_logits(checkpoint, tokens);
        const auto engine = infer::make_engine(checkpoint, {.n_threads = 2});
        for (const auto& sizes : {std::vector<i64>{context}, {1}, {3, 1}, {64, 1}, {17}}) {
            CHECK(differences(*engine, tokens, expected, sizes) < 2e-5);
        }
    }
}

TEST_CASE("LongRoPE: a sequence gets other frequencies when it exceeds the original context") {
    constexpr i64 original = 20;
    const spec::ModelConfig config = changed(test::llama_model(2, 4, 2), [](spec::ModelConfig& c) {
        c.rope_scaling = {.rule = spec::RotaryRule::longrope,
                          .factor = 4,
                          .original_length = original,
                          .short_factors = {1, 1.5},
                          .long_factors = {2, 6}};
    });
    const test::TempDir dir(test::memory_root());
    const ckpt::Checkpoint checkpoint = save(dir / "run", config);
    const auto tokens = tokens_of(config, context);
    const auto first = [&](i64 n) { return std::span(tokens).first(static_cast<size_t>(n)); };
    const auto engine =
        infer::make_engine(checkpoint, {.n_threads = 2, .sequences = 2, .context = 40});
    REQUIRE(engine->sequences() == 2);
    const auto check = [&](std::span<const float> logits, i64 n) {
        CAPTURE(n);
        const auto expected = trained_logits(checkpoint, first(n));
        CHECK(largest_difference(logits, row(expected, n - 1, config.vocab_size)) < 2e-5);
    };
    for (const i64 n : {original, original + 1, original + 15}) {
        engine->truncate(0);
        check(engine->append(first(n)), n);
    }
    engine->truncate(original - 2);  // back to the original context
    check(engine->append(first(original - 1).last(1)), original - 1);
    for (i64 n = original; n < original + 3; ++n) check(engine->append(first(n).last(1)), n);
    // Two sequences, of which one is beyond it.
    engine->select(1);
    engine->append(first(original - 2));
    for (i64 i = 0; i < 4; ++i) {
        const i64 long_n = original + 3 + i, short_n = original - 1 + i;
        const std::array next{eval::NextToken{0, first(long_n).back()},
                              eval::NextToken{1, first(short_n).back()}};
        const auto logits = engine->append_each(next);
        const auto width = static_cast<size_t>(config.vocab_size);
        check(logits.first(width), long_n);
        check(logits.subspan(width), short_n);
    }
    engine->truncate(0);
    std::vector<eval::TokenScore> scores(1);
    engine->score(first(original), std::span(tokens).subspan(original, 1), scores);
    const auto logits = trained_logits(checkpoint, first(original));
    const auto last = row(logits, original - 1, config.vocab_size);
    const double sum = std::accumulate(last.begin(), last.end(), 0.0, [](double s, float logit) {
        return s + std::exp(double{logit});
    });
    CHECK(scores[0].log_probability ==
          Approx(last[static_cast<size_t>(tokens[original])] - std::log(sum)).margin(2e-5));
}

TEST_CASE("a checkpoint that lacks a tensor is damaged") {
    // Has all tensors of a checkpoint but one.
    class Lacking final : public ckpt::TensorSource {
      public:
        explicit Lacking(const ckpt::Checkpoint& whole) : whole_(whole) {}
        const std::string& path() const override { return whole_.path(); }
        const spec::ModelConfig& model() const override { return whole_.model(); }
        i64 iteration() const override { return whole_.iteration(); }
        const std::vector<ckpt::TensorInfo>& tensors() const override { return whole_.tensors(); }
        const ckpt::TensorInfo* find(std::string_view tensor) const override {
            return tensor == "layers.1.mlp.up.weight" ? nullptr : whole_.find(tensor);
        }
        bool has(ckpt::SliceKind kind) const override { return whole_.has(kind); }
        void load(const std::string& tensor, ckpt::SliceKind kind,
                  const ckpt::LoadTarget& target) const override {
            whole_.load(tensor, kind, target);
        }

      private:
        const ckpt::Checkpoint& whole_;
    };
    const test::TempDir dir(test::memory_root());
    const ckpt::Checkpoint whole =
        save(dir / "run", changed(test::odd_model(2), [](spec::ModelConfig&) {}));
    const Lacking lacking(whole);
    CHECK_THROWS_WITH(infer::make_engine(lacking, {.n_threads = 2}),
                      ContainsSubstring("has no tensor layers.1.mlp.up.weight"));
}

TEST_CASE("16-bit matrices give the logits of the same weights in fp32") {
    for (const DType dtype : {DType::bf16, DType::fp16}) {
        for (const spec::ModelConfig& model : {test::odd_model(2), test::llama_model(2, 6, 2)}) {
            const spec::ModelConfig config = changed(model, [](spec::ModelConfig&) {});
            const test::TempDir dir(test::memory_root());
            const ckpt::Checkpoint checkpoint = save(dir / "run", config, dtype);
            const auto tokens = tokens_of(config, context);
            const auto expected = trained_logits(checkpoint, tokens);
            const auto engine = infer::make_engine(checkpoint, {.n_threads = 2, .dtype = dtype});
            CHECK(engine->residency().dtype == dtype);
            for (const auto& sizes : {std::vector<i64>{context}, {1}}) {
                CHECK(differences(*engine, tokens, expected, sizes) < 2e-5);
            }
        }
    }
}

TEST_CASE("results have the same bits for any number of threads, and after truncation") {
    const spec::ModelConfig config = changed(test::llama_model(2, 6, 2), [](spec::ModelConfig&) {});
    const test::TempDir dir(test::memory_root());
    const ckpt::Checkpoint checkpoint = save(dir / "run", config);
    const auto tokens = tokens_of(config, context);
    std::vector<std::vector<float>> results;
    for (const int n_threads : {1, 2, 5}) {
        const auto engine = infer::make_engine(checkpoint, {.n_threads = n_threads});
        engine->append(std::span(tokens).first(40));
        engine->append(std::span(tokens).subspan(40, 30));
        engine->truncate(40);
        const auto logits = engine->append(std::span(tokens).subspan(40));
        results.emplace_back(logits.begin(), logits.end());
    }
    CHECK(results[0] == results[1]);
    CHECK(results[0] == results[2]);
}

TEST_CASE("a layer with a window keeps its last tokens only, and computes others again") {
    constexpr i64 length = 2400;
    spec::ModelConfig config = test::patterned_model(3, 4, 2);
    config.seq_length = config.max_positions = length;
    config.window = 7;
    const test::TempDir dir(test::memory_root());
    const ckpt::Checkpoint checkpoint = save(dir / "run", config);
    const auto tokens = tokens_of(config, length);
    const auto part = [&](i64 begin, i64 end) {
        return std::span(tokens).subspan(static_cast<size_t>(begin),
                                         static_cast<size_t>(end - begin));
    };
    const auto engine = infer::make_engine(checkpoint, {.n_threads = 2, .sequences = 2});
    spec::ModelConfig whole = config;
    whole.window = 0;
    whole.full_layers = {};
    whole.resolve();
    const auto other = infer::make_engine(save(dir / "whole", whole), {.n_threads = 2});
    CHECK(engine->sequence_bytes() < 0.8 * static_cast<double>(other->sequence_bytes()));
    // Returns the logits after the first `n` tokens.
    const auto expected = [&](i64 n) {
        engine->select(1);
        engine->truncate(0);
        const auto logits = engine->append(part(0, n));
        std::vector<float> copy(logits.begin(), logits.end());
        engine->select(0);
        return copy;
    };
    engine->append(part(0, 2300));
    for (const auto& [kept, end] : std::initializer_list<std::pair<i64, i64>>{
             {2250, 2400}, {1900, 2000}, {70, 90}, {0, 65}}) {
        INFO(kept << " " << end);
        const std::vector<float> wanted = expected(end);
        engine->truncate(kept);
        CHECK(engine->length() == kept);
        const auto logits = engine->append(part(kept, end));
        CHECK(largest_difference(logits, wanted) < 1e-4);
    }
}

TEST_CASE("a sequence has the bits that it has alone") {
    for (const DType dtype : {DType::fp32, DType::bf16}) {
        for (const NamedModel& model : models()) {
            INFO(model.name);
            const test::TempDir dir(test::memory_root());
            const ckpt::Checkpoint checkpoint = save(dir / "run", model.config);
            const auto tokens = tokens_of(model.config, context);
            const auto at = [&](i64 i) {
                return std::span(tokens).subspan(static_cast<size_t>(i));
            };
            const auto engine = infer::make_engine(
                checkpoint, {.n_threads = 2, .dtype = dtype, .sequences = 11, .context = 80});
            const auto alone = infer::make_engine(checkpoint, {.n_threads = 1, .dtype = dtype});
            REQUIRE(engine->sequences() == 11);
            CHECK(engine->context() == 80);
            // Sequence i begins with 1 + 7 * i tokens from number i on.
            const auto length = [](i64 i) { return 1 + 7 * i; };
            for (i64 i = 0; i < 11; ++i) {
                engine->select(i);
                engine->append(at(i).first(static_cast<size_t>(length(i))));
            }
            // In the second step only every other sequence continues.
            std::vector<std::vector<float>> steps;
            std::vector<eval::NextToken> next;
            for (const i64 stride : {1, 2}) {
                next.clear();
                for (i64 i = 0; i < 11; i += stride)
                    next.push_back({i, tokens[static_cast<size_t>(50 + i + stride)]});
                const auto logits = engine->append_each(next);
                steps.emplace_back(logits.begin(), logits.end());
            }
            const auto width = static_cast<size_t>(engine->vocab_size());
            for (i64 i = 0; i < 11; i += 2) {
                alone->truncate(0);
                alone->append(at(i).first(static_cast<size_t>(length(i))));
                for (const i64 stride : {1, 2}) {
                    const auto logits = alone->append(at(50 + i + stride).first(1));
                    const auto row = static_cast<size_t>(i / stride) * width;
                    CHECK(std::ranges::equal(
                        logits,
                        std::span(steps[static_cast<size_t>(stride - 1)]).subspan(row, width)));
                }
            }
        }
    }
}

TEST_CASE("layers beyond the memory limit are read for each pass") {
    const spec::ModelConfig config = changed(test::llama_model(4, 6, 2), [](spec::ModelConfig&) {});
    const test::TempDir dir(test::memory_root());
    const ckpt::Checkpoint checkpoint = save(dir / "run", config);
    const auto tokens = tokens_of(config, 20);
    const auto all = infer::make_engine(checkpoint, {.n_threads = 2});
    CHECK(all->residency().n_layers_read == 0);
    const i64 bytes = all->residency().bytes;
    const auto few = infer::make_engine(checkpoint, {.n_threads = 2, .memory = bytes * 3 / 4});
    CHECK(few->residency().n_layers_read > 0);
    CHECK(few->residency().n_layers_read < 4);
    const auto none = infer::make_engine(checkpoint, {.n_threads = 2, .memory = 1});
    CHECK(none->residency().n_layers_read == 4);
    const auto expected = all->append(tokens);
    for (eval::Engine* engine : {few.get(), none.get()}) {
        engine->append(std::span(tokens).first(7));
        engine->truncate(0);
        CHECK(std::ranges::equal(engine->append(tokens), expected));
    }
}

TEST_CASE("scores are log-probabilities and whether a target has the largest logit") {
    const spec::ModelConfig config = changed(test::odd_model(2), [](spec::ModelConfig&) {});
    const test::TempDir dir(test::memory_root());
    const ckpt::Checkpoint checkpoint = save(dir / "run", config);
    const auto tokens = tokens_of(config, context);
    const auto logits = trained_logits(checkpoint, tokens);
    const auto engine = infer::make_engine(checkpoint, {.n_threads = 2});
    const size_t first = 30;  // the first token with a target
    const auto targets = std::span(tokens).subspan(first + 1);
    std::vector<eval::TokenScore> scores(targets.size());
    engine->score(std::span(tokens).first(tokens.size() - 1), targets, scores);
    for (size_t i = 0; i < targets.size(); ++i) {
        const auto at = row(logits, static_cast<i64>(first + i), config.vocab_size);
        const double sum = std::accumulate(at.begin(), at.end(), 0.0, [](double s, float logit) {
            return s + std::exp(double{logit});
        });
        const float target = at[static_cast<size_t>(targets[i])];
        CHECK(scores[i].log_probability == Approx(target - std::log(sum)).margin(2e-5));
        CHECK(scores[i].greedy == (target >= *std::ranges::max_element(at)));
    }
}
