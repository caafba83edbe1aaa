// SPDX-License-Identifier: Apache-2.0
// A training step allocates no memory in lm-utils code. Counts operator new in the whole process,
// except calls from oneDNN, which allocates inside its GEMMs. Skipped under sanitizers, which
// replace operator new themselves.
#if !defined(LM_SANITIZED)
#include <dlfcn.h>
#include <execinfo.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "comm/threads/run_ranks.hpp"
#include "cpu/cpu_device.hpp"
#include "golden.hpp"
#include "support/catch.hpp"
#include "support/training_step.hpp"

namespace {

std::atomic<bool> counting{false};
std::atomic<lm::i64> n_allocations{0};

bool inside_onednn() {
    std::array<void*, 24> frames{};
    const int depth = backtrace(frames.data(), static_cast<int>(frames.size()));
    for (int i = 0; i < depth; ++i) {
        Dl_info where{};
        if (dladdr(frames[static_cast<size_t>(i)], &where) && where.dli_fname &&
            std::strstr(where.dli_fname, "libdnnl")) {
            return true;
        }
    }
    return false;
}

void* allocate(std::size_t size, std::size_t alignment) {
    if (counting && !inside_onednn()) ++n_allocations;
    if (void* memory = std::aligned_alloc(alignment, (size + alignment) / alignment * alignment)) {
        return memory;
    }
    throw std::bad_alloc();
}

}  // namespace

// new and delete are a pair here: both are replaced, over aligned_alloc and free.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

void* operator new(std::size_t size) {
    return allocate(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
    return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
    std::free(memory);
}

using namespace lm;

TEST_CASE("no step after the first allocates memory in lm-utils code") {
    test::Golden golden("gpt2_tiny");
    spec::ModelConfig model = golden.config();
    model.attention_dropout = 0.1;
    model.hidden_dropout = 0.1;
    const auto device = cpu::make_device(2);
    const auto trainer =
        train::Trainer::allocate({.model = model, .micro_batch = 2, .n_threads = 2}, *device);
    trainer->initialize();
    const data::Batch batch = golden.batch(0, 0, 2);
    train::RepeatedBatch batches(batch);
    const auto step = [&] { test::make_step(*trainer, batches, 2, 1e-3); };
    step();
    inside_onednn();  // backtrace() allocates at its first use
    counting = true;
    for (int i = 0; i < 3; ++i) step();
    counting = false;
    CHECK(n_allocations == 0);
    // The counter itself works.
    counting = true;
    ::operator delete(::operator new(8));
    counting = false;
    CHECK(n_allocations > 0);
}

TEST_CASE("no step of several ranks allocates memory in lm-utils code") {
    test::Golden golden("gpt2_tiny");
    const data::Batch batch = golden.batch(0, 0, 2);
    const auto allocated = [&](const spec::ParallelConfig& parallel) {
        const train::TrainerConfig config{
            .model = golden.config(),
            .parallel = parallel,
            .data_parallel = {.overlap_grad_reduce = true, .overlap_param_gather = true},
            .micro_batch = 2,
            .n_micro_batches = 2,
            .n_threads = 1};
        comm::run_ranks(4, [&](comm::Group& world) {
            const auto device = cpu::make_device(1);
            const auto trainer =
                train::Trainer::allocate(config, *device, parallel::make_grid(world, parallel));
            trainer->initialize();
            train::RepeatedBatch batches(batch);
            const auto steps = [&](int n) {
                for (int i = 0; i < n; ++i) test::make_step(*trainer, batches, 2, 1e-3);
                world.barrier();
            };
            inside_onednn();
            steps(2);
            if (world.rank() == 0) {
                n_allocations = 0;
                counting = true;
            }
            world.barrier();
            steps(3);
            counting = false;
            world.barrier();
        });
        return n_allocations.load();
    };
    CHECK(allocated({.tp = 2, .dp = 2, .zero_stage = 1}) == 0);
    CHECK(allocated({.tp = 2, .pp = 2, .sequence_parallel = true}) == 0);
    CHECK(allocated({.pp = 2, .dp = 2}) == 0);
}
#endif
