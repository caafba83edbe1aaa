// SPDX-License-Identifier: Apache-2.0
#include "train/save/snapshot.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>

#include "base/error.hpp"
#include "base/threads.hpp"
#include "base/units.hpp"
#include "device/view.hpp"

namespace lm::train {
namespace {

constexpr i64 page = 4096;  // copies start at pages, so that direct I/O needs no further copy
constexpr i64 copied_at_once = i64{4} << 20;

i64 bytes_of(const ckpt::Piece& piece) {
    return std::max<i64>(0, piece.flat_end - piece.flat_begin) * size_of(piece.dtype);
}

i64 padded_bytes(const ckpt::Piece& piece) {
    return ceil_div(bytes_of(piece), page) * page;
}

// Orders pieces as their files are written: pieces of the optimizer state come first.
bool is_written_before(const ckpt::Piece* a, const ckpt::Piece* b) {
    const auto key = [](const ckpt::Piece* piece) {
        return std::tuple(piece->kind == ckpt::SliceKind::weight, piece->tensor, piece->kind);
    };
    return key(a) < key(b);
}

}  // namespace

HostBuffer::HostBuffer(i64 bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    const auto size = static_cast<size_t>(bytes);
    void* const mapped =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
        run_error("--async-save-buffer",
                  "cannot allocate {}: {}: give a smaller size, or --async-save off",
                  human_size(bytes), std::strerror(errno));
    }
    data_ = static_cast<std::byte*>(mapped);
    madvise(mapped, size, MADV_HUGEPAGE);
    std::memset(mapped, 0, size);
}

HostBuffer::~HostBuffer() {
    if (data_ != nullptr) munmap(data_, static_cast<size_t>(bytes_));
}

i64 snapshot_bytes(const std::vector<ckpt::Piece>& pieces) {
    i64 total = 0;
    for (const ckpt::Piece& piece : pieces) total += padded_bytes(piece);
    return total;
}

void Snapshot::take(std::vector<ckpt::Piece> pieces) {
    pieces_ = std::move(pieces);
    needs_this_thread_ = false;
    std::vector<ckpt::Piece*> chosen;
    for (ckpt::Piece& piece : pieces_) chosen.push_back(&piece);
    std::ranges::stable_sort(chosen, is_written_before);
    i64 excess = snapshot_bytes(pieces_) - buffer_.bytes();
    auto first = chosen.begin();
    for (; excess > 0 && first != chosen.end(); ++first) {
        excess -= padded_bytes(**first);
        leave(**first);
    }
    chosen.erase(chosen.begin(), first);
    copy(chosen);
}

void Snapshot::copy(const std::vector<ckpt::Piece*>& chosen) {
    struct Part {
        const std::byte* from;
        std::byte* to;
        i64 bytes;
    };
    std::vector<Part> parts;
    std::byte* to = buffer_.data();
    for (ckpt::Piece* piece : chosen) {
        const i64 bytes = bytes_of(*piece);
        if (piece->read) {
            if (bytes > 0) piece->read({to, static_cast<size_t>(bytes)}, 0);
        } else {
            const auto* const from = static_cast<const std::byte*>(piece->data);
            for (i64 at = 0; at < bytes; at += copied_at_once) {
                parts.push_back({from + at, to + at, std::min(copied_at_once, bytes - at)});
            }
        }
        piece->data = to;
        piece->read = nullptr;
        to += padded_bytes(*piece);
    }
    if (parts.empty()) return;
    ThreadPool pool(n_threads_);
    pool.run(std::ssize(parts), [&](i64 task, int) {
        const Part& part = parts[static_cast<size_t>(task)];
        std::memcpy(part.to, part.from, static_cast<size_t>(part.bytes));
    });
}

// Leaves the piece in its original place, without a copy. A piece in host memory gets a reader that
// counts the bytes that are still to be read. A second read of the same bytes is an error, because
// it could see the values of a later step.
void Snapshot::leave(ckpt::Piece& piece) {
    if (bytes_of(piece) <= 0) return;
    if (piece.read) {
        needs_this_thread_ = true;
        return;
    }
    const std::lock_guard lock(mutex_);
    unread_ += bytes_of(piece);
    const auto* const from = static_cast<const std::byte*>(piece.data);
    piece.read = [this, from](std::span<std::byte> to, i64 offset) {
        std::memcpy(to.data(), from + offset, to.size());
        was_read(std::ssize(to));
    };
}

void Snapshot::was_read(i64 bytes) {
    const std::lock_guard lock(mutex_);
    LM_CHECK(unread_ >= bytes, "a save: expected at most {} bytes to be read, got {}", unread_,
             bytes);
    unread_ -= bytes;
    if (unread_ == 0) changed_.notify_all();
}

void Snapshot::wait_for_originals() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return unread_ == 0; });
}

void Snapshot::release() {
    const std::lock_guard lock(mutex_);
    unread_ = 0;
    changed_.notify_all();
}

}  // namespace lm::train
