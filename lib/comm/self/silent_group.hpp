// SPDX-License-Identifier: Apache-2.0
// A group with one member that reports the size of another group. Every operation completes at once
// and moves no data, so the memory of its result keeps the old values. With such groups, one
// process runs the training step of one rank of a layout without the other ranks
// (train/step/trial_step.hpp).
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
