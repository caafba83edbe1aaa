// SPDX-License-Identifier: Apache-2.0
// Emulated GPU instructions: ldmatrix, mma.m16n8k16 and cp.async, with the fragment layouts of the
// PTX ISA.
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "block.hpp"
#include "cuda/kernels/mma.cuh"
#include "races.hpp"

namespace emulator {
namespace {

template <typename T>
T& lane_data(void* const (&lanes)[32], int lane) {
    return *static_cast<T*>(lanes[lane]);
}

uint16_t half_of(uint32_t word, int which) {
    return static_cast<uint16_t>(word >> (16 * which));
}

// Lane l gets elements (g, 2q) and (g, 2q+1) of each matrix; transposed: (2q, g) and (2q+1, g).
void load(void* const (&lanes)[32], bool transposed) {
    uint16_t elements[4][8][8];
    for (int i = 0; i < 32; ++i) {
        const auto& lane = lane_data<MatrixLoad>(lanes, i);
        if (reinterpret_cast<uintptr_t>(lane.row) % 16 != 0) {
            broken("ldmatrix: expected a row aligned to 16 bytes", *lane.where);
        }
        std::memcpy(elements[i / 8][i % 8], lane.row, 16);
    }
    for (int i = 0; i < 32; ++i) {
        const int g = i / 4;
        const int q = i % 4;
        for (int matrix = 0; matrix < 4; ++matrix) {
            const auto& m = elements[matrix];
            const uint32_t low = transposed ? m[2 * q][g] : m[g][2 * q];
            const uint32_t high = transposed ? m[2 * q + 1][g] : m[g][2 * q + 1];
            lane_data<MatrixLoad>(lanes, i).to[matrix] = low | high << 16;
        }
    }
}

// A pending asynchronous copy.
struct Copy {
    void* to;
    const void* from;
    int bytes;
    int size;
};
struct Copies {
    std::vector<Copy> open;                // not in a group yet
    std::deque<std::vector<Copy>> groups;  // oldest first
};

// The copies of each thread of the running block; empty when the block has started no copy.
std::vector<Copies>& all_copies() {
    static thread_local std::vector<Copies> copies;
    return copies;
}

Copies& my_copies() {
    std::vector<Copies>& all = all_copies();
    if (all.empty()) all.resize(size_t{blockDim.x} * blockDim.y * blockDim.z);
    return all[threadIdx.x + blockDim.x * (threadIdx.y + size_t{blockDim.y} * threadIdx.z)];
}

}  // namespace

void MatrixLoad::resolve(void* const (&lanes)[32]) {
    load(lanes, false);
}

void MatrixLoad::resolve_transposed(void* const (&lanes)[32]) {
    load(lanes, true);
}

void MatrixProduct::resolve(void* const (&lanes)[32]) {
    float a[16][16];
    float b[16][8];
    for (int i = 0; i < 32; ++i) {
        const auto& lane = lane_data<MatrixProduct>(lanes, i);
        const int g = i / 4;
        const int q = i % 4;
        for (int e = 0; e < 2; ++e) {
            for (int r = 0; r < 4; ++r) {
                a[g + r % 2 * 8][2 * q + r / 2 * 8 + e] = lane.value(half_of(lane.a[r], e));
            }
            for (int r = 0; r < 2; ++r) b[2 * q + 8 * r + e][g] = lane.value(half_of(lane.b[r], e));
        }
    }
    for (int i = 0; i < 32; ++i) {
        float* const d = lane_data<MatrixProduct>(lanes, i).d;
        for (int e = 0; e < 4; ++e) {
            const int row = i / 4 + e / 2 * 8;
            const int column = i % 4 * 2 + e % 2;
            for (int k = 0; k < 16; ++k) d[e] += a[row][k] * b[k][column];
        }
    }
}

void copy_async(void* to, const void* from, int bytes, int size, const Where& where) {
    if (bytes < 0 || bytes > size)
        broken("cp.async: expected at most as many source bytes as the copy has", where);
    if (reinterpret_cast<uintptr_t>(to) % static_cast<size_t>(size) != 0 ||
        (bytes > 0 && reinterpret_cast<uintptr_t>(from) % static_cast<size_t>(size) != 0)) {
        broken("cp.async: misaligned address", where);
    }
    races::writes(to, size);
    if (bytes == size) races::reads(from, size);
    std::memset(to, 0xff, static_cast<size_t>(size));
    my_copies().open.push_back({to, from, bytes, size});
}

void commit_copies() {
    Copies& copies = my_copies();
    copies.groups.push_back(std::move(copies.open));
    copies.open.clear();
}

void wait_for_copies(int pending) {
    auto& groups = my_copies().groups;
    for (; groups.size() > static_cast<size_t>(pending); groups.pop_front()) {
        for (const Copy& copy : groups.front()) {
            races::writes(copy.to, copy.size);
            std::memset(copy.to, 0, static_cast<size_t>(copy.size));
            if (copy.bytes > 0) std::memcpy(copy.to, copy.from, static_cast<size_t>(copy.bytes));
        }
    }
}

std::string unfinished_copies() {
    bool unfinished = false;
    for (const Copies& copies : all_copies()) {
        unfinished = unfinished || !copies.open.empty();
        for (const auto& group : copies.groups) unfinished = unfinished || !group.empty();
    }
    all_copies().clear();
    return unfinished ? "a thread returns from its kernel with pending asynchronous copies" : "";
}

}  // namespace emulator
