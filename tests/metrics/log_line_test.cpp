// SPDX-License-Identifier: Apache-2.0
#include "metrics/log_line.hpp"

#include <fmt/format.h>

#include <string>

#include "metrics/record.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::metrics;
using Kind = LogLine::Kind;

namespace {

const std::string bloom =
    " iteration    12695/  115311 | consumed samples:      9841584 | consumed tokens:  20155564032 "
    "| elapsed time per iteration (s): 105.22 | learning rate: 5.969E-05 | global batch size:  "
    "2048 "
    "| lm loss: 2.463556E+00 | grad norm: 0.174 | num zeros: 0.0 | number of skipped iterations:   "
    "0 | number of nan iterations:   0 | samples per second: 19.463 | TFLOPs: 149.02 |";

void check_bloom(const LogLine& line) {
    REQUIRE(line.kind == Kind::iteration);
    CHECK(line.n_invalid == 0);
    CHECK(line.iteration.iteration == 12695);
    CHECK(line.iteration.total_iterations == 115311);
    CHECK(line.iteration.consumed_samples == 9841584);
    CHECK(line.iteration.consumed_tokens == 20155564032);
    CHECK(line.iteration.global_batch == 2048);
    CHECK(line.iteration.step_s == Approx(105.22).epsilon(1e-4));
    CHECK(*line.iteration.flops_per_s == Approx(149.02e12));
}

}  // namespace

TEST_CASE("the line of Megatron-DeepSpeed, with any prefix") {
    for (const char* prefix :
         {"", "[default7]:", "1: ", "\x1b[32m", "383: NCCL INFO Channel 00 ", "iteration 3: "}) {
        CAPTURE(prefix);
        check_bloom(read_log_line(prefix + bloom));
    }
}

TEST_CASE("lines of other versions of Megatron") {
    const LogLine tr1 = read_log_line(
        " iteration   168000/  311541 | consumed samples:    153013584 | elapsed time per "
        "iteration "
        "(ms): 13248.2 | learning rate: 1.000E-05 | global batch size:  1024 | lm loss: "
        "2.376641E+00 | loss scale: 131072.0 | grad norm: 19767.052 | num zeros: 0.0 | number of "
        "skipped iterations:   0 | number of nan iterations:   0 |");
    REQUIRE(tr1.kind == Kind::iteration);
    CHECK(tr1.iteration.step_s == Approx(13.2482));
    CHECK(!tr1.iteration.consumed_tokens);
    CHECK(!tr1.iteration.flops_per_s);

    const LogLine today = read_log_line(
        " [2024-05-03 10:20:30.250000] iteration        1/  508626 | consumed samples:          "
        "288 "
        "| elapsed time per iteration (ms): 255940.5 | throughput per GPU (TFLOP/s/GPU): 12.5 | "
        "learning rate: 0.000000E+00 | global batch size:   288 | loss scale: 4294967296.0 | "
        "number "
        "of skipped iterations:   1 | number of nan iterations:   0 |");
    REQUIRE(today.kind == Kind::iteration);
    CHECK(today.iteration.step_s == Approx(255.9405));
    CHECK(*today.iteration.unix_time_s == 1714731630.25);
    CHECK(*today.iteration.flops_per_s == Approx(12.5e12));
}

TEST_CASE("the rate gives the time of short steps where it agrees with the printed time") {
    const auto step_s = [](const std::string& elapsed, const std::string& rate) {
        return read_log_line(" iteration 1/ 2 | elapsed time per iteration (s): " + elapsed +
                             " | global batch size: 16 | samples per second: " + rate + " |")
            .iteration.step_s;
    };
    CHECK(step_s("0.00", "16000.000") == Approx(0.001));
    CHECK(step_s("0.01", "1280.000") == Approx(0.0125));
    CHECK(step_s("13.25", "0.005") == 13.25);
    CHECK(step_s("0.01", "nan") == 0.01);
    CHECK(step_s("0.00", "0.000") == 0);
}

TEST_CASE("values that are not finite are ignored in fields that are not needed") {
    const LogLine line = read_log_line(
        " iteration 10/ 20 | elapsed time per iteration (s): 1.50 | global batch size: 4 | lm "
        "loss: "
        "nan | grad norm: inf | TFLOPs: nan |");
    REQUIRE(line.kind == Kind::iteration);
    CHECK(line.iteration.step_s == 1.5);
    CHECK(!line.iteration.flops_per_s);
}

TEST_CASE("truncated and mixed lines are counted") {
    for (const char* text : {
             " iteration    12695/  1153",
             " iteration    12695/  115311 | consumed samples:      98",
             " iteration 10/ 20 | elapsed time per iteration (s): 1.5",
             " iteration 10/ 20 | elapsed time per iteration (s): nan |",
             " iteration 10/ 20 | elapsed time per iteration (s): -1.0 |",
             " iteration 10/ 20 | elapsed time per iteration (s): 1.0x |",
             " iteration 10/ 20 | consumed samples: 1[default3]: NCCL INFO | elapsed time per "
             "iteration (s): 1.0 |",
             " iteration 10/ 99999999999999999999 | elapsed time per iteration (s): 1.0 |",
             "{\"kind\":\"step\",\"time\":1.0,\"iter",
             "{\"kind\":\"step\",\"iteration\":1,\"total_iterations\":2,\"step_s\":null}",
         }) {
        CAPTURE(text);
        const LogLine line = read_log_line(text);
        CHECK(line.kind == Kind::other);
        CHECK(line.n_invalid == 1);
    }
    // This line is cut, and the next one follows it without a newline.
    const LogLine line = read_log_line(" iteration    12694/  115311 | consumed sam" + bloom);
    CHECK(line.n_invalid == 1);
    CHECK(line.iteration.iteration == 12695);
    // Cut after the last field that is needed.
    const LogLine cut =
        read_log_line(" iteration 7/ 9 | elapsed time per iteration (s): 1.0 | glo");
    CHECK(cut.kind == Kind::iteration);
    CHECK(!cut.iteration.global_batch);
}

TEST_CASE("other lines are ignored") {
    for (const char* text :
         {"", "iteration", "time (ms)", "saving checkpoint at iteration   1000 to /scratch/ckpt",
          "Skipped iterations 1 to 2 due to --skip-train-iteration-range flag.",
          "{\"kind\":\"validation\",\"iteration\":10}", "[after x] datetime: yesterday",
          "will use batch size rampup starting from global batch size x"}) {
        CAPTURE(text);
        const LogLine line = read_log_line(text);
        CHECK(line.kind == Kind::other);
        CHECK(line.n_invalid == 0);
    }
}

TEST_CASE("an evaluation is read without a time stamp, too") {
    const LogLine line = read_log_line(
        " validation loss at iteration 168000 | lm loss value: 2.342049E+00 | lm loss PPL: "
        "1.040253E+01 | ");
    CHECK(line.kind == Kind::validation);
    CHECK(!line.unix_time_s);
}

TEST_CASE("starts, checkpoints and ramps") {
    const LogLine start =
        read_log_line("[after megatron is initialized] datetime: 2021-08-08 01:00:51 ");
    CHECK(start.kind == Kind::start);
    CHECK(*start.unix_time_s == 1628384451);
    const LogLine clock = read_log_line(
        "[exiting program after 1190.0357275923093 minutes] datetime: 2021-08-08 01:00:51");
    CHECK(clock.kind == Kind::stop);
    CHECK(*clock.unix_time_s == 1628384451);
    const LogLine megatron = read_log_line(
        "  successfully loaded checkpoint from /ckpt/at iteration 5 [ t 1/1, p 1/1 ] at iteration "
        "168000");
    CHECK(megatron.kind == Kind::loaded);
    CHECK(megatron.loaded_iteration == 168000);
    const LogLine ours = read_log_line(
        "lm-train: note: ckpt/global_step20: resuming after iteration 20, 160 samples");
    CHECK(ours.kind == Kind::loaded);
    CHECK(ours.loaded_iteration == 20);
    const LogLine ramp = read_log_line(
        "will use batch size rampup starting from global batch size 192 to global batch size 2048 "
        "with batch size increments 16 over 9765625 samples.");
    REQUIRE(ramp.kind == Kind::ramp);
    CHECK(ramp.ramp.start == 192);
    CHECK(ramp.ramp.global_batch == 2048);
    CHECK(ramp.ramp.increment == 16);
    CHECK(ramp.ramp.samples == 9765625);
}

TEST_CASE("events of --log-json and lines of --log-file") {
    const LogLine start = read_log_line(R"({"kind":"start","time":5.5,"job":"7","iteration":3})");
    CHECK(start.kind == Kind::start);
    CHECK(*start.unix_time_s == 5.5);
    const LogLine resume = read_log_line(R"({"kind":"resume","time":5.5,"iteration":3})");
    CHECK(resume.kind == Kind::loaded);
    CHECK(resume.loaded_iteration == 3);
    const std::pair<const char*, Kind> events[] = {{"save", Kind::saved},
                                                   {"stop", Kind::stop},
                                                   {"error", Kind::stop},
                                                   {"validation", Kind::validation},
                                                   {"phases", Kind::clock}};
    for (const auto& [name, kind] : events) {
        const LogLine line = read_log_line(fmt::format(R"({{"kind":"{}","time":7}})", name));
        CHECK(line.kind == kind);
        CHECK(*line.unix_time_s == 7);
    }
    const LogLine stop = read_log_line(R"({"kind":"stop","time":7,"iteration":75,"exit_code":75})");
    CHECK(stop.stopped_after == 75);
    CHECK(!read_log_line(R"({"kind":"error","time":7,"iteration":75})").stopped_after);
    CHECK(read_log_line(R"({"kind":"stop","ti)").kind == Kind::other);
    CHECK(read_log_line(R"({"a":{"kind":"stop"},"kind":3,"time":7})").kind == Kind::other);

    const LogLine program = read_log_line("2024-05-03T10:20:30Z  > program      lm-train 0.1.0");
    CHECK(program.kind == Kind::start);
    CHECK(*program.unix_time_s == 1714731630);
    CHECK(!read_log_line(" > program      lm-train 0.1.0").unix_time_s);
    const LogLine loaded = read_log_line(
        "2024-05-03T10:20:30Z lm-train: note: x: resuming after iteration 5, 9 samples");
    CHECK(loaded.kind == Kind::loaded);
    CHECK(*loaded.unix_time_s == 1714731630);
    const std::string stopped =
        "lm-train: note: SIGUSR1: stopped after iteration 75 of 196: rerun the same command";
    CHECK(read_log_line(stopped).kind == Kind::stop);
    CHECK(read_log_line(stopped).stopped_after == 75);
    CHECK(!read_log_line(stopped).unix_time_s);
    CHECK(*read_log_line("2024-05-03T10:20:30Z " + stopped).unix_time_s == 1714731630);
    CHECK(read_log_line("x: stopped after iteration 75 of 196").kind == Kind::other);
    CHECK(read_log_line("2024-05-03T10:20:30Z lm-train: warning: x").kind == Kind::clock);
    CHECK(read_log_line("2024-05-03T10:20:30Z another program: x").kind == Kind::other);
}

TEST_CASE("time stamps") {
    CHECK(*time_stamp_in("2024-05-03 10:20:30") == 1714731630);
    CHECK(*time_stamp_in("2024-05-03T10:20:30Z stdout F") == 1714731630);
    CHECK(*time_stamp_in("x 2020-01-01 00:00:00 2024-05-03T12:20:30.5+02:00 ") == 1714731630.5);
    CHECK(*time_stamp_in("INFO 2024-05-03 10:20:30,250") == 1714731630.25);
    for (const char* text : {"", "2024-05-03", "2024-02-30 10:20:30", "2024-05-03 24:00:00",
                             "20240503 10:20:30", "2024-05-03 10:20:3"}) {
        CAPTURE(text);
        CHECK(!time_stamp_in(text));
    }
}

TEST_CASE("the lines of lm-train are parsed") {
    StepRecord record;
    record.iteration = 20;
    record.total_iterations = 100;
    record.consumed_samples = 320;
    record.consumed_tokens = 40960;
    record.step_s = 0.0125;
    record.global_batch = 16;
    record.samples_per_s = 1280;
    record.flops_per_s = 1.5e12;
    record.unix_time_s = 1714731630.25;
    for (const std::string& text : {log_line(record), to_json(record)}) {
        const LogLine line = read_log_line(text);
        REQUIRE(line.kind == Kind::iteration);
        CHECK(line.iteration.iteration == 20);
        CHECK(line.iteration.total_iterations == 100);
        CHECK(line.iteration.consumed_samples == 320);
        CHECK(line.iteration.consumed_tokens == 40960);
        CHECK(line.iteration.global_batch == 16);
        CHECK(line.iteration.step_s == Approx(0.0125));
        CHECK(*line.iteration.flops_per_s == Approx(1.5e12));
    }
    CHECK(*read_log_line(to_json(record)).iteration.unix_time_s == 1714731630.25);
}

TEST_CASE("events of evaluations, saves and ends") {
    LogLine line = read_log_line(
        R"({"kind":"validation","time":5,"iteration":9,"lm_loss":2.5,"elapsed_s":1.5})");
    CHECK(line.kind == Kind::validation);
    CHECK(*line.busy_s == 1.5);
    line = read_log_line(R"({"kind":"save","time":5,"iteration":9,"elapsed_s":8,"blocked_s":2})");
    CHECK(line.kind == Kind::saved);
    CHECK(*line.busy_s == 2);
    line =
        read_log_line("2026-01-01T00:00:40Z validation loss at iteration 8 | lm loss value: 2 |");
    CHECK(line.kind == Kind::validation);
    CHECK(line.unix_time_s);
    CHECK(!line.busy_s);
    line = read_log_line("lm-train: note: x/global_step5: saved, 2.3 TiB in 1 min 40 s");
    CHECK(line.kind == Kind::saved);
    CHECK(*line.busy_s == 100);
    line = read_log_line(
        "2026-01-01T00:00:40Z lm-train: note: x/global_step5: saved, 1 B in 40.0 s, loop blocked "
        "250 ms");
    CHECK(*line.busy_s == 0.25);
    CHECK(line.unix_time_s);
    line = read_log_line("time (ms) | save-checkpoint: 57514.53");
    CHECK(*line.busy_s == Approx(57.51453));
    line = read_log_line("[exiting program after 1190 minutes] datetime: 2021-08-08 01:00:51 ");
    CHECK(line.kind == Kind::stop);
    line = read_log_line(
        " iteration 5/ 9 | elapsed time per iteration (s): 2.00 | learning rate: 5.969E-05 | lm "
        "loss: 2.5E+00 | grad norm: 0.174 | number of skipped iterations:   3 | number of nan "
        "iterations:   1 |");
    CHECK(*line.iteration.loss == 2.5);
    CHECK(*line.iteration.grad_norm == 0.174);
    CHECK(*line.iteration.learning_rate == 5.969e-5);
    CHECK(line.iteration.skipped == 3);
    CHECK(line.iteration.nan == 1);
}
