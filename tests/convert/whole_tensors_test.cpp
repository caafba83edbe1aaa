// SPDX-License-Identifier: Apache-2.0
#include "convert/whole_tensors.hpp"

#include <atomic>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/catch.hpp"

using namespace lm;
using convert::WholeTensors;

namespace {

// Runs `body` on four threads.
template <typename Body>
void on_threads(const Body& body) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back(body);
    for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("threads load a tensor together, each part once") {
    WholeTensors whole;
    const auto key = std::make_shared<int>(1);
    std::atomic<i64> n_filled{0};
    std::atomic<int> n_correct{0};
    on_threads([&] {
        const auto bytes = whole.get(key, 1003, 10, [&](i64 begin, std::span<std::byte> part) {
            n_filled += std::ssize(part);
            std::memset(part.data(), static_cast<int>(begin / 10), part.size());
        });
        bool correct = true;
        for (i64 i = 0; i < 1003; ++i) correct &= bytes.get()[i] == std::byte(i / 10);
        n_correct += correct;
    });
    CHECK(n_filled == 1003);
    CHECK(n_correct == 4);
}

TEST_CASE("an error while a tensor is loaded ends all threads that wait for it") {
    WholeTensors whole;
    const auto key = std::make_shared<int>(1);
    std::atomic<int> n_errors{0};
    on_threads([&] {
        try {
            whole.get(key, 1000, 10, [&](i64 begin, std::span<std::byte>) {
                if (begin == 500) throw std::runtime_error("unreadable");
            });
        } catch (const std::runtime_error&) {
            ++n_errors;
        }
    });
    CHECK(n_errors == 4);
}
