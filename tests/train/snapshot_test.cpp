// SPDX-License-Identifier: Apache-2.0
// The copy of a checkpoint's state that is written in the background.
#include "train/save/snapshot.hpp"

#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "support/catch.hpp"

using namespace lm;
using namespace lm::train;

namespace {

struct State {
    std::vector<float> weights = std::vector<float>(3000);
    std::vector<float> moments = std::vector<float>(5000);

    State() {
        std::iota(weights.begin(), weights.end(), 1.0F);
        std::iota(moments.begin(), moments.end(), -4000.0F);
    }
    static ckpt::Piece piece(ckpt::SliceKind kind, const std::vector<float>& data) {
        return {.tensor = 0,
                .kind = kind,
                .dtype = DType::fp32,
                .box = {},
                .flat_begin = 0,
                .flat_end = std::ssize(data),
                .data = data.data()};
    }
    std::vector<ckpt::Piece> pieces() const {
        return {piece(ckpt::SliceKind::weight, weights), piece(spec::exp_avg, moments)};
    }
};

// Returns the elements that a writer of the piece reads.
std::vector<float> read(const ckpt::Piece& piece) {
    std::vector<float> elements(static_cast<size_t>(piece.flat_end - piece.flat_begin));
    const auto bytes = std::as_writable_bytes(std::span(elements));
    if (!piece.read) {
        std::memcpy(bytes.data(), piece.data, bytes.size());
        return elements;
    }
    const size_t half = bytes.size() / 2;
    piece.read(bytes.first(half), 0);
    piece.read(bytes.subspan(half), static_cast<i64>(half));
    return elements;
}

}  // namespace

TEST_CASE("a snapshot keeps the state that later steps change") {
    State state;
    const State before;
    Snapshot snapshot(snapshot_bytes(state.pieces()), 2);
    snapshot.take(state.pieces());
    snapshot.wait_for_originals();
    std::ranges::fill(state.weights, 0.0F);
    std::ranges::fill(state.moments, 0.0F);
    CHECK(read(snapshot.pieces()[0]) == before.weights);
    CHECK(read(snapshot.pieces()[1]) == before.moments);
}

TEST_CASE("a snapshot with a small buffer waits until the rest was read") {
    State state;
    const State before;
    Snapshot snapshot(4096 * 4, 1);  // the weights only: optimizer state is written first
    snapshot.take(state.pieces());
    std::vector<float> moments;
    std::thread writer([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        moments = read(snapshot.pieces()[1]);
    });
    snapshot.wait_for_originals();
    std::ranges::fill(state.weights, 0.0F);
    std::ranges::fill(state.moments, 0.0F);
    writer.join();
    CHECK(moments == before.moments);
    CHECK(read(snapshot.pieces()[0]) == before.weights);
    // The bytes may belong to a later step now, so a read of this piece is an error.
    CHECK_THROWS_AS(read(snapshot.pieces()[1]), Error);
}

TEST_CASE("a writer that stops early ends the waiting") {
    State state;
    Snapshot snapshot(1, 1);
    snapshot.take(state.pieces());
    CHECK_FALSE(snapshot.needs_this_thread());
    snapshot.release();
    snapshot.wait_for_originals();
}

TEST_CASE("pieces of a device are copied by their reader, or written by the caller") {
    const State state;
    std::vector<ckpt::Piece> pieces = state.pieces();
    for (ckpt::Piece& piece : pieces) {
        const auto* const from = static_cast<const std::byte*>(piece.data);
        piece.read = [from](std::span<std::byte> to, i64 offset) {
            std::memcpy(to.data(), from + offset, to.size());
        };
        piece.data = nullptr;
    }
    Snapshot whole(snapshot_bytes(pieces), 1);
    whole.take(pieces);
    CHECK_FALSE(whole.needs_this_thread());
    CHECK(read(whole.pieces()[1]) == state.moments);
    Snapshot part(4096 * 4, 1);
    part.take(pieces);
    CHECK(part.needs_this_thread());
    CHECK(read(part.pieces()[1]) == state.moments);
}
