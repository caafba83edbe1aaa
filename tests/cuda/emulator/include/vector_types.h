// SPDX-License-Identifier: Apache-2.0
// The emulator's built-in vector types.
#pragma once

#define EMULATOR_VECTORS(T, name, size2, size4)         \
    struct name##2 {                                    \
        T x, y;                                         \
    }                                                   \
    __attribute__((aligned(size2)));                    \
    struct name##3 {                                    \
        T x, y, z;                                      \
    };                                                  \
    struct name##4 {                                    \
        T x, y, z, w;                                   \
    }                                                   \
    __attribute__((aligned(size4)));                    \
    inline name##2 make_##name##2(T x, T y) {           \
        return {x, y};                                  \
    }                                                   \
    inline name##3 make_##name##3(T x, T y, T z) {      \
        return {x, y, z};                               \
    }                                                   \
    inline name##4 make_##name##4(T x, T y, T z, T w) { \
        return {x, y, z, w};                            \
    }
EMULATOR_VECTORS(int, int, 8, 16)
EMULATOR_VECTORS(unsigned, uint, 8, 16)
EMULATOR_VECTORS(float, float, 8, 16)
EMULATOR_VECTORS(unsigned short, ushort, 4, 8)
EMULATOR_VECTORS(double, double, 16, 16)
#undef EMULATOR_VECTORS

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
