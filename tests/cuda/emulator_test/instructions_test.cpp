// SPDX-License-Identifier: Apache-2.0
// Compares the emulated instructions with plain loops: matrix products with operands from shared
// memory in both orders, and asynchronous copies.
#include <vector>

#include "cuda/kernels/kernel_launch.cuh"
#include "cuda/kernels/mma.cuh"
#include "cuda/kernels/shared.cuh"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::cuda;

namespace {

// Device memory with the values of a host vector.
template <typename T>
class OnDevice {
  public:
    explicit OnDevice(const std::vector<T>& values) : size_(values.size()) {
        cudaMalloc(&data_, bytes());
        cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice);
    }
    ~OnDevice() { cudaFree(data_); }
    OnDevice(const OnDevice&) = delete;
    OnDevice& operator=(const OnDevice&) = delete;
    T* data() const { return data_; }
    std::vector<T> values() const {
        std::vector<T> values(size_);
        cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost);
        return values;
    }

  private:
    size_t bytes() const { return size_ * sizeof(T); }
    T* data_ = nullptr;
    size_t size_;
};

constexpr int rows = 16;
constexpr int depth = 16;
constexpr int columns = 8;

// d = a b for one warp; a is [rows][depth], b is [columns][depth], or [depth][columns] with
// `b_by_depth`.
template <typename T>
__global__ void product_kernel(const T* a, const T* b, float* d, bool b_by_depth) {
    T* const shared = dynamic_shared<T>();
    const int lane = static_cast<int>(threadIdx.x);
    for (int i = lane; i < rows * depth; i += 32) shared[i] = a[i];
    for (int i = lane; i < columns * depth; i += 32) shared[rows * depth + i] = b[i];
    __syncthreads();
    u32 left[4];
    load_matrices(left, shared + lane % 16 * depth + lane / 16 * 8);
    const T* const right_side = shared + rows * depth;
    u32 right[4];  // two 8 x 8 matrices, twice
    if (b_by_depth) {
        load_matrices_transposed(right, right_side + lane % 16 * columns);
    } else {
        load_matrices(right, right_side + lane % 8 * depth + lane / 8 % 2 * 8);
    }
    float sums[4] = {1.0F, 1.0F, 1.0F, 1.0F};
    multiply_add(T{}, sums, left, right[0], right[1]);
    for (int i = 0; i < 4; ++i) {
        d[(lane / 4 + i / 2 * 8) * columns + lane % 4 * 2 + i % 2] = sums[i];
    }
}

template <typename T>
void check_product(bool b_by_depth) {
    std::vector<T> a(rows * depth);
    std::vector<T> b(columns * depth);
    for (size_t i = 0; i < a.size(); ++i) {
        a[i] = from_float<T>(static_cast<float>(i * 37 % 101) / 16 - 3);
    }
    for (size_t i = 0; i < b.size(); ++i) {
        b[i] = from_float<T>(static_cast<float>(i * 53 % 97) / 32 - 1);
    }
    const OnDevice<T> a_there(a);
    const OnDevice<T> b_there(b);
    const OnDevice<float> d(std::vector<float>(rows * columns));
    launch(nullptr, product_kernel<T>, dim3(1), dim3(32), sizeof(T) * (rows + columns) * depth,
           a_there.data(), b_there.data(), d.data(), b_by_depth);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    const std::vector<float> got = d.values();
    for (size_t row = 0; row < rows; ++row) {
        for (size_t column = 0; column < columns; ++column) {
            float sum = 1.0F;
            for (size_t k = 0; k < depth; ++k) {
                const T right = b_by_depth ? b[k * columns + column] : b[column * depth + k];
                sum += to_float(a[row * depth + k]) * to_float(right);
            }
            INFO("row " << row << ", column " << column);
            CHECK(got[row * columns + column] == Approx(sum).epsilon(1e-5));
        }
    }
}

// Thread 0 reads five floats three times: before it waits, after it has waited for the first of two
// copies, and after it has waited for both.
__global__ void copies_kernel(const float* from, float* seen) {
    float* const shared = dynamic_shared<float>();
    copy_async_16(shared, from, 12);
    commit_copies();
    copy_async_4(shared + 4, from + 4, 4);
    commit_copies();
    for (int i = 0; i < 5; ++i) seen[i] = shared[i];
    wait_for_copies<1>();
    for (int i = 0; i < 5; ++i) seen[5 + i] = shared[i];
    wait_for_copies<0>();
    for (int i = 0; i < 5; ++i) seen[10 + i] = shared[i];
}

}  // namespace

TEST_CASE("matrix fragments have the lane layout of the PTX ISA", "[emulator]") {
    for (const bool b_by_depth : {false, true}) {
        check_product<bf16>(b_by_depth);
        check_product<fp16>(b_by_depth);
    }
}

TEST_CASE("asynchronous copies are complete after the wait", "[emulator]") {
    const OnDevice<float> from({1, 2, 3, 4, 5});
    const OnDevice<float> seen(std::vector<float>(15));
    launch(nullptr, copies_kernel, dim3(1), dim3(1), 64, from.data(), seen.data());
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    const std::vector<float> values = seen.values();
    for (size_t i = 0; i < 5; ++i) CHECK(std::isnan(values[i]));
    CHECK(std::vector(values.begin() + 5, values.begin() + 9) == std::vector<float>{1, 2, 3, 0});
    CHECK(std::isnan(values[9]));
    CHECK(std::vector(values.begin() + 10, values.end()) == std::vector<float>{1, 2, 3, 0, 5});
}

TEST_CASE("pairs are rounded and packed with the first in the low half", "[emulator]") {
    CHECK(pack(bf16{}, 1.0F, -2.0F) == 0xc0003f80U);
    CHECK(pack(fp16{}, 1.0F, -2.0F) == 0xc0003c00U);
    CHECK(pack(bf16{}, 1.00390625F, 1.01171875F) == 0x3f823f80U);  // ties round to even
}
