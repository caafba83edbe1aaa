// SPDX-License-Identifier: Apache-2.0
// A group of ranks whose operations are frames that pass through the hub on rank 0
// (comm/tcp/hub.hpp).
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "comm/group.hpp"
#include "comm/pending_operations.hpp"
#include "comm/tcp/frame.hpp"
#include "comm/tcp/world.hpp"

namespace lm::comm {

class TcpGroup final : public Group {
  public:
    TcpGroup(TcpWorld& world, u64 id, int rank, int size, std::string name);
    ~TcpGroup() override;

    void abort(const std::string& reason) noexcept override { world_.abort(Exit::failure, reason); }
    bool relays_messages() const override { return true; }
    i64 next_collective_number() override { return n_started_.fetch_add(1); }
    std::string timeout_message(const Operation& operation, i64 number, double waited_s) override;

  protected:
    i64 start(const Operation& operation) override;
    void wait(i64 handle) override;
    bool done(i64 handle) override;
    std::unique_ptr<Group> make_part(int color, int key, std::string name) override;

  private:
    struct Started {
        Operation operation;
        TcpWorld::Key key;
    };
    Frame frame_of(const Operation& operation, i64 number) const;
    FrameBytes wait_for(const Started& started);

    TcpWorld& world_;
    u64 id_;                                  // the hub's number of this group
    std::atomic<i64> n_started_{0};           // collectives; the answering thread reads it
    std::map<int, i64> n_sent_, n_received_;  // numbers of messages, by member
    PendingOperations<Started> pending_;
};

}  // namespace lm::comm
