// SPDX-License-Identifier: Apache-2.0
// Averages of checkpoints, against sums by hand.
#include "ckpt/verbs/merge.hpp"

#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.hpp"
#include "ckpt/format/index.hpp"
#include "ckpt/verbs/verify.hpp"
#include "io/json.hpp"
#include "support.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::ckpt;
using test::Buffers;

namespace {

// Saves a step and opens it. With `many`, the ranks of two pipeline stages with two tensor ranks
// each write it, else one rank.
Checkpoint step_of(const std::string& directory, const spec::ModelConfig& config, i64 iteration,
                   i64 salt, bool many = false) {
    const i64 n = many ? 2 : 1;
    return Checkpoint::open(
        test::save_grid(directory, config, {.tp = n, .pp = n}, iteration, salt));
}

Checkpoint merged(const std::vector<MergeSource>& sources, const std::string& directory,
                  std::optional<DType> dtype = {}) {
    io::make_directories(directory);
    return Checkpoint::open(merge(sources, {.dtype = dtype, .command_line = "x"}, directory).path);
}

// Returns the number of elements of all tensors that differ from wanted(tensor, element).
template <typename F>
i64 n_wrong(const Checkpoint& checkpoint, const spec::ModelConfig& config, F wanted) {
    i64 wrong = 0;
    i64 index = 0;
    for (const spec::TensorSpec& tensor : spec::tensor_table(config)) {
        const std::vector<float> values = checkpoint.load_fp32(tensor.name, SliceKind::weight);
        for (size_t i = 0; i < values.size(); ++i) {
            wrong += values[i] != wanted(index, static_cast<i64>(i));
        }
        ++index;
    }
    return wrong;
}

}  // namespace

TEST_CASE("merge: the weighted average of two layouts") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    const Checkpoint a = step_of(scratch / "a", config, 10, 1);
    const Checkpoint b = step_of(scratch / "b", config, 30, 2, true);
    const Checkpoint c = step_of(scratch / "c", config, 20, 3);
    const auto value = [](i64 tensor, i64 element, i64 salt) {
        return double{Buffers::value(tensor, element, SliceKind::weight, salt)};
    };
    const Checkpoint mean = merged({{a}, {b}, {c}}, scratch / "mean");
    CHECK(verify(mean.path(), nullptr).problems.empty());
    CHECK_FALSE(mean.has(spec::exp_avg));
    CHECK(mean.manifest().counters.iteration == 30);
    CHECK(io::parse_json(mean.manifest().state, "state").at("merged_from").size() == 3);
    CHECK(n_wrong(mean, config, [&](i64 tensor, i64 i) {
              const double sum = value(tensor, i, 1) + value(tensor, i, 2) + value(tensor, i, 3);
              return static_cast<float>(sum / 3.0);
          }) == 0);

    const Checkpoint weighted = merged({{a, 0.5}, {b, 0.25}, {c, 0}}, scratch / "weighted");
    CHECK(n_wrong(weighted, config, [&](i64 tensor, i64 i) {
              const double sum = 0.5 * value(tensor, i, 1) + 0.25 * value(tensor, i, 2);
              return static_cast<float>(sum / 0.75);
          }) == 0);

    // The average of equal checkpoints has the same bits.
    const Checkpoint same = merged({{b, 0.1}, {b, 0.2}, {b, 0.7}}, scratch / "same");
    CHECK(n_wrong(same, config,
                  [&](i64 tensor, i64 i) { return static_cast<float>(value(tensor, i, 2)); }) == 0);
}

TEST_CASE("merge: element types of the result") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    const Checkpoint a = step_of(scratch / "a", config, 1, 1);
    const Checkpoint b = step_of(scratch / "b", config, 1, 2);
    const Checkpoint half = merged({{a}, {b}}, scratch / "half", DType::bf16);
    CHECK(half.manifest().tensors[0].dtype == DType::bf16);
    CHECK(verify(half.path(), nullptr).problems.empty());
    CHECK(n_wrong(half, config, [&](i64 tensor, i64 i) {
              const double sum = double{Buffers::value(tensor, i, SliceKind::weight, 1)} +
                                 double{Buffers::value(tensor, i, SliceKind::weight, 2)};
              return fp32_from_bf16(bf16_from_fp32(static_cast<float>(sum / 2)));
          }) == 0);
    CHECK(merged({{half}, {half}}, scratch / "halves").manifest().tensors[0].dtype == DType::bf16);
    CHECK(merged({{half}, {a}}, scratch / "mixed").manifest().tensors[0].dtype == DType::fp32);
}

TEST_CASE("merge: values that cannot be averaged are refused") {
    const test::ScratchDirectory scratch;
    auto config = test::small_model();
    const Checkpoint a = step_of(scratch / "a", config, 1, 1);
    Buffers buffers(config, {});
    buffers.fill(config, 2);
    io::make_directories(scratch / "out");
    const auto attempt = [&](float bad, std::optional<DType> dtype) {
        buffers.weight[5] = bad;
        const std::string path =
            save(claim(scratch / "b"), test::info_of(config, 1), buffers.pieces()).path;
        return test::error_of([&] {
            merge({{a}, {Checkpoint::open(path)}}, {.dtype = dtype, .command_line = "x"},
                  scratch / "out");
        });
    };
    CHECK_THAT(attempt(NAN, {}),
               HasInOrder("b/global_step1: tensor embedding.word.weight: element 5 ", "nan"));
    CHECK_THAT(attempt(std::numeric_limits<float>::infinity(), {}),
               HasInOrder("element 5 ", "inf"));
    CHECK_THAT(attempt(3e5F, DType::fp16),
               HasInOrder("tensor embedding.word.weight: ", "average", "fp16"));
    CHECK(attempt(3e5F, DType::bf16) == "no error");
    CHECK(io::list_directory(scratch / "out") ==
          std::vector<std::string>{"global_step1", "latest"});

    const auto differs = [&](auto change) {
        auto other = test::small_model();
        change(other);
        const Checkpoint b = step_of(scratch / "c", other, 1, 1);
        return test::error_of([&] { check_same_architecture(a, b); }, Exit::usage);
    };
    CHECK_THAT(differs([](auto& model) { model.vocab_size = 102; }),
               HasInOrder("c/global_step1: vocab_size ", "102", "a/global_step1 ", "101"));
    CHECK_THAT(differs([](auto& model) { model.activation = spec::Activation::gelu_erf; }),
               ContainsSubstring("activation "));
    CHECK(differs([](auto& model) { model.hidden_dropout = 0.5; }) == "no error");
}

TEST_CASE("merged steps equal a run whose updates were scaled by the decay") {
    const std::vector<i64> tokens{100, 200, 300, 400};
    const std::vector<double> linear = decay_weights(tokens, EmulatedDecay::linear);
    for (const double weight : linear) CHECK(weight == Approx(0.25));
    const std::vector<double> sqrt = decay_weights(tokens, EmulatedDecay::minus_sqrt);
    CHECK(sqrt[0] == Approx(0.5));
    CHECK(sqrt[1] == Approx(std::sqrt(0.5) - 0.5));
    CHECK(sqrt[3] == Approx(1 - std::sqrt(0.75)));

    // For any updates and any spacing, the merge is step 0 plus the sum of each update times
    // 1 - sqrt(x), where x is the progress of the decay.
    const std::vector<i64> uneven{0, 10, 40, 50, 100};
    const std::vector<double> updates{3, -1, 4, 1.5};
    const std::vector<double> weights = decay_weights(uneven, EmulatedDecay::minus_sqrt);
    CHECK(std::accumulate(weights.begin(), weights.end(), 0.0) == Approx(1));
    double step = 7;
    double merged = weights[0] * step;
    double decayed = step;
    for (size_t i = 1; i < uneven.size(); ++i) {
        step += updates[i - 1];
        merged += weights[i] * step;
        decayed += updates[i - 1] * (1 - std::sqrt(static_cast<double>(uneven[i]) / 100 * 4 / 5));
    }
    CHECK(merged == Approx(decayed));
}
