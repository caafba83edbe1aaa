// SPDX-License-Identifier: Apache-2.0
#include "train/step/gemm_tuning.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/rng.hpp"
#include "cost/memory.hpp"
#include "device/ops.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "spec/rank_layout.hpp"

namespace lm::train {

// ---- Stored choices ----------------------------------------------------------------------------

std::string ChoicesInDirectory::path_of(const std::string& key) const {
    return fmt::format("{}/product-{:016x}.txt", directory_, hash64(key));
}

std::string ChoicesInDirectory::find(const std::string& key) {
    const std::string path = path_of(key);
    if (!io::exists(path)) return {};
    const std::string text = io::read_file(path);
    if (!text.starts_with(key + "\n") || !text.ends_with('\n') || text.size() < key.size() + 3) {
        run_error(path, "does not contain the choice for \"{}\": remove the file", key);
    }
    ++n_found_;
    return text.substr(key.size() + 1, text.size() - key.size() - 2);
}

std::string ChoicesInDirectory::store(const std::string& key, const std::string& choice) {
    const std::string path = path_of(key);
    io::make_directories(directory_);
    try {
        auto file = io::AtomicFile::create(path, io::Overwrite::no);
        file.write(key + "\n" + choice + "\n");
        file.commit();
        ++n_kept_;
        return choice;
    } catch (const Error&) {
        // If the file now exists, another rank has stored its choice first, which is used.
        if (!io::exists(path)) throw;
    }
    return find(key);
}

// ---- The matrix products of a model ------------------------------------------------------------

namespace {

// Runs the matrix products of linear layers. The operands have values as in a model, because a GPU
// that multiplies zeros runs at another clock rate.
class LinearLayers {
  public:
    LinearLayers(device::Device& device, DType type, device::Buffer workspace)
        : device_(device), type_(type), workspace_(std::move(workspace)), numbers_(1 << 16) {
        const u64 key = stream_key(0, "autotune");
        for (size_t i = 0; i < numbers_.size(); ++i) {
            numbers_[i] = static_cast<float>(0.02 * normal(key, i));
        }
    }

    void run(const LinearShape& s) {
        const View x = filled({s.rows, s.inputs});
        const View w = filled({s.outputs, s.inputs});
        const View y = filled({s.rows, s.outputs});
        const View pre = s.activation == device::Activation::none ? View{} : filled(y.shape);
        device::Context context{device_, workspace_.view(DType::uint8, {workspace_.bytes()})};
        device::linear_forward(context, {.x = x,
                                         .w = w,
                                         .bias = s.bias ? filled({s.outputs}) : View{},
                                         .y = y,
                                         .activation = s.activation,
                                         .pre_activation = pre});
        const bool through = s.input_activation != device::Activation::none;
        device::linear_backward_input(context,
                                      {.dy = y,
                                       .w = w,
                                       .dx = x,
                                       .activation = s.input_activation,
                                       .pre_activation = through ? filled(x.shape) : View{}});
        const View dw = empty(DType::fp32, w.shape);
        const View dbias = s.bias_gradient ? empty(DType::fp32, {s.outputs}) : View{};
        for (const bool accumulate : {false, true}) {
            if (accumulate && !s.accumulated) continue;
            device::linear_backward_weight(
                context, {.dy = y, .x = x, .dw = dw, .dbias = dbias, .accumulate = accumulate});
        }
        device_.synchronize();
        buffers_.clear();
    }

  private:
    using View = device::View;

    // Returns new memory of the given shape, [...] of any dtype, valid until the end of run().
    View empty(DType type, const Shape& shape) {
        buffers_.push_back(device_.allocate(shape.numel() * size_of(type), "autotune"));
        return buffers_.back().view(type, shape);
    }
    // Returns new memory like empty(), [...] compute, filled with numbers_ (repeated).
    View filled(const Shape& shape) {
        const View view = empty(type_, shape);
        if (host_.empty()) narrow();
        const View flat = view.flat();
        const auto piece = static_cast<i64>(numbers_.size());
        for (i64 begin = 0; begin < flat[0]; begin += piece) {
            device_.copy_from_host(flat.rows(begin, std::min(begin + piece, flat[0])),
                                   host_.data());
        }
        return view;
    }
    void narrow() {
        host_.resize(numbers_.size() * static_cast<size_t>(size_of(type_)));
        for (size_t i = 0; i < numbers_.size(); ++i) {
            if (type_ == DType::fp32) {
                reinterpret_cast<float*>(host_.data())[i] = numbers_[i];
            } else {
                reinterpret_cast<u16*>(host_.data())[i] = type_ == DType::bf16
                                                              ? bf16_from_fp32(numbers_[i])
                                                              : fp16_from_fp32(numbers_[i]);
            }
        }
    }

    device::Device& device_;
    DType type_;
    device::Buffer workspace_;
    std::vector<float> numbers_;
    std::vector<std::byte> host_;
    std::vector<device::Buffer> buffers_;
};

}  // namespace

std::vector<LinearShape> linear_shapes(const TrainerConfig& config, i64 tp_rank) {
    const spec::ModelConfig& m = config.model;
    const spec::TensorShare share = spec::tensor_share(m, config.parallel, tp_rank);
    const i64 rows = config.micro_batch * m.seq_length;
    // Only the first tensor rank adds the bias of a row-parallel layer.
    const bool bias_once = m.linear_bias && tp_rank == 0;
    // Without sequence parallelism, the backward of the norm computes the gradient of this bias
    // (model::folded_bias()).
    const bool row_bias_gradient = m.linear_bias && config.parallel.sequence_parallel;
    std::vector<LinearShape> shapes;
    for (const spec::LayerConfig& layer : spec::layer_kinds(m)) {
        const spec::HeadShare heads = spec::head_share(m, layer, config.parallel, tp_rank);
        const i64 attention = heads.n_heads * m.head_dim;
        const i64 qkv = attention + 2 * heads.n_groups * m.head_dim;
        const bool gated = spec::is_gated(layer.activation);
        // A gated activation is a separate operation after the product.
        const spec::Activation activation = gated ? spec::Activation::none : layer.activation;
        const LinearShape of_layer[] = {
            {.rows = rows,
             .inputs = m.hidden,
             .outputs = qkv,
             .bias = m.has_qkv_bias(),
             .bias_gradient = m.has_qkv_bias()},
            {.rows = rows,
             .inputs = attention,
             .outputs = m.hidden,
             .bias = bias_once,
             .bias_gradient = row_bias_gradient},
            {.rows = rows,
             .inputs = m.hidden,
             .outputs = gated ? 2 * share.ffn : share.ffn,
             .bias = m.linear_bias,
             .bias_gradient = m.linear_bias,
             .activation = activation},
            {.rows = rows,
             .inputs = share.ffn,
             .outputs = m.hidden,
             .bias = bias_once,
             .bias_gradient = row_bias_gradient,
             .input_activation = activation},
        };
        for (const LinearShape& shape : of_layer) {
            if (std::ranges::find(shapes, shape) == shapes.end()) shapes.push_back(shape);
        }
    }
    const cost::StepShape step{.micro_batch = config.micro_batch,
                               .seq_length = m.seq_length,
                               .compute = config.precision.weights,
                               .logits_bytes = config.processor().logits_bytes(),
                               .cuda = config.cuda};
    const i64 chunk = cost::head_chunk_rows(step, share.vocab_rows);
    for (const i64 n : {chunk, rows % chunk}) {
        if (n > 0) shapes.push_back({.rows = n, .inputs = m.hidden, .outputs = share.vocab_rows});
    }
    const bool several = config.n_micro_batches > 1;
    for (LinearShape& shape : shapes) shape.accumulated = several || shape.rows < rows;
    return shapes;
}

void tune_linear_layers(device::Device& device, const TrainerConfig& config,
                        const std::vector<LinearShape>& shapes) {
    LinearLayers layers(device, config.precision.weights,
                        device.allocate(memory_plan(config).workspace, "autotune"));
    for (const LinearShape& shape : shapes) layers.run(shape);
}

}  // namespace lm::train
