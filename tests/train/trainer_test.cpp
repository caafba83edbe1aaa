// SPDX-License-Identifier: Apache-2.0
// The learning rates and the weight decay that Trainer::update() takes for each step.
#include <cstring>

#include "cpu/cpu_device.hpp"
#include "golden.hpp"
#include "spec/learning_rate.hpp"
#include "support/catch.hpp"
#include "train/step/trainer.hpp"

using namespace lm;
using namespace lm::test;

namespace {

// A trainer after one step.
struct Step {
    Golden golden;
    std::unique_ptr<device::Device> device = cpu::make_device(1);
    std::unique_ptr<train::Trainer> trainer;

    Step(const std::string& name, const spec::UpdateRates& rates) : golden(name) {
        trainer = train::Trainer::allocate({.model = golden.config(),
                                            .micro_batch = golden.batch_size(),
                                            .adamw = {.weight_decay = 0.1},
                                            .n_threads = 1},
                                           *device);
        trainer->initialize();
        const data::Batch batch = golden.batch(0, 0, golden.batch_size());
        train::RepeatedBatch batches(batch);
        trainer->update(trainer->compute_gradients(batches, 1), rates);
    }
    bool equals(const Step& other, const spec::LocalTensor& tensor) const {
        const auto rows = [&](const Step& step) {
            return step.trainer->weights().rows(tensor.offset, tensor.end());
        };
        return std::memcmp(rows(*this).data, rows(other).data, rows(other).bytes()) == 0;
    }
};

}  // namespace

TEST_CASE("the word embedding and the output projection may have their own rate") {
    for (const char* name : {"gpt2_tiny", "llama_tiny"}) {
        CAPTURE(name);
        const Step plain(name, {.lr = 1e-3});
        const Step equal(name, {.lr = 1e-3, .decoupled_lr = 1e-3});
        const Step other(name, {.lr = 1e-3, .decoupled_lr = 2e-3});
        const Step all(name, {.lr = 2e-3});
        const model::ParamMap& params = plain.trainer->params();
        int n_decoupled = 0;
        for (const spec::LocalTensor& tensor : params.layout().tensors) {
            const bool decoupled = params.spec_of(tensor).vocab_rows;
            CAPTURE(params.spec_of(tensor).name);
            n_decoupled += decoupled;
            CHECK(equal.equals(plain, tensor));
            CHECK(other.equals(decoupled ? all : plain, tensor));
        }
        CHECK(n_decoupled == (plain.golden.config().untied_head ? 2 : 1));
    }
}

TEST_CASE("the weight decay of a step replaces the configured one") {
    const Step configured("gpt2_tiny", {.lr = 1e-3});
    const Step equal("gpt2_tiny", {.lr = 1e-3, .weight_decay = 0.1});
    const Step none("gpt2_tiny", {.lr = 1e-3, .weight_decay = 0.0});
    const model::ParamMap& params = none.trainer->params();
    for (const spec::LocalTensor& tensor : params.layout().tensors) {
        CAPTURE(params.spec_of(tensor).name);
        CHECK(equal.equals(configured, tensor));
        CHECK(none.equals(configured, tensor) != params.spec_of(tensor).weight_decay);
    }
}
