// SPDX-License-Identifier: Apache-2.0
// The group of a single rank. A collective copies its input to its output; an in-place collective
// does nothing. With this group, callers need no special case for a parallel size of 1.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "comm/group.hpp"

namespace lm::comm {

class SelfGroup final : public Group {
  public:
    explicit SelfGroup(std::string name) : Group(std::move(name), 0, 1) {}

    void abort(const std::string& reason) noexcept override {
        if (reason_.empty()) reason_ = reason;
    }

  protected:
    i64 start(const Operation& operation) override {
        if (!reason_.empty()) run_error("group '" + name() + "'", "aborted: {}", reason_);
        if (operation.in != operation.out && operation.bytes() > 0) {
            std::memcpy(operation.out, operation.in, static_cast<size_t>(operation.bytes()));
        }
        return 0;
    }
    void wait(i64) override {}
    bool done(i64) override { return true; }
    std::unique_ptr<Group> make_part(int, int, std::string part_name) override {
        return std::make_unique<SelfGroup>(std::move(part_name));
    }

  private:
    std::string reason_;  // argument of abort(); empty: abort() was not called
};

// Returns a group of this rank alone. Not collective.
inline std::unique_ptr<Group> self(std::string name) {
    return std::make_unique<SelfGroup>(std::move(name));
}

// A group with one member that reports the size of another group. Every operation completes at once
// and moves no data, so the memory of its result keeps the old values. With such groups, one
// process runs the training step of one rank of a layout without the other ranks
// (train/start/run.cpp).
class SilentGroup final : public Group {
  public:
    SilentGroup(std::string name, int rank, int size) : Group(std::move(name), rank, size) {}
    void abort(const std::string&) noexcept override {}

  protected:
    i64 start(const Operation&) override { return 0; }
    void wait(i64) override {}
    bool done(i64) override { return true; }
    std::unique_ptr<Group> make_part(int, int, std::string part_name) override {
        return std::make_unique<SilentGroup>(std::move(part_name), rank(), size());
    }
};

}  // namespace lm::comm
