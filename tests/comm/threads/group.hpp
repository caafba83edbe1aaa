// SPDX-License-Identifier: Apache-2.0
// A group of rank threads: one member's view of a Hub.
#pragma once

#include <memory>
#include <string>

#include "comm/group.hpp"
#include "comm/pending_operations.hpp"
#include "comm/threads/hub.hpp"

namespace lm::comm {

class ThreadsGroup final : public Group {
  public:
    ThreadsGroup(std::shared_ptr<Hub> hub, int member)
        : Group(hub->name(), member, hub->size()), hub_(std::move(hub)) {}

    void abort(const std::string& reason) noexcept override;

  protected:
    i64 start(const Operation& operation) override;
    void wait(i64 handle) override;
    bool done(i64 handle) override;
    std::unique_ptr<Group> make_part(int color, int key, std::string name) override;

  private:
    struct Started {  // exactly one of the two is set
        Collective* collective = nullptr;
        Message* message = nullptr;
    };
    void finish(i64 handle, const Started& started);

    std::shared_ptr<Hub> hub_;
    PendingOperations<Started> pending_;
};

}  // namespace lm::comm
