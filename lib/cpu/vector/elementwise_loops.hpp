// SPDX-License-Identifier: Apache-2.0
// Elementwise loops: scaling, sums, rotations, the optimizer, dropout. Part of all_loops.hpp.
#pragma once

namespace lm::cpu {
namespace {

void scale(float* x, float factor, i64 n) {
    for_vectors(n,
                [&](i64 i, i64 lanes) LM_BODY { put(x + i, get(x + i, lanes) * factor, lanes); });
}

void multiply(float* x, const float* factors, i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes)
                       LM_BODY { put(x + i, get(x + i, lanes) * get(factors + i, lanes), lanes); });
}

void add(float* x, const float* y, i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes)
                       LM_BODY { put(x + i, get(x + i, lanes) + get(y + i, lanes), lanes); });
}

void scaled_copy(float* y, const float* x, float factor, i64 n) {
    for_vectors(n,
                [&](i64 i, i64 lanes) LM_BODY { put(y + i, get(x + i, lanes) * factor, lanes); });
}

// Four independent sums hide the latency of the additions; their order is fixed.
double dot(const float* x, const float* y, i64 n) {
    constexpr i64 half = width / 2;
    HalfDoubleVec sum0{};
    HalfDoubleVec sum1{};
    HalfDoubleVec sum2{};
    HalfDoubleVec sum3{};
    i64 i = 0;
    for (; i + 4 * half <= n; i += 4 * half) {
        sum0 += load_double(x + i) * load_double(y + i);
        sum1 += load_double(x + i + half) * load_double(y + i + half);
        sum2 += load_double(x + i + 2 * half) * load_double(y + i + 2 * half);
        sum3 += load_double(x + i + 3 * half) * load_double(y + i + 3 * half);
    }
    double sum = horizontal_sum((sum0 + sum1) + (sum2 + sum3));
    for (; i < n; ++i) sum += static_cast<double>(x[i]) * y[i];
    return sum;
}

void rotate(float* a, float* b, const float* cosines, const float* sines, float sign, i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const Vec x = get(a + i, lanes);
        const Vec y = get(b + i, lanes);
        const Vec cosine = get(cosines + i, lanes);
        const Vec sine = get(sines + i, lanes) * sign;
        put(a + i, x * cosine - y * sine, lanes);
        put(b + i, y * cosine + x * sine, lanes);
    });
}

// `step` has the factors (device/adamw_step.hpp). The operations and their order define the bits of
// the result.
void adamw(const AdamWStep& step, float* master, float* weight, const float* grad, float* m,
           float* v, i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const Vec g = get(grad + i, lanes) * step.grad_scale;
        const Vec first = step.beta1 * get(m + i, lanes) + step.one_minus_beta1 * g;
        const Vec second = step.beta2 * get(v + i, lanes) + step.one_minus_beta2 * (g * g);
        const Vec p = get(master + i, lanes);
        const Vec direction =
            first * step.correct1 / (square_root(second * step.correct2) + step.eps);
        const Vec updated = p - step.lr * (direction + step.weight_decay * p);
        put(m + i, first, lanes);
        put(v + i, second, lanes);
        put(master + i, updated, lanes);
        if (weight) put(weight + i, updated, lanes);
    });
}

// Computes blocks first .. first + n - 1 of Philox4x32-10 (Salmon et al. 2011) as 16-bit numbers in
// element order. Each 64-bit lane computes one block. Between rounds the high halves of the lanes
// contain unused bits, which multiply_words ignores.
void philox_numbers(u64 key, u64 sample, u64 first, i64 n, u16* numbers) {
    constexpr i64 lanes = width / 2;
    for (i64 block = 0; block < n; block += lanes) {
        WordVec counter;
        for (i64 i = 0; i < lanes; ++i) counter[i] = first + static_cast<u64>(block + i);
        WordVec c0 = counter;
        WordVec c1 = counter >> 32;
        WordVec c2 = word(sample & 0xffffffffU);
        WordVec c3 = word(sample >> 32);
        u32 k0 = static_cast<u32>(key);
        u32 k1 = static_cast<u32>(key >> 32);
        for (int round = 0; round < 10; ++round) {
            const WordVec p0 = multiply_words(c0, word(0xD2511F53U));
            const WordVec p1 = multiply_words(c2, word(0xCD9E8D57U));
            c0 = (p1 >> 32) ^ c1 ^ word(k0);
            c1 = p1;
            c2 = (p0 >> 32) ^ c3 ^ word(k1);
            c3 = p0;
            k0 += 0x9E3779B9U;
            k1 += 0xBB67AE85U;
        }
        const WordVec low = (c0 & 0xffffffffU) | (c1 << 32);
        const WordVec high = (c2 & 0xffffffffU) | (c3 << 32);
        for (i64 i = 0; i < lanes; ++i) {
            const u64 pair[2] = {low[i], high[i]};
            __builtin_memcpy(numbers + (block + i) * 8, pair, sizeof pair);
        }
    }
}

// Computes the factors of elements [first, first + n). Philox gives blocks of 8 numbers, so the
// numbers before `first` in its block are computed but not used.
void dropout_factors(u64 key, u64 sample, u64 first, u32 threshold, float scale, float* factors,
                     i64 n) {
    constexpr i64 blocks_at_once = 64;
    u16 numbers[(blocks_at_once + width) * 8];
    while (n > 0) {
        const auto skip = static_cast<i64>(first % 8);
        const i64 most = blocks_at_once * 8 - skip;
        const i64 count = n < most ? n : most;
        philox_numbers(key, sample, first / 8, ceil_div(skip + count, 8), numbers);
        for (i64 i = 0; i < count; ++i) factors[i] = numbers[skip + i] >= threshold ? scale : 0.0F;
        factors += count;
        first += static_cast<u64>(count);
        n -= count;
    }
}

}  // namespace
}  // namespace lm::cpu
