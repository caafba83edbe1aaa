// SPDX-License-Identifier: Apache-2.0
#include "ckpt/verbs/merge.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <span>

#include "base/error.hpp"
#include "ckpt/format/elements.hpp"
#include "ckpt/format/geometry.hpp"
#include "ckpt/format/index.hpp"
#include "ckpt/format/model_json.hpp"
#include "io/json.hpp"

namespace lm::ckpt {
namespace {

constexpr i64 merge_elements = io::block_bytes / i64{sizeof(float)};

// Memory for the average of a chunk. Later chunks reuse it, because the first access to a new page
// takes more time than computing the sums in the page.
struct Scratch {
    std::vector<double> sum = std::vector<double>(merge_elements);
    std::vector<float> values = std::vector<float>(merge_elements);
};

// Computes sum[i] += weight * values[i]; if `first`, sum[i] = weight * values[i].
void add_weighted(std::span<double> sum, std::span<const float> values, double weight, bool first) {
    for (size_t i = 0; i < sum.size(); ++i) {
        const double term = weight * double{values[i]};
        sum[i] = first ? term : sum[i] + term;
    }
}

const Checkpoint& newest(const std::vector<MergeSource>& sources) {
    return std::ranges::max_element(sources, {},
                                    [](const MergeSource& source) {
                                        return source.checkpoint.manifest().counters.iteration;
                                    })
        ->checkpoint;
}

DType common_type(const std::vector<MergeSource>& sources) {
    const auto stored = [](const MergeSource& source) {
        return source.checkpoint.manifest().tensors.at(0).dtype;
    };
    const DType first = stored(sources.front());
    const auto is_first = [&](const MergeSource& source) { return stored(source) == first; };
    return std::ranges::all_of(sources, is_first) ? first : DType::fp32;
}

class Averager {
  public:
    Averager(const std::vector<MergeSource>& sources, const MergeOptions& options)
        : sources_(sources),
          options_(options),
          dtype_(options.dtype.value_or(common_type(sources))) {
        for (const MergeSource& source : sources) total_ += source.weight;
        LM_CHECK(total_ > 0, "expected weights with a positive sum, got {}", total_);
    }

    SaveResult save_in(const std::string& directory) {
        const Manifest& last = newest(sources_).manifest();
        SaveInfo info;
        info.model = last.model;
        info.counters = last.counters;
        info.tokenizer = last.tokenizer;
        info.tokenizer.files =
            read_tokenizer_files(newest(sources_).path(), std::move(info.tokenizer.files));
        info.seed = last.seed;
        info.run_id = new_run_id();
        io::Json state = io::parse_json(last.state, "state");
        for (const MergeSource& source : sources_) {
            state["merged_from"].push_back(
                {{"path", source.checkpoint.path()}, {"weight", source.weight / total_}});
        }
        info.state = io::json_line(io::OrderedJson(state));
        info.command_line = options_.command_line;
        info.weights = dtype_;
        const std::vector<spec::TensorSpec> table = spec::tensor_table(info.model);
        std::vector<Piece> pieces;
        for (const spec::TensorSpec& tensor : table) {
            pieces.push_back(piece_of(static_cast<i64>(pieces.size()), tensor));
        }
        return save({directory, 0}, info, pieces);
    }

  private:
    Piece piece_of(i64 index, const spec::TensorSpec& tensor) {
        const Region all = whole(tensor.shape);
        Piece piece{.tensor = index,
                    .kind = SliceKind::weight,
                    .dtype = dtype_,
                    .box = all.box,
                    .flat_begin = 0,
                    .flat_end = all.flat_end};
        piece.concurrent = true;
        piece.read = [this, &tensor, all](std::span<std::byte> to, i64 offset) {
            const i64 size = size_of(dtype_);
            const i64 first = offset / size;
            const i64 n = static_cast<i64>(to.size()) / size;
            std::unique_ptr<Scratch> scratch = acquire();
            for (i64 at = 0; at < n; at += merge_elements) {
                const i64 part = std::min(n - at, merge_elements);
                average(tensor.name, all.box, first + at, part, *scratch);
                convert_elements(scratch->values.data(), DType::fp32, to.data() + at * size, dtype_,
                                 part);
                check_held(tensor.name, to.data() + at * size, part);
                const std::lock_guard lock(mutex_);
                n_done_ += part;
                if (options_.progress) options_.progress(n_done_);
            }
            const std::lock_guard lock(mutex_);
            scratch_.push_back(std::move(scratch));
        };
        return piece;
    }

    std::unique_ptr<Scratch> acquire() {
        const std::lock_guard lock(mutex_);
        if (scratch_.empty()) return std::make_unique<Scratch>();
        std::unique_ptr<Scratch> scratch = std::move(scratch_.back());
        scratch_.pop_back();
        return scratch;
    }

    // Writes the average of the elements [first, first + n) of `box` to scratch.values.
    void average(const std::string& tensor, const spec::Box& box, i64 first, i64 n,
                 Scratch& scratch) const {
        const auto sum = std::span(scratch.sum).first(static_cast<size_t>(n));
        const auto values = std::span(scratch.values).first(static_cast<size_t>(n));
        for (const MergeSource& source : sources_) {
            source.checkpoint.load(tensor, SliceKind::master,
                                   {.box = box,
                                    .flat_begin = first,
                                    .flat_end = first + n,
                                    .dtype = DType::fp32,
                                    .data = values.data()});
            check_finite(source, tensor, first, values);
            add_weighted(sum, values, source.weight, &source == sources_.data());
        }
        for (size_t i = 0; i < sum.size(); ++i) values[i] = static_cast<float>(sum[i] / total_);
    }

    static void check_finite(const MergeSource& source, const std::string& tensor, i64 first,
                             std::span<const float> values) {
        if (count_non_finite(std::as_bytes(values), DType::fp32) == 0) return;
        const auto found =
            std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
        run_error(source.checkpoint.path(),
                  "tensor {}: element {} is {}: cannot be averaged: use another step", tensor,
                  first + (found - values.begin()), *found);
    }

    void check_held(const std::string& tensor, const std::byte* values, i64 n) const {
        if (count_non_finite({values, static_cast<size_t>(n * size_of(dtype_))}, dtype_) == 0)
            return;
        run_error("tensor " + tensor, "its average is too large for {}: choose another --dtype",
                  name_of(dtype_));
    }

    const std::vector<MergeSource>& sources_;
    const MergeOptions& options_;
    DType dtype_;
    double total_ = 0;
    std::mutex mutex_;                               // guards the members after it
    std::vector<std::unique_ptr<Scratch>> scratch_;  // unused Scratch objects
    i64 n_done_ = 0;
};

}  // namespace

void check_same_architecture(const Checkpoint& a, const Checkpoint& b) {
    using S = spec::ModelConfig;
    spec::ModelConfig model = a.manifest().model;
    // The members that may differ.
    for (const auto member : {&S::attention_dropout, &S::hidden_dropout, &S::init_std})
        model.*member = b.manifest().model.*member;
    model.seq_length = b.manifest().model.seq_length;
    if (!has_table(model.position)) model.max_positions = b.manifest().model.max_positions;
    const io::OrderedJson model_a = to_json(model, true);
    const io::OrderedJson model_b = to_json(b.manifest().model, true);
    for (const auto& [key, value] : model_a.items()) {
        if (value == model_b.at(key)) continue;
        usage_error(b.path(), "{} is {}, but {} has {}: merge only checkpoints of one architecture",
                    key, model_b.at(key).dump(), a.path(), value.dump());
    }
    const std::string& tokenizer_a = a.manifest().tokenizer.digest;
    const std::string& tokenizer_b = b.manifest().tokenizer.digest;
    if (tokenizer_a.empty() || tokenizer_b.empty() || tokenizer_a == tokenizer_b) return;
    usage_error(
        b.path(),
        "was trained with another tokenizer than {}: merge only checkpoints of one tokenizer",
        a.path());
}

SaveResult merge(const std::vector<MergeSource>& sources, const MergeOptions& options,
                 const std::string& directory) {
    return Averager(sources, options).save_in(directory);
}

// The steps are numbered 0 .. k. With a constant learning rate, step j is step 0 minus the updates
// 1 .. j. The sum of c_j * (step j) is then step 0 minus the sum of w_i * (update i), where w_i is
// the sum of c_j for j >= i. A decay that scales update i by w_i therefore corresponds to the
// weights c_k = w_k, c_j = w_j - w_(j+1), c_0 = 1 - w_1.
//
// For evenly spaced steps, w_i is the decay at x_i = i / (k + 1), so that linear decay is the plain
// mean. In general, with the consumed tokens t_i of step i, x_i = (t_i - t_0) / (t_k - t_0) * k /
// (k + 1).
std::vector<double> decay_weights(const std::vector<i64>& tokens, EmulatedDecay style) {
    LM_CHECK(tokens.size() >= 2 && tokens.front() < tokens.back(),
             "expected at least two steps, the last with more consumed tokens than the first, got "
             "{} steps",
             tokens.size());
    const auto k = static_cast<double>(tokens.size() - 1);
    const auto all = static_cast<double>(tokens.back() - tokens.front());
    std::vector<double> decay{1};  // w_0, then w_1 .. w_k
    for (size_t i = 1; i < tokens.size(); ++i) {
        const double x = static_cast<double>(tokens[i] - tokens[0]) / all * k / (k + 1);
        decay.push_back(style == EmulatedDecay::linear ? 1 - x : 1 - std::sqrt(x));
    }
    std::vector<double> weights;
    for (size_t j = 0; j < decay.size(); ++j) {
        weights.push_back(decay[j] - (j + 1 < decay.size() ? decay[j + 1] : 0));
    }
    return weights;
}

}  // namespace lm::ckpt
