// SPDX-License-Identifier: Apache-2.0
// Replaces liblm_cudnn.so. Computes attention by its definition. Like cuDNN, it requires an aligned
// workspace and overwrites it.
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "base/dtype.hpp"
#include "cuda/cudnn/cudnn_attention.hpp"
#include "events.hpp"
#include "memory.hpp"
#include "stream.hpp"

namespace {

using lm::i64;
using lm::u16;
using lm::cuda::CudnnProblem;
using lm::cuda::CudnnTensors;

constexpr uintptr_t workspace_alignment = 256;
constexpr i64 taken = i64{1} << 20;

// One head of one sample in a matrix [B, T, row].
class Head {
  public:
    Head(const CudnnProblem& p, void* base, i64 row, i64 batch, i64 head)
        : p_(p),
          at_(static_cast<u16*>(base) + batch * p.length * row + head * p.width),
          row_(row) {}
    double get(i64 token, i64 i) const {
        const u16 bits = at_[token * row_ + i];
        return static_cast<double>(p_.bf16 ? lm::fp32_from_bf16(bits) : lm::fp32_from_fp16(bits));
    }
    void set(i64 token, i64 i, double value) const {
        const auto narrow = static_cast<float>(value);
        at_[token * row_ + i] = p_.bf16 ? lm::bf16_from_fp32(narrow) : lm::fp16_from_fp32(narrow);
    }
    double dot(i64 token, const Head& other, i64 other_token) const {
        double sum = 0;
        for (i64 i = 0; i < p_.width; ++i) sum += get(token, i) * other.get(other_token, i);
        return sum;
    }

  private:
    const CudnnProblem& p_;
    u16* at_;
    i64 row_;
};

// The tensors of one (sample, head).
struct Part {
    Head q, k, v, out;
    float* lse;
    double scale;
    double slope;           // ALiBi's slope; 0 without it
    const lm::i32* starts;  // [T]: first key visible to each query, or nullptr

    Part(const CudnnProblem& p, const CudnnTensors& t, void* qkv, void* attention, i64 b, i64 h)
        : q(p, qkv, row(p), b, h),
          k(p, qkv, row(p), b, p.n_heads + h / (p.n_heads / p.n_groups)),
          v(p, qkv, row(p), b, p.n_heads + p.n_groups + h / (p.n_heads / p.n_groups)),
          out(p, attention, p.n_heads * p.width, b, h),
          lse(static_cast<float*>(t.lse) + (b * p.n_heads + h) * p.length),
          scale(static_cast<double>(p.scale)),
          slope(p.alibi ? static_cast<double>(static_cast<const float*>(t.slopes)[h]) : 0),
          starts(p.documents ? static_cast<const lm::i32*>(t.starts) + b * p.length : nullptr) {}
    i64 first_key(i64 query) const { return starts == nullptr ? 0 : starts[query]; }
    double score(i64 query, i64 key) const {
        return scale * q.dot(query, k, key) + slope * static_cast<double>(key - query);
    }
    static i64 row(const CudnnProblem& p) { return (p.n_heads + 2 * p.n_groups) * p.width; }
};

void forward(const CudnnProblem& p, const Part& part) {
    for (i64 query = 0; query < p.length; ++query) {
        std::vector<double> share;
        double sum = 0;
        const i64 first = part.first_key(query);
        for (i64 key = first; key <= query; ++key) {
            share.push_back(std::exp(part.score(query, key)));
            sum += share.back();
        }
        part.lse[query] = static_cast<float>(std::log(sum));
        for (i64 i = 0; i < p.width; ++i) {
            double value = 0;
            for (i64 key = first; key <= query; ++key) {
                value += share[static_cast<size_t>(key - first)] / sum * part.v.get(key, i);
            }
            part.out.set(query, i, value);
        }
    }
}

using Sums = std::vector<double>;  // [T, D]

// Adds the gradients of a head to dQ of the head and to dK and dV of its group.
void backward(const CudnnProblem& p, const Part& part, const Head& dout, Sums& dq, Sums& dk,
              Sums& dv) {
    const auto at = [&](i64 token, i64 i) { return static_cast<size_t>(token * p.width + i); };
    for (i64 query = 0; query < p.length; ++query) {
        const double delta = dout.dot(query, part.out, query);
        for (i64 key = part.first_key(query); key <= query; ++key) {
            const double share =
                std::exp(part.score(query, key) - static_cast<double>(part.lse[query]));
            const double ds = share * (dout.dot(query, part.v, key) - delta) * part.scale;
            for (i64 i = 0; i < p.width; ++i) {
                dq[at(query, i)] += ds * part.k.get(key, i);
                dk[at(key, i)] += ds * part.q.get(query, i);
                dv[at(key, i)] += share * dout.get(query, i);
            }
        }
    }
}

void write(const CudnnProblem& p, const Head& to, const Sums& sums) {
    for (i64 token = 0; token < p.length; ++token) {
        for (i64 i = 0; i < p.width; ++i) {
            to.set(token, i, sums[static_cast<size_t>(token * p.width + i)]);
        }
    }
}

void attend(const CudnnProblem& p, const CudnnTensors& t) {
    const i64 shared = p.n_heads / p.n_groups;
    const Sums zeros(static_cast<size_t>(p.length * p.width));
    for (i64 b = 0; b < p.batch; ++b) {
        Sums dk;
        Sums dv;
        for (i64 h = 0; h < p.n_heads; ++h) {
            const Part part(p, t, t.qkv, t.out, b, h);
            if (!p.backward) {
                forward(p, part);
                continue;
            }
            if (h % shared == 0) dk = dv = zeros;
            const Part gradient(p, t, t.dqkv, t.dout, b, h);
            Sums dq = zeros;
            backward(p, part, gradient.out, dq, dk, dv);
            write(p, gradient.q, dq);
            write(p, gradient.k, dk);
            write(p, gradient.v, dv);
        }
    }
}

i64 workspace_bytes(const CudnnProblem&, std::string&) {
    return taken;
}

std::string run(const CudnnProblem& problem, const CudnnTensors& tensors, void* workspace,
                cudaStream_t stream) {
    if (reinterpret_cast<uintptr_t>(workspace) % workspace_alignment != 0) {
        return "workspace: expected alignment to 256 bytes";
    }
    emulator::load(fmt::format("attention {} {} {} {} {} {} {} {}", problem.backward, problem.batch,
                               problem.length, problem.n_heads, problem.n_groups, problem.width,
                               problem.alibi, problem.documents));
    if (!emulator::is_device(workspace, taken)) return "workspace: too small, or not device memory";
    const cudaError_t status = emulator::enqueue(stream, [=] {
        emulator::fill_device(workspace, 0xff, taken);
        attend(problem, tensors);
        return cudaSuccess;
    });
    return status == cudaSuccess ? "" : cudaGetErrorString(status);
}

i64 workspace_on(const CudnnProblem&, const std::string&, int, int, std::string&) {
    return taken;
}

}  // namespace

const lm::cuda::CudnnAttention* lm_cudnn_attention() {
    static const lm::cuda::CudnnAttention attention{lm::cuda::CudnnAttention{}.abi, workspace_bytes,
                                                    run, workspace_on};
    return &attention;
}
