// SPDX-License-Identifier: Apache-2.0
// Training in 16 bits: memory, accumulation, overflow, and bitwise equal resumption.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "base/dtype.hpp"
#include "ckpt/format/index.hpp"
#include "ckpt/history/generation.hpp"
#include "ckpt/history/steps.hpp"
#include "cpu/cpu_device.hpp"
#include "golden.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"
#include "support/training_step.hpp"

using namespace lm;
using namespace lm::test;

namespace {

struct Run {
    Golden golden;
    std::unique_ptr<device::Device> device;
    std::unique_ptr<train::Trainer> trainer;

    Run(const std::string& name, DType weights, i64 micro_batch = 0,
        const spec::LossScaleConfig& loss_scale = {.initial = 1024})
        : golden(name), device(cpu::make_device(2)) {
        const train::TrainerConfig config{
            .model = golden.config(),
            .micro_batch = micro_batch > 0 ? micro_batch : golden.batch_size(),
            .precision = {weights},
            .loss_scale = loss_scale,
            .n_threads = 2};
        trainer = train::Trainer::allocate(config, *device);
        trainer->initialize();
    }
    train::StepResult step(i64 number) {
        const data::Batch batch = golden.batch(number, 0, golden.batch_size());
        train::RepeatedBatch batches(batch);
        return make_step(*trainer, batches, 1, 1e-3);
    }
    std::vector<std::byte> weights() const {
        const device::View view = trainer->weights();
        const auto* const bytes = static_cast<const std::byte*>(view.data);
        return {bytes, bytes + view.bytes()};
    }
};

double relative_distance(std::span<const float> a, std::span<const float> b) {
    double difference = 0;
    double whole = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
        whole += std::pow(static_cast<double>(b[i]), 2);
    }
    return std::sqrt(difference / whole);
}

// The golden file's samples in a cycle, `micro_batch` at a time.
class GoldenSamples final : public train::BatchSource {
  public:
    GoldenSamples(const Golden& golden, i64 micro_batch)
        : golden_(golden), batch_(golden.config().seq_length, {.micro_batch = micro_batch}) {}
    const data::Batch& next() override {
        for (i64 row = 0; row < batch_.n_rows; ++row, ++n_taken_) {
            const i64 in_batch = n_taken_ % golden_.batch_size();
            const data::Batch one =
                golden_.batch(n_taken_ / golden_.batch_size() % 10, in_batch, 1);
            const auto at = row * one.seq_length;
            std::ranges::copy(one.tokens, batch_.tokens.begin() + at);
            std::ranges::copy(one.targets, batch_.targets.begin() + at);
            batch_.sample_ids[static_cast<size_t>(row)] = n_taken_;
        }
        return batch_;
    }

  private:
    const Golden& golden_;
    i64 n_taken_ = 0;
    data::Batch batch_;
};

// Returns the gradients of 64 samples in micro-batches of `micro_batch`.
std::vector<float> gradients_of_64(const std::string& name, DType weights, i64 micro_batch) {
    Run run(name, weights, micro_batch);
    GoldenSamples batches(run.golden, micro_batch);
    CHECK(make_step(*run.trainer, batches, 64 / micro_batch, 1e-3).finite);
    const auto gradients = run.trainer->gradients().span<const float>();
    const double scale = weights == DType::fp16 ? 1024 : 1;
    std::vector<float> result;
    for (const float g : gradients) result.push_back(static_cast<float>(g / scale));
    return result;
}

constexpr const char* models[] = {"gpt2_odd", "bloom_odd", "llama_gqa"};

}  // namespace

TEST_CASE("16-bit trainers allocate the bytes of the memory plan") {
    for (const char* name : models) {
        for (const DType weights : {DType::fp32, DType::bf16, DType::fp16}) {
            const Run run(name, weights);
            CHECK(run.device->allocated_bytes() == run.trainer->memory().total());
        }
    }
}

TEST_CASE("the gradients of 64 micro-batches are added up in fp32") {
    for (const char* name : models) {
        const std::vector<float> exact = gradients_of_64(name, DType::fp32, 64);
        for (const DType weights : {DType::bf16, DType::fp16}) {
            INFO(name << " " << name_of(weights));
            const std::vector<float> many = gradients_of_64(name, weights, 1);
            CHECK(relative_distance(many, gradients_of_64(name, weights, 64)) < 1e-3);
            // The gradients also equal those of fp32 within the rounding of stored values.
            CHECK(relative_distance(many, exact) < (weights == DType::bf16 ? 0.05 : 0.01));
        }
    }
}

TEST_CASE("16-bit losses equal those of fp32 within rounding") {
    for (const char* name : models) {
        Run exact(name, DType::fp32);
        for (const DType weights : {DType::bf16, DType::fp16}) {
            INFO(name << " " << name_of(weights));
            Run run(name, weights);
            Run again(name, DType::fp32);
            for (i64 i = 0; i < 10; ++i) {
                CHECK(run.step(i).loss == Approx(again.step(i).loss).epsilon(3e-3));
            }
        }
    }
}

TEST_CASE("weights are their masters, rounded") {
    Run run("llama_gqa", DType::bf16);
    for (i64 i = 0; i < 3; ++i) CHECK(run.step(i).finite);
    i64 checked = 0;
    const auto pieces = run.trainer->checkpoint_pieces();
    for (const ckpt::Piece& master : pieces) {
        if (master.kind != ckpt::SliceKind::master) continue;
        const auto weight = std::ranges::find_if(pieces, [&](const ckpt::Piece& piece) {
            return piece.kind == ckpt::SliceKind::weight && piece.tensor == master.tensor;
        });
        REQUIRE(weight != pieces.end());
        CHECK(weight->dtype == DType::bf16);
        for (i64 i = 0; i < master.flat_end - master.flat_begin; ++i, ++checked) {
            const u16 rounded = bf16_from_fp32(static_cast<const float*>(master.data)[i]);
            if (static_cast<const u16*>(weight->data)[i] != rounded) FAIL("element " << i);
        }
    }
    CHECK(checked == count_parameters(run.golden.config()).total());
}

TEST_CASE("fp16: a step that overflows changes nothing but the scale") {
    Run run("gpt2_tiny", DType::fp16, 0, {});
    const std::vector<std::byte> before = run.weights();
    std::vector<double> scales;
    i64 skipped = 0;
    for (i64 i = 0; i < 40; ++i) {
        const train::StepResult result = run.step(i % 10);
        CHECK(std::isfinite(result.loss));
        scales.push_back(result.loss_scale);
        if (result.finite) break;
        ++skipped;
        CHECK(run.weights() == before);
        CHECK(run.trainer->optimizer_step() == 0);
    }
    REQUIRE(skipped >= 3);
    CHECK(skipped < 30);
    CHECK(scales[0] == 4294967296.0);
    CHECK(scales[1] == 2147483648.0);
    CHECK(scales[2] == 1073741824.0);
    CHECK(run.trainer->optimizer_step() == 1);
    CHECK(run.weights() != before);
}

TEST_CASE("fp16: scripted overflows move the scale and skip steps as in megatron-core") {
    const std::string path = LM_TEST_DIR "/golden/text/loss-scales.jsonl";
    std::istringstream lines(io::read_file(path));
    int n_series = 0;
    for (std::string line; std::getline(lines, line);) {
        const io::Json series = io::parse_json(line, path);
        const auto scales = series.at("scales").get<std::vector<double>>();
        if (std::ranges::max(scales) > 16384) continue;  // overflows at steps that are not scripted
        ++n_series;
        INFO(line);
        Run run("gpt2_tiny", DType::fp16, 0,
                {.initial = series.at("initial"),
                 .min = series.at("min"),
                 .window = series.at("window"),
                 .hysteresis = series.at("hysteresis")});
        i64 n_updates = 0;
        const auto steps = series.at("steps").get<std::string>();
        for (size_t i = 0; i < steps.size(); ++i) {
            const bool overflow = steps[i] == 'x';
            Fp16& weight = *run.trainer->weights().as<Fp16>();
            const Fp16 kept = weight;
            if (overflow) weight = Fp16{0x7c00};  // infinity
            const std::vector<std::byte> before = run.weights();
            const train::StepResult result = run.step(static_cast<i64>(i % 10));
            n_updates += overflow ? 0 : 1;
            INFO("step " << i);
            CHECK(result.finite == !overflow);
            CHECK((run.weights() == before) == overflow);
            CHECK(result.loss_scale == scales[i]);
            CHECK(run.trainer->optimizer_step() == n_updates);
            if (overflow) weight = kept;
        }
    }
    CHECK(n_series >= 5);
}

TEST_CASE("the loss scale is taken out of gradient norms and updates") {
    Run small("llama_tiny", DType::fp16, 0, {.fixed = 64.0});
    Run large("llama_tiny", DType::fp16, 0, {.fixed = 2048.0});
    for (i64 i = 0; i < 5; ++i) {
        const train::StepResult a = small.step(i);
        const train::StepResult b = large.step(i);
        CHECK(a.finite);
        CHECK(a.loss_scale == 64.0);
        CHECK(b.loss_scale == 2048.0);
        CHECK(a.gradient_norm == Approx(b.gradient_norm).epsilon(5e-3));
        CHECK(a.loss == Approx(b.loss).epsilon(1e-3));
    }
}

TEST_CASE("a run resumed in 16 bits is bitwise equal to an uninterrupted run") {
    for (const char* name : models) {
        for (const DType weights : {DType::bf16, DType::fp16}) {
            INFO(name << " " << name_of(weights));
            const TempDir scratch;
            Run whole(name, weights);
            for (i64 i = 0; i < 4; ++i) whole.step(i);
            ckpt::SaveInfo info;
            info.model = whole.golden.config();
            info.counters.iteration = 4;
            info.counters.optimizer_step = whole.trainer->optimizer_step();
            info.weights = weights;
            ckpt::save(ckpt::claim(scratch / "run"), info, whole.trainer->checkpoint_pieces());
            Run resumed(name, weights);
            resumed.trainer->load(ckpt::open(scratch / "run"), true);
            resumed.trainer->restore(whole.trainer->loss_scaler().state());
            for (i64 i = 4; i < 8; ++i) CHECK(resumed.step(i).loss == whole.step(i).loss);
            CHECK(resumed.weights() == whole.weights());
        }
    }
}
