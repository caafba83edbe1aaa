// SPDX-License-Identifier: Apache-2.0
// A group for tests that runs operations on host memory by another group on device memory: the
// views of an operation are copied to the device, and back when it is done. So one suite tests
// groups on host memory and groups on device memory.
#pragma once

#include "comm/group.hpp"
#include "comm/pending_operations.hpp"
#include "device/device.hpp"

namespace lm::test {

class OnDevice final : public comm::Group {
  public:
    OnDevice(std::unique_ptr<comm::Group> group, device::Device& device);

    void abort(const std::string& reason) noexcept override { group_->abort(reason); }

  protected:
    i64 start(const comm::Operation& operation) override;
    void wait(i64 handle) override;
    bool done(i64 handle) override;
    std::unique_ptr<comm::Group> make_part(int color, int key, std::string name) override;

  private:
    struct Started {
        comm::Work work;
        comm::Operation operation;
        device::Buffer memory;
        device::View result;  // on the device
    };
    void finish(i64 handle, Started& started);

    std::unique_ptr<comm::Group> group_;
    device::Device& device_;
    comm::PendingOperations<Started> pending_;
};

}  // namespace lm::test
