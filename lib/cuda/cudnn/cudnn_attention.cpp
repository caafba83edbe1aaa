// SPDX-License-Identifier: Apache-2.0
// Builds the attention graphs for cuDNN's frontend, and one plan for each problem.
#include "cuda/cudnn/cudnn_attention.hpp"

#include <cudnn_frontend.h>

#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace lm::cuda {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Graph;
using fe::graph::Tensor_attributes;

// The ids of a graph's inputs and outputs. run() assigns a pointer to each.
enum Tensor : i64 { q = 1, k, v, out, lse, dout, dq, dk, dv, slopes, starts };

// Returns the attributes of the heads of q, k, v or out [B, heads, T, D], in a tensor whose tokens
// are `row` elements apart.
Tensor_attributes heads_of(const CudnnProblem& p, Tensor name, i64 heads, i64 row) {
    return Tensor_attributes()
        .set_uid(name)
        .set_dim({p.batch, heads, p.length, p.width})
        .set_stride({p.length * row, p.width, row, 1});
}

// Returns the attributes of cuDNN's statistics [B, H, T, 1] fp32: for each query the logarithm of
// the sum of the exponentials of its scores.
Tensor_attributes lse_of(const CudnnProblem& p) {
    return Tensor_attributes()
        .set_uid(lse)
        .set_data_type(fe::DataType_t::FLOAT)
        .set_dim({p.batch, p.n_heads, p.length, 1})
        .set_stride({p.n_heads * p.length, p.length, 1, 1});
}

using TensorPointer = std::shared_ptr<Tensor_attributes>;

// Adds operations on the scaled scores [B, H, T, T] to the graph: they add ALiBi's slope * (key -
// query), and mask the keys that are before the query's document or after the query. The frontend's
// own ALiBi and causal masks consist of the same operations (utils/attn_score_modifiers.h), but
// ScoreMask takes the slopes as an input.
class ScoreMask {
  public:
    ScoreMask(Graph& graph, const CudnnProblem& p) {
        if (p.alibi) {
            slopes_ = graph.tensor(Tensor_attributes()
                                       .set_uid(slopes)
                                       .set_data_type(fe::DataType_t::FLOAT)
                                       .set_dim({1, p.n_heads, 1, 1})  // broadcast
                                       .set_stride({p.n_heads, 1, 1, 1}));
        }
        if (p.documents) {
            starts_ = graph.tensor(Tensor_attributes()
                                       .set_uid(starts)
                                       .set_data_type(fe::DataType_t::INT32)
                                       .set_dim({p.batch, 1, p.length, 1})  // broadcast
                                       .set_stride({p.length, p.length, 1, 1}));
        }
    }
    TensorPointer operator()(const std::shared_ptr<Graph>& graph, TensorPointer scores) const {
        using fe::PointwiseMode_t;
        using enum fe::DataType_t;
        // Returns a tensor with the index of each score along an axis. Axis 2 is the query, axis 3
        // the key.
        const auto number_along = [&](i64 axis) {
            auto made = graph->pointwise(scores, fe::graph::Pointwise_attributes()
                                                     .set_mode(PointwiseMode_t::GEN_INDEX)
                                                     .set_axis(axis)
                                                     .set_compute_data_type(INT32));
            made->set_data_type(INT32);
            return made;
        };
        const auto of_two = [&](const TensorPointer& a, const TensorPointer& b,
                                PointwiseMode_t mode, fe::DataType_t type) {
            auto made = graph->pointwise(
                a, b, fe::graph::Pointwise_attributes().set_mode(mode).set_compute_data_type(type));
            made->set_data_type(type);
            return made;
        };
        if (slopes_) {
            const auto distance =
                of_two(number_along(3), number_along(2), PointwiseMode_t::SUB, INT32);
            // The bias is <= 0 for each visible key, because the distance key - query is <= 0.
            const auto bias = of_two(distance, slopes_, PointwiseMode_t::MUL, FLOAT);
            scores = of_two(scores, bias, PointwiseMode_t::ADD, FLOAT);
        }
        if (starts_) {
            const auto seen = of_two(number_along(3), starts_, PointwiseMode_t::CMP_GE, BOOLEAN);
            const auto hidden = std::make_shared<Tensor_attributes>(
                fe::graph::attn::score_modifiers::get_negative_inf_value());
            scores = graph->pointwise(
                scores, hidden, seen,
                fe::graph::Pointwise_attributes().set_mode(PointwiseMode_t::BINARY_SELECT));
        }
        return fe::graph::attn::score_modifiers::causal_mask(graph, scores);
    }

  private:
    TensorPointer slopes_;
    TensorPointer starts_;
};

// Sets the causal mask, or ScoreMask for problems with ALiBi or documents.
template <typename Attributes>
void set_mask(Attributes& attributes, Graph& graph, const CudnnProblem& p) {
    if (p.alibi || p.documents) {
        attributes.set_score_mod(ScoreMask(graph, p));
    } else {
        attributes.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
            .set_diagonal_band_right_bound(0);
    }
}

// Makes a tensor an output of the graph, with the id, shape and strides of `place`.
void put(const std::shared_ptr<Tensor_attributes>& tensor, const Tensor_attributes& place) {
    tensor->set_output(true)
        .set_uid(place.get_uid())
        .set_dim(place.get_dim())
        .set_stride(place.get_stride());
}

void add_attention(Graph& graph, const CudnnProblem& p) {
    // A row of qkv has the query heads of its token, then the key heads, then the value heads.
    const i64 row = (p.n_heads + 2 * p.n_groups) * p.width;
    const i64 out_row = p.n_heads * p.width;
    const auto q_in = graph.tensor(heads_of(p, q, p.n_heads, row));
    const auto k_in = graph.tensor(heads_of(p, k, p.n_groups, row));
    const auto v_in = graph.tensor(heads_of(p, v, p.n_groups, row));
    if (!p.backward) {
        auto attributes = fe::graph::SDPA_attributes()
                              .set_name("attention")
                              .set_generate_stats(true)
                              .set_attn_scale(p.scale);
        set_mask(attributes, graph, p);
        const auto [made, stats] = graph.sdpa(q_in, k_in, v_in, attributes);
        put(made, heads_of(p, out, p.n_heads, out_row));
        put(stats, lse_of(p));
        stats->set_data_type(fe::DataType_t::FLOAT);
        return;
    }
    const auto out_in = graph.tensor(heads_of(p, out, p.n_heads, out_row));
    const auto dout_in = graph.tensor(heads_of(p, dout, p.n_heads, out_row));
    const auto lse_in = graph.tensor(lse_of(p));
    auto attributes = fe::graph::SDPA_backward_attributes()
                          .set_name("attention backward")
                          .set_attn_scale(p.scale);
    set_mask(attributes, graph, p);
    const auto [dq_made, dk_made, dv_made] =
        graph.sdpa_backward(q_in, k_in, v_in, out_in, dout_in, lse_in, attributes);
    put(dq_made, heads_of(p, dq, p.n_heads, row));
    put(dk_made, heads_of(p, dk, p.n_groups, row));
    put(dv_made, heads_of(p, dv, p.n_groups, row));
}

// Returns a graph without operations. Device properties must be set before operations are added,
// because operations copy them.
std::unique_ptr<Graph> empty_graph(const CudnnProblem& p) {
    auto graph = std::make_unique<Graph>();
    graph->set_io_data_type(p.bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    return graph;
}

// Builds the graph and checks that an engine supports it. Returns an empty string, or the reason
// why no engine does. With handle nullptr, the check is for the device properties of the graph.
std::string find_engines(Graph& graph, cudnnHandle_t handle) {
    fe::error_t status = graph.validate();
    if (status.is_good()) status = graph.build_operation_graph(handle);
    if (status.is_good()) status = graph.create_execution_plans({fe::HeurMode_t::A});
    if (status.is_good()) status = graph.check_support();
    return status.is_good() ? "" : status.get_message();
}

struct Plan {
    std::unique_ptr<Graph> graph;
    i64 workspace = -1;  // bytes; -1: no engine supports the problem
    std::string why;     // why no engine supports the problem
};

// The plans of this process, which uses one GPU.
struct Plans {
    std::mutex mutex;                // one thread at a time may use a handle
    cudnnHandle_t handle = nullptr;  // created by the first workspace_bytes()
    std::map<CudnnProblem, Plan> plans;
};

// The plans are never destroyed. At the end of the process, the CUDA runtime and cuDNN may end
// before the destructors of this plugin run. A plan that releases its GPU code after that can
// crash.
Plans& all() {
    static Plans& plans = *new Plans;
    return plans;
}

// Returns the plan of a problem in `graph`, which has no operations yet. With handle nullptr, the
// plan is for the device properties of the graph.
Plan make_plan(const CudnnProblem& problem, std::unique_ptr<Graph> graph, cudnnHandle_t handle) {
    Plan plan{std::move(graph), -1, ""};
    add_attention(*plan.graph, problem);
    plan.why = find_engines(*plan.graph, handle);
    if (!plan.why.empty()) return plan;
    fe::error_t status = plan.graph->build_plans();
    i64 bytes = 0;
    if (status.is_good()) status = plan.graph->get_workspace_size(bytes);
    if (status.is_good()) {
        plan.workspace = bytes;
    } else {
        plan.why = status.get_message();
    }
    return plan;
}

i64 workspace_bytes(const CudnnProblem& problem, std::string& why) {
    Plans& known = all();
    const std::lock_guard lock(known.mutex);
    if (known.handle == nullptr) {
        const cudnnStatus_t status = cudnnCreate(&known.handle);
        if (status != CUDNN_STATUS_SUCCESS) {
            why = cudnnGetErrorString(status);
            return -1;
        }
    }
    auto found = known.plans.find(problem);
    if (found == known.plans.end()) {
        found = known.plans.emplace(problem, make_plan(problem, empty_graph(problem), known.handle))
                    .first;
    }
    why = found->second.why;
    return found->second.workspace;
}

std::string run(const CudnnProblem& p, const CudnnTensors& tensors, void* workspace,
                cudaStream_t stream) {
    Plans& known = all();
    const std::lock_guard lock(known.mutex);
    const cudnnStatus_t set = cudnnSetStream(known.handle, stream);
    if (set != CUDNN_STATUS_SUCCESS) return cudnnGetErrorString(set);
    constexpr i64 element = 2;  // bytes of bf16 and fp16
    // q, k and v are parts of the same rows, so their tensors differ only in the address of the
    // first head.
    const auto part = [&](void* base, i64 first_head) {
        return static_cast<std::byte*>(base) + first_head * p.width * element;
    };
    std::unordered_map<int64_t, void*> pointers = {{q, part(tensors.qkv, 0)},
                                                   {k, part(tensors.qkv, p.n_heads)},
                                                   {v, part(tensors.qkv, p.n_heads + p.n_groups)},
                                                   {out, tensors.out},
                                                   {lse, tensors.lse}};
    if (p.alibi) pointers[slopes] = tensors.slopes;
    if (p.documents) pointers[starts] = tensors.starts;
    if (p.backward) {
        pointers[dout] = tensors.dout;
        pointers[dq] = part(tensors.dqkv, 0);
        pointers[dk] = part(tensors.dqkv, p.n_heads);
        pointers[dv] = part(tensors.dqkv, p.n_heads + p.n_groups);
    }
    fe::error_t status = known.plans.at(p).graph->execute(known.handle, pointers, workspace);
    return status.is_good() ? "" : status.get_message();
}

i64 workspace_on(const CudnnProblem& problem, const std::string& device, int capability,
                 int multiprocessors, std::string& why) {
    const auto properties = std::make_shared<fe::DeviceProperties>();
    fe::error_t status =
        properties->deserialize(std::vector<uint8_t>(device.begin(), device.end()));
    if (status.is_bad()) {
        why = status.get_message();
        return -1;
    }
    std::unique_ptr<Graph> graph = empty_graph(problem);
    // The graph uses the given device properties, so this machine needs no GPU.
    graph->set_device_properties(properties);
    graph->set_sm_version(capability);
    graph->set_sm_count(multiprocessors);
    Plan plan = make_plan(problem, std::move(graph), nullptr);
    why = plan.why;
    return plan.workspace;
}

}  // namespace
}  // namespace lm::cuda

const lm::cuda::CudnnAttention* lm_cudnn_attention() {
    static const lm::cuda::CudnnAttention attention{5, lm::cuda::workspace_bytes, lm::cuda::run,
                                                    lm::cuda::workspace_on};
    return &attention;
}
