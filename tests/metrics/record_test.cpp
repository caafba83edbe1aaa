// SPDX-License-Identifier: Apache-2.0
#include "metrics/record.hpp"

#include <cmath>
#include <cstdlib>
#include <limits>

#include "metrics/interval.hpp"
#include "support/catch.hpp"

using lm::metrics::Interval;
using lm::metrics::IterationRecord;
using lm::metrics::LocalSaveRecord;
using lm::metrics::StepRecord;
using lm::metrics::ValidationRecord;

namespace {

// Iteration 12695 of the 176B run, as its chronicle prints it.
StepRecord bloom() {
    StepRecord r;
    r.iteration = 12695;
    r.total_iterations = 115311;
    r.consumed_samples = 9841584;
    r.consumed_tokens = 20155564032;
    r.step_s = 105.22;
    r.learning_rate = 5.9689e-05;
    r.global_batch = 2048;
    r.loss = 2.463556;
    r.grad_norm = 0.174;
    r.num_zeros = 0.0;
    r.samples_per_s = 19.463;
    r.tokens_per_s = 39860.2;
    r.flops_per_s = 149.02e12;
    return r;
}

}  // namespace

TEST_CASE("the log line has the form of the 176B run, and tokens per second") {
    CHECK(log_line(bloom()) ==
          " iteration    12695/  115311 | consumed samples:      9841584 | consumed tokens:  "
          "20155564032 | elapsed time per iteration (s): 105.22 | learning rate: 5.969E-05 | "
          "global batch size:  2048 | lm loss: 2.463556E+00 | grad norm: 0.174 | num zeros: 0.0 | "
          "number of skipped iterations:   0 | number of nan iterations:   0 | samples per second: "
          "19.463 | TFLOPs: 149.02 | tokens per second: 39860.2 |");
}

TEST_CASE("optional fields are in the order of Megatron") {
    StepRecord r = bloom();
    r.loss_scale = 1.0;
    r.params_norm = 1.0;
    r.seq_length = 2048;
    r.mfu = 0.48;
    CHECK(log_line(r) ==
          " iteration    12695/  115311 | consumed samples:      9841584 | consumed tokens:  "
          "20155564032 | elapsed time per iteration (s): 105.22 | learning rate: 5.969E-05 | "
          "global batch size:  2048 | lm loss: 2.463556E+00 | loss scale: 1.0 | grad norm: 0.174 | "
          "num zeros: 0.0 | params norm: 1.000 | curriculum seqlen:  2048 | number of skipped "
          "iterations:   0 | number of nan iterations:   0 | samples per second: 19.463 | TFLOPs: "
          "149.02 | MFU: 0.48 | tokens per second: 39860.2 |");
}

// The line as megatron/training/training.py of core 0.16 prints it.
TEST_CASE("the log line of Megatron-LM") {
    setenv("TZ", "UTC", 1);
    StepRecord r = bloom();
    r.unix_time_s = 1'763'900'000.125;
    r.num_zeros.reset();
    CHECK(megatron_lm_line(r, false) ==
          " [2025-11-23 12:13:20.125000] iteration    12695/  115311 | consumed samples:      "
          "9841584 | elapsed time per iteration (ms): 105220.0 | learning rate: 5.968900E-05 | "
          "global batch size:  2048 | lm loss: 2.463556E+00 | loss scale: 1.0 | grad norm: 0.174 | "
          "number of skipped iterations:   0 | number of nan iterations:   0 |");
    r.params_norm = 1.0;
    CHECK(megatron_lm_line(r, true).find(
              "(ms): 105220.0 | throughput per GPU (TFLOP/s/GPU): 149.0 | learning rate") !=
          std::string::npos);
    CHECK(megatron_lm_line(r, true).find("grad norm: 0.174 | params norm: 1.000 | number of") !=
          std::string::npos);
}

TEST_CASE("a skipped first iteration has no loss and no gradient norm") {
    StepRecord r;
    r.iteration = 1;
    r.total_iterations = 508626;
    r.consumed_samples = 288;
    r.consumed_tokens = 288 * 2048;
    r.step_s = 255.94;
    r.global_batch = 288;
    r.loss_scale = 4294967296.0;
    r.skipped_iterations = 1;
    CHECK(log_line(r) ==
          " iteration        1/  508626 | consumed samples:          288 | consumed tokens:       "
          "589824 | elapsed time per iteration (s): 255.94 | learning rate: 0.000E+00 | global "
          "batch size:   288 | loss scale: 4294967296.0 | number of skipped iterations:   1 | "
          "number of nan iterations:   0 | samples per second: 0.000 | TFLOPs: 0.00 | tokens per "
          "second: 0.0 |");
}

TEST_CASE("the validation block") {
    ValidationRecord r;
    r.when = "iteration 168000";
    r.loss = 2.342049;
    const std::string text =
        " validation loss at iteration 168000 | lm loss value: 2.342049E+00 | lm loss PPL: "
        "1.040253E+01 | ";
    CHECK(validation_line(r) == text);
    const std::string dashes(text.size() + 1, '-');
    CHECK(validation_block(r) == dashes + "\n" + text + "\n" + dashes);
    r.name = "valid";
    r.when = "iteration 45000";
    r.loss = 2.327091;
    CHECK(validation_line(r) ==
          " valid loss at iteration 45000 | lm loss value: 2.327091E+00 | lm loss PPL: "
          "1.024809E+01 | ");
    CHECK(lm::metrics::perplexity(25) == std::exp(20.0));
}

TEST_CASE("JSON has base units and omits fields that do not apply") {
    StepRecord r = bloom();
    r.unix_time_s = 1700000000.5;
    r.tokens_per_s = 39860.5;
    CHECK(to_json(r) ==
          R"({"kind":"step","time":1700000000.5,"iteration":12695,"total_iterations":115311,)"
          R"("consumed_samples":9841584,"consumed_tokens":20155564032,"step_s":105.22,)"
          R"("learning_rate":5.9689e-05,"global_batch_size":2048,"lm_loss":2.463556,)"
          R"("grad_norm":0.174,"num_zeros":0.0,"skipped_iterations":0,"nan_iterations":0,)"
          R"("samples_per_s":19.463,"tokens_per_s":39860.5,"flops_per_s":149020000000000.0})");
    ValidationRecord v;
    v.iteration = 10;
    v.loss = std::numeric_limits<double>::quiet_NaN();
    CHECK(to_json(v).find(R"("lm_loss":null)") != std::string::npos);
    CHECK(to_json(LocalSaveRecord{20, 4, 0.5, 1700000000.5}) ==
          R"({"kind":"local_save","time":1700000000.5,"iteration":20,"hosts":4,"elapsed_s":0.5})");
}

TEST_CASE("an interval averages the loss over iterations with a step and times all iterations") {
    Interval interval;
    CHECK(interval.empty());
    IterationRecord a;
    a.loss = 3.0;
    a.samples = 8;
    a.tokens = 80;
    a.elapsed_s = 1.0;
    a.flops = 4e9;
    a.model_flops = 3e9;
    IterationRecord b = a;
    b.loss = 5.0;
    b.elapsed_s = 3.0;
    IterationRecord skipped = a;
    skipped.loss = std::numeric_limits<double>::infinity();
    skipped.stepped = false;
    skipped.finite = false;
    interval.add(a);
    interval.add(b);
    interval.add(skipped);
    StepRecord r;
    interval.finish(r, 6e9);
    CHECK(r.loss == 4.0);
    CHECK(r.step_s == Approx(5.0 / 3));
    CHECK(r.samples_per_s == Approx(24 / 5.0));
    CHECK(r.tokens_per_s == Approx(48.0));
    CHECK(r.flops_per_s == Approx(12e9 / 5));
    CHECK(*r.mfu == Approx(9e9 / 5 / 6e9));
    CHECK(r.skipped_iterations == 1);
    CHECK(r.nan_iterations == 1);
    CHECK(interval.empty());
    interval.add(skipped);
    interval.finish(r);
    CHECK_FALSE(r.loss);
    CHECK_FALSE(r.mfu);
}
