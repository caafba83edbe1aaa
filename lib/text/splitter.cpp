// SPDX-License-Identifier: Apache-2.0
#include "text/splitter.hpp"

#include "base/error.hpp"
#include "text/split_gpt2.hpp"
#include "text/split_gpt2_avx2.hpp"

namespace lm::text {
namespace {

class WholeSplitter : public Splitter {
  public:
    void start(std::string_view text) override { left_ = static_cast<u32>(text.size()); }
    i64 next(u32* ends, i64) override {
        if (left_ == 0) return 0;
        ends[0] = left_;
        left_ = 0;
        return 1;
    }

  private:
    u32 left_ = 0;
};

}  // namespace

std::unique_ptr<Splitter> make_scalar_splitter(SplitRule rule) {
    switch (rule) {
        case SplitRule::none:
            return std::make_unique<WholeSplitter>();
        case SplitRule::gpt2:
            return std::make_unique<Gpt2Splitter>();
    }
    bug(__FILE__, __LINE__, "unknown split rule");
}

std::unique_ptr<Splitter> make_splitter(SplitRule rule) {
    if (rule == SplitRule::gpt2 && has_vector_splitter()) return make_vector_gpt2_splitter();
    return make_scalar_splitter(rule);
}

}  // namespace lm::text
