// SPDX-License-Identifier: Apache-2.0
// A group that has the size of another group, but only one member. Every operation is done at once
// and moves no data, so the memory of its result does not change. With such groups, a single
// rank runs the step of its place in a layout without the other ranks (train/step/trial_step.hpp).
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "comm/group.hpp"

namespace lm::comm {

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
