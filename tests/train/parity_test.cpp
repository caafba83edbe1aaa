// SPDX-License-Identifier: Apache-2.0
// The whole model against PyTorch: logits, loss, the gradient of every parameter, ten AdamW steps.
#include <algorithm>
#include <cmath>

#include "cpu/cpu_device.hpp"
#include "golden.hpp"
#include "support/catch.hpp"
#include "support/training_step.hpp"

using namespace lm;
using namespace lm::test;

namespace {

#define LM_GOLDEN_MODELS                                                                          \
    "gpt2_tiny", "gpt2_odd", "bloom_tiny", "bloom_odd", "llama_tiny", "llama_gqa", "llama_mqa",   \
        "neox_odd", "qwen2_odd", "qwen3_odd", "mistral_window", "nemotron_odd", "llama_scaled",   \
        "persimmon_qk", "neox_parallel", "qwen3_window", "smollm3_odd", "ministral_mixed",        \
        "olmo2_odd", "exaone4_mixed", "granite_odd", "cohere2_mixed", "mistral_yarn",             \
        "llama_llama3", "ministral_bases", "phi3_odd", "phi3_short", "phi3_long", "seed_oss_odd", \
        "ministral3_odd", "gemma3_mixed", "olmo3_mixed", "glm4_odd"

// The rows of one step's batch, `micro_batch` at a time.
class GoldenBatches final : public train::BatchSource {
  public:
    GoldenBatches(const Golden& golden, i64 step, i64 micro_batch)
        : golden_(golden), step_(step), micro_batch_(micro_batch) {}
    const data::Batch& next() override {
        batch_ = golden_.batch(step_, first_row_, micro_batch_);
        first_row_ += micro_batch_;
        return batch_;
    }

  private:
    const Golden& golden_;
    i64 step_, micro_batch_;
    i64 first_row_ = 0;
    data::Batch batch_;
};

struct Setup {
    std::string name;
    Golden golden;
    std::unique_ptr<device::Device> device;
    std::unique_ptr<train::Trainer> trainer;

    Setup(const std::string& golden_name, cpu::Kernels kernels, int threads, i64 micro_batch,
          bool document_attention = false)
        : name(golden_name),
          golden(name),
          device(cpu::make_device(threads, kernels)),
          trainer(
              train::Trainer::allocate({.model = golden.config(),
                                        .micro_batch = micro_batch,
                                        .adamw = {.beta1 = 0.9,
                                                  .beta2 = 0.95,
                                                  .eps = 1e-8,
                                                  .weight_decay = 0.1,
                                                  .clip_grad = 1.0},
                                        .documents = {.reset_attention_mask = document_attention},
                                        .n_threads = threads},
                                       *device)) {
        for (const NamedView& named : views(trainer->weights())) {
            set_values(named, golden.floats("weight." + named.name));
        }
    }

    std::vector<NamedView> views(const device::View& flat) const {
        if (name.starts_with("gpt2")) {
            return hugging_face_views(trainer->params().bind(flat), golden.config());
        }
        return table_views(trainer->params(), flat);
    }

    train::StepResult step(i64 number, i64 micro_batch) {
        GoldenBatches batches(golden, number, micro_batch);
        return make_step(*trainer, batches, golden.batch_size() / micro_batch, 1e-3);
    }
};

double norm(const std::vector<float>& values) {
    double sum = 0;
    for (const double value : values) sum += value * value;
    return std::sqrt(sum);
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
    REQUIRE(a.size() == b.size());
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        const double difference = static_cast<double>(a[i]) - b[i];
        sum += difference * difference;
    }
    return std::sqrt(sum);
}

void check_gradients(const Setup& setup, const std::string& prefix, double global_norm) {
    for (const NamedView& named : setup.views(setup.trainer->gradients())) {
        CAPTURE(named.name);
        const std::vector<float> expected = setup.golden.floats(prefix + named.name);
        const std::vector<float> got = values_of(named, setup.golden.config().vocab_size);
        double scale = std::max(norm(expected), 1e-6 * global_norm);
        // Without rotation, a key's bias adds one value to all scores of a query, and softmax
        // ignores it. So the exact gradient is zero, and the file has only rounding errors.
        if (named.name.ends_with("attention.key.bias")) {
            const std::string layer = named.name.substr(0, named.name.size() - 8);
            scale = norm(setup.golden.floats(prefix + layer + "value.bias"));
        }
        CHECK(distance(got, expected) < 1e-4 * scale);
    }
}

}  // namespace

TEST_CASE("loss and the gradient of every parameter equal PyTorch's") {
    const auto name = GENERATE(as<std::string>{}, LM_GOLDEN_MODELS);
    const auto kernels = GENERATE(cpu::Kernels::reference, cpu::Kernels::fast);
    const bool accumulated = GENERATE(false, true);
    CAPTURE(name, static_cast<int>(kernels), accumulated);
    const i64 micro_batch = accumulated ? 1 : Golden(name).batch_size();
    Setup setup(name, kernels, 2, micro_batch);
    const train::StepResult result = setup.step(0, micro_batch);
    CHECK(result.loss == Approx(setup.golden.floats("loss")[0]).epsilon(1e-6));
    const double global_norm = setup.golden.floats("grad_norms")[0];
    CHECK(result.gradient_norm == Approx(global_norm).epsilon(1e-5));
    check_gradients(setup, "grad.", global_norm);
}

// All combinations of Megatron's three flags. Bit 0: positions, bit 1: attention, bit 2: loss.
TEST_CASE("rows of several documents equal PyTorch's with each set of flags") {
    const auto name = GENERATE(as<std::string>{}, LM_GOLDEN_MODELS);
    const auto kernels = GENERATE(cpu::Kernels::reference, cpu::Kernels::fast);
    for (size_t flags = 0; flags < 8; ++flags) {
        CAPTURE(name, static_cast<int>(kernels), flags);
        const Golden golden(name);
        const data::BatchOptions options{.micro_batch = golden.batch_size(),
                                         .eod_id = 0,
                                         .reset_position_ids = (flags & 1) != 0,
                                         .reset_attention_mask = (flags & 2) != 0,
                                         .eod_mask_loss = (flags & 4) != 0};
        const data::Batch batch = golden.documents(options);
        Setup setup(name, kernels, 2, batch.n_rows, options.reset_attention_mask);
        train::RepeatedBatch batches(batch);
        const auto result = make_step(*setup.trainer, batches, 1, 0);
        CHECK(result.loss == Approx(golden.floats("documents.losses")[flags]).epsilon(1e-6));
        const double global_norm = golden.floats("documents.grad_norms")[flags];
        CHECK(result.gradient_norm == Approx(global_norm).epsilon(1e-5));
        if (flags == 7) check_gradients(setup, "documents.grad.", global_norm);
    }
}

TEST_CASE("logits equal PyTorch's") {
    const auto name = GENERATE(as<std::string>{}, LM_GOLDEN_MODELS);
    Setup setup(name, cpu::Kernels::fast, 2, Golden(name).batch_size());
    const std::vector<float> expected = setup.golden.floats("logits");
    double worst = 0;
    size_t at = 0;
    setup.trainer->logits(setup.golden.batch(0, 0, setup.golden.batch_size()),
                          [&](i64, std::span<const float> row) {
                              for (const float logit : row) {
                                  worst = std::max(worst, std::abs(double{logit} - expected[at++]));
                              }
                          });
    CHECK(at == expected.size());
    CHECK(worst < 1e-5);
}

TEST_CASE("ten AdamW steps follow PyTorch's losses and gradient norms") {
    const auto name = GENERATE(as<std::string>{}, LM_GOLDEN_MODELS);
    const auto kernels = GENERATE(cpu::Kernels::reference, cpu::Kernels::fast);
    CAPTURE(name, static_cast<int>(kernels));
    const i64 micro_batch = Golden(name).batch_size();
    Setup setup(name, kernels, 2, micro_batch);
    const std::vector<float> losses = setup.golden.floats("losses");
    const std::vector<float> norms = setup.golden.floats("grad_norms");
    for (i64 step = 0; step < 10; ++step) {
        CAPTURE(step);
        const train::StepResult result = setup.step(step, micro_batch);
        CHECK(result.finite);
        CHECK(std::abs(result.loss - losses[static_cast<size_t>(step)]) < 1e-5);
        CHECK(result.gradient_norm == Approx(norms[static_cast<size_t>(step)]).epsilon(1e-4));
    }
}

TEST_CASE("shorter sequences in the memory of the longest give the bits of a model made for them") {
    const Golden golden("gpt2_tiny");
    const auto device = cpu::make_device(2);
    const auto make = [&](i64 seq_length) {
        spec::ModelConfig model = golden.config();
        model.attention_dropout = model.hidden_dropout = 0.1;
        model.seq_length = seq_length;
        auto trainer = train::Trainer::allocate(
            {.model = model, .micro_batch = 2, .seed = 7, .n_threads = 2}, *device);
        trainer->initialize();
        return trainer;
    };
    const i64 longest = golden.config().seq_length;
    const auto planned = make(longest);
    const i64 allocated = device->allocated_bytes();
    i64 number = 0;
    // Both models start each step from the same weights.
    for (const i64 length : {longest / 2, longest, i64{3}, longest - 1, longest}) {
        CAPTURE(length);
        data::Batch batch;
        data::truncate(golden.batch(number++, 0, 2), length, batch);
        train::RepeatedBatch batches(batch);
        const auto own = make(length);
        const auto copy = [](const device::View& from, const device::View& to) {
            std::ranges::copy(from.span<const float>(), to.span<float>().begin());
        };
        copy(planned->weights(), own->weights());
        planned->set_seq_length(length);
        CHECK(make_step(*planned, batches, 1, 1e-2).loss == make_step(*own, batches, 1, 1e-2).loss);
        CHECK(std::ranges::equal(planned->gradients().span<const float>(),
                                 own->gradients().span<const float>()));
    }
    CHECK(device->allocated_bytes() == allocated);
    CHECK_THROWS(planned->set_seq_length(longest + 1));
}

TEST_CASE("any number of threads gives the same bits, with dropout too") {
    const auto run = [](int threads) {
        Golden golden("gpt2_tiny");
        spec::ModelConfig model = golden.config();
        model.attention_dropout = 0.1;
        model.hidden_dropout = 0.1;
        const auto device = cpu::make_device(threads);
        const auto trainer = train::Trainer::allocate(
            {.model = model, .micro_batch = 2, .seed = 7, .n_threads = threads}, *device);
        trainer->initialize();
        std::vector<double> losses;
        for (i64 step = 0; step < 5; ++step) {
            const data::Batch batch = golden.batch(step, 0, 2);
            train::RepeatedBatch batches(batch);
            losses.push_back(make_step(*trainer, batches, 1, 1e-2).loss);
        }
        const auto weights = trainer->weights().span<const float>();
        return std::pair(losses, std::vector<float>(weights.begin(), weights.end()));
    };
    const auto one = run(1);
    CHECK(one == run(2));
    CHECK(one == run(3));
    CHECK(one.first.front() != one.first.back());
}

TEST_CASE("the trainer allocates the bytes of the memory plan") {
    Golden golden("gpt2_odd");
    const auto device = cpu::make_device(2);
    const auto trainer = train::Trainer::allocate(
        {.model = golden.config(), .micro_batch = 3, .n_threads = 2}, *device);
    CHECK(device->allocated_bytes() == trainer->memory().total());
}

TEST_CASE("a non-finite loss is reported and changes nothing") {
    Setup setup("gpt2_tiny", cpu::Kernels::fast, 1, 2);
    auto* weights = setup.trainer->weights().as<float>();
    weights[0] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> before(weights + 1, weights + 1000);
    const train::StepResult result = setup.step(0, 2);
    CHECK_FALSE(result.finite);
    CHECK(setup.trainer->optimizer_step() == 0);
    CHECK(std::vector<float>(weights + 1, weights + 1000) == before);
}
