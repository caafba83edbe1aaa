// SPDX-License-Identifier: Apache-2.0
// The device functions of emulated kernels: qualifiers, indices, barriers, warp functions and
// arithmetic. Barriers and warp functions detect threads that do not arrive
// (tests/cuda/emulator/block.hpp).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <source_location>

#include "vector_types.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
// One block runs at a time on a host thread.
#define __shared__ static thread_local
#define __constant__ static

extern __thread uint3 threadIdx;
extern __thread uint3 blockIdx;
extern __thread uint3 blockDim;
extern __thread uint3 gridDim;
constexpr int warpSize = 32;

namespace emulator {

#ifdef __cpp_lib_source_location
using Where = std::source_location;
#else
// clang 14 lacks the builtin of std::source_location, so libstdc++ does not define it there.
class Where {
  public:
    static constexpr Where current(const char* file = __builtin_FILE(),
                                   const char* function = __builtin_FUNCTION(),
                                   unsigned line = __builtin_LINE()) {
        Where here;
        here.file_ = file;
        here.function_ = function;
        here.line_ = line;
        return here;
    }
    constexpr const char* file_name() const { return file_; }
    constexpr const char* function_name() const { return function_; }
    constexpr unsigned line() const { return line_; }

  private:
    const char* file_ = "";
    const char* function_ = "";
    unsigned line_ = 0;
};
#endif

void block_barrier(const Where& where);

// A warp function. Every lane of `mask` passes its data. When the last lane has arrived, `resolve`
// is called with the data of all lanes (nullptr for a lane that is not in the mask) and writes the
// results. All lanes must pass the same function and mask.
using Resolve = void (*)(void* const (&lanes)[32]);
void warp_collective(Resolve resolve, unsigned mask, void* data, const Where& where);
void warp_barrier(unsigned mask, const Where& where);
int lane();
// Ends the launch with an error.
[[noreturn]] void broken(const char* what, const Where& where);

template <typename T>
struct Shuffle {
    T value;
    int from;
    const Where* where;
    // Reads and writes the stacks of other lanes. These are not accesses of the kernel (races.hpp).
    __attribute__((no_sanitize("thread"))) static void resolve(void* const (&lanes)[32]) {
        T values[32];
        for (int i = 0; i < 32; ++i) {
            if (!lanes[i]) continue;
            const auto& lane = *static_cast<Shuffle*>(lanes[i]);
            if (!lanes[lane.from]) {
                broken("a shuffle takes from a lane that is not in its mask", *lane.where);
            }
            values[i] = static_cast<Shuffle*>(lanes[lane.from])->value;
        }
        for (int i = 0; i < 32; ++i) {
            if (lanes[i]) static_cast<Shuffle*>(lanes[i])->value = values[i];
        }
    }
};

template <typename T>
T shuffle(unsigned mask, T value, int from, const Where& where) {
    Shuffle<T> data{value, from, &where};
    warp_collective(Shuffle<T>::resolve, mask, &data, where);
    return data.value;
}

struct Vote {
    bool predicate;
    unsigned ballot;
    static void resolve(void* const (&lanes)[32]);
};
unsigned ballot(unsigned mask, bool predicate, const Where& where);

struct Match {
    uint64_t value;
    unsigned equal;
    static void resolve(void* const (&lanes)[32]);
};

template <typename To, typename From>
To bits_as(From from) {
    return std::bit_cast<To>(from);
}

}  // namespace emulator

// ---- Barriers and warps ------------------------------------------------------------------------

inline void __syncthreads(const emulator::Where& where = emulator::Where::current()) {
    emulator::block_barrier(where);
}
inline void __syncwarp(unsigned mask = 0xffffffffU,
                       const emulator::Where& where = emulator::Where::current()) {
    emulator::warp_barrier(mask, where);
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              const emulator::Where& where = emulator::Where::current()) {
    return emulator::ballot(mask, predicate != 0, where);
}
inline int __any_sync(unsigned mask, int predicate,
                      const emulator::Where& where = emulator::Where::current()) {
    return emulator::ballot(mask, predicate != 0, where) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      const emulator::Where& where = emulator::Where::current()) {
    return emulator::ballot(mask, predicate != 0, where) == mask;
}
// Returns the lanes whose value has the same bits.
template <typename T>
unsigned __match_any_sync(unsigned mask, T value,
                          const emulator::Where& where = emulator::Where::current()) {
    static_assert(sizeof(T) <= 8);
    emulator::Match match{0, 0};
    std::memcpy(&match.value, &value, sizeof value);
    emulator::warp_collective(emulator::Match::resolve, mask, &match, where);
    return match.equal;
}
template <typename T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32,
              const emulator::Where& where = emulator::Where::current()) {
    const int source = (emulator::lane() & ~(width - 1)) | (from & (width - 1));
    return emulator::shuffle(mask, value, source, where);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  const emulator::Where& where = emulator::Where::current()) {
    const int lane = emulator::lane();
    const int source = lane ^ lane_mask;
    return emulator::shuffle(mask, value, source > (lane | (width - 1)) ? lane : source, where);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 const emulator::Where& where = emulator::Where::current()) {
    const int lane = emulator::lane();
    const int source = lane - static_cast<int>(delta);
    return emulator::shuffle(mask, value, source < (lane & ~(width - 1)) ? lane : source, where);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   const emulator::Where& where = emulator::Where::current()) {
    const int lane = emulator::lane();
    const int source = lane + static_cast<int>(delta);
    return emulator::shuffle(mask, value, source > (lane | (width - 1)) ? lane : source, where);
}

// ---- Arithmetic and memory ---------------------------------------------------------------------

inline void __threadfence() {}
inline void __threadfence_block() {}
template <typename T>
T __ldg(const T* from) {
    return *from;
}
template <typename T>
T __ldcs(const T* from) {
    return *from;
}
template <typename T>
void __stcs(T* to, T value) {
    *to = value;
}
// For integers only, because sums of floats depend on the order.
template <typename T>
T atomicAdd(T* target, T value) {
    static_assert(std::is_integral_v<T>, "results must not depend on the order of threads");
    return __atomic_fetch_add(target, value, __ATOMIC_RELAXED);
}

inline float rsqrtf(float x) {
    return 1.0F / std::sqrt(x);
}
inline float __expf(float x) {
    return std::exp(x);
}
inline float __logf(float x) {
    return std::log(x);
}
inline float __fdividef(float x, float y) {
    return x / y;
}
inline float __frcp_rn(float x) {
    return 1.0F / x;
}
inline float __fmaf_rn(float x, float y, float z) {
    return std::fma(x, y, z);
}
inline float __fadd_rn(float x, float y) {
    return x + y;
}
inline float __fmul_rn(float x, float y) {
    return x * y;
}
inline float __int_as_float(int x) {
    return emulator::bits_as<float>(x);
}
inline int __float_as_int(float x) {
    return emulator::bits_as<int>(x);
}
inline float __uint_as_float(unsigned x) {
    return emulator::bits_as<float>(x);
}
inline unsigned __float_as_uint(float x) {
    return emulator::bits_as<unsigned>(x);
}
inline double __longlong_as_double(long long x) {
    return emulator::bits_as<double>(x);
}
inline long long __double_as_longlong(double x) {
    return emulator::bits_as<long long>(x);
}
inline unsigned __umulhi(unsigned x, unsigned y) {
    return static_cast<unsigned>((static_cast<uint64_t>(x) * y) >> 32);
}
inline int __popc(unsigned x) {
    return std::popcount(x);
}
inline int __ffs(int x) {
    return ffs(x);
}
inline int __clz(int x) {
    return std::countl_zero(static_cast<unsigned>(x));
}
template <typename T>
constexpr const T& min(const T& a, const T& b) {
    return b < a ? b : a;
}
template <typename T>
constexpr const T& max(const T& a, const T& b) {
    return a < b ? b : a;
}
