// SPDX-License-Identifier: Apache-2.0
// The weights of a model in memory: matrices in the stored type or the type of the options, vectors
// as fp32. Layers that do not fit into the memory limit have only address space. Each pass reads
// such a layer when it needs the layer, and returns the matrices of the previous such layer to the
// system.
#pragma once

#include <optional>
#include <vector>

#include "base/threads.hpp"
#include "ckpt/format/tensor_source.hpp"
#include "eval/engine.hpp"
#include "model/params.hpp"

namespace lm::infer {

// Reserved address space. A page uses memory from the first write to it until drop().
class LazyPages {
  public:
    LazyPages() = default;
    // Throws Error(failure) when the system refuses the address space.
    static LazyPages reserve(i64 bytes, bool huge_pages);
    ~LazyPages();
    LazyPages(LazyPages&& other) noexcept;
    LazyPages& operator=(LazyPages&& other) noexcept;

    std::byte* data() const { return data_; }
    // Gives the memory of all pages that lie within [begin, end) bytes back to the system.
    void drop(i64 begin, i64 end) const;

  private:
    LazyPages(std::byte* data, i64 bytes) : data_(data), bytes_(bytes) {}
    std::byte* data_ = nullptr;
    i64 bytes_ = 0;
};

class WeightMemory {
  public:
    // Reads the weights of `source` with the threads of `pool`. `source` must outlive the result.
    static WeightMemory load(const ckpt::TensorSource& source, const eval::EngineOptions& options,
                             ThreadPool& pool);

    const eval::Residency& residency() const { return residency_; }
    const spec::ModelConfig& config() const { return config_; }
    // Return the matrices (of residency().dtype) and the vectors (fp32), with the shapes of the
    // model's tensors. The views of a layer may be read only after use() of this layer.
    const model::Params& matrices() const { return matrices_; }
    const model::Params& vectors() const { return vectors_; }
    // Makes the weights of a layer readable until the next call.
    void use(i64 layer, ThreadPool& pool);

  private:
    WeightMemory(const ckpt::TensorSource& source, DType dtype);
    void reserve();
    i64 unit_bytes(i64 unit) const;
    void decide(const eval::EngineOptions& options);
    void read(const std::vector<i64>& units, ThreadPool& pool);
    bool is_matrix(const spec::LocalTensor& local) const;
    DType dtype_of(const spec::LocalTensor& local) const;
    std::byte* address_of(const spec::LocalTensor& local) const;

    const ckpt::TensorSource* source_;
    spec::ModelConfig config_;
    model::ParamMap map_;
    eval::Residency residency_;
    std::vector<bool> kept_;  // [layers] whether the layer stays in memory
    i64 read_layer_ = -1;     // index of the layer that use() has read; -1: none
    LazyPages matrix_pages_, vector_pages_;
    model::Params matrices_, vectors_;
};

}  // namespace lm::infer
