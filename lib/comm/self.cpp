// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "base/error.hpp"
#include "comm/group.hpp"

namespace lm::comm {
namespace {

class Self final : public Group {
  public:
    explicit Self(std::string name) : Group(std::move(name), 0, 1) {}

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
        return self(std::move(part_name));
    }

  private:
    std::string reason_;
};

}  // namespace

std::unique_ptr<Group> self(std::string name) {
    return std::make_unique<Self>(std::move(name));
}

}  // namespace lm::comm
