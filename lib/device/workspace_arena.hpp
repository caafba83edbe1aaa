// SPDX-License-Identifier: Apache-2.0
// Divides the workspace of an operation into parts. Kernel files (.cu) include this header.
#pragma once

#include "device/view.hpp"

namespace lm::device {

// Reserves consecutive parts of a workspace, each rounded up to `alignment` bytes. The formulas in
// cost/workspace.cpp compute the size of the workspace; if it is too small, a formula has a bug.
class WorkspaceArena {
  public:
    // workspace: [bytes] uint8, or an empty View, in which no part can be reserved
    WorkspaceArena(const View& workspace, i64 alignment)
        : next_(static_cast<std::byte*>(workspace.data)),
          left_(workspace ? workspace.bytes() : 0),
          alignment_(alignment) {}

    // Returns memory for `count` elements. Throws Error(bug) when fewer bytes are left.
    template <typename T>
    T* reserve(i64 count) {
        const i64 bytes = round_up(count * static_cast<i64>(sizeof(T)), alignment_);
        if (bytes > left_) throw_too_small(bytes, left_);
        T* const part = reinterpret_cast<T*>(next_);
        next_ += bytes;
        left_ -= bytes;
        return part;
    }
    // Returns the unreserved part: [bytes] uint8
    View rest() const { return {next_, DType::uint8, {left_}}; }

  private:
    [[noreturn]] static void throw_too_small(i64 needed, i64 left);

    std::byte* next_;
    i64 left_;
    i64 alignment_;
};

}  // namespace lm::device
