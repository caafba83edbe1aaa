// SPDX-License-Identifier: Apache-2.0
#include "metrics/log_parser.hpp"

#include <fmt/format.h>

#include <string>

#include "metrics/record.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::metrics;

namespace {

const std::string bloom_text =
    " iteration    12695/  115311 | consumed samples:      9841584 | consumed tokens:  20155564032 "
    "| elapsed time per iteration (s): 105.22 | learning rate: 5.969E-05 | global batch size:  "
    "2048 "
    "| lm loss: 2.463556E+00 | grad norm: 0.174 | num zeros: 0.0 | number of skipped iterations:   "
    "0 | number of nan iterations:   0 | samples per second: 19.463 | TFLOPs: 149.02 |";

// Returns the iteration of a line. Fails if the line has none.
LoggedIteration iteration_of(const LogLine& line) {
    REQUIRE(line.iteration());
    return *line.iteration();
}

template <typename Event>
bool is(const LogLine& line) {
    return line.event() && std::holds_alternative<Event>(*line.event());
}

// Returns the event of a line. Fails if the line does not state an event of this type.
template <typename Event>
Event event_of(const LogLine& line) {
    REQUIRE(is<Event>(line));
    return std::get<Event>(*line.event());
}

bool has_no_content(const LogLine& line) {
    return std::holds_alternative<std::monostate>(line.content);
}

void check_bloom(const LogLine& line) {
    const LoggedIteration bloom_line = iteration_of(line);
    CHECK(line.n_invalid == 0);
    CHECK(bloom_line.iteration == 12695);
    CHECK(bloom_line.total_iterations == 115311);
    CHECK(bloom_line.consumed_samples == 9841584);
    CHECK(bloom_line.consumed_tokens == 20155564032);
    CHECK(bloom_line.global_batch == 2048);
    CHECK(bloom_line.step_s == Approx(105.22).epsilon(1e-4));
    CHECK(*bloom_line.flops_per_s == Approx(149.02e12));
}

}  // namespace

TEST_CASE("the line of Megatron-DeepSpeed, with any prefix") {
    for (const char* prefix :
         {"", "[default7]:", "1: ", "\x1b[32m", "383: NCCL INFO Channel 00 ", "iteration 3: "}) {
        CAPTURE(prefix);
        check_bloom(parse_log_line(prefix + bloom_text));
    }
}

TEST_CASE("lines of other versions of Megatron") {
    const LogLine tr1 = parse_log_line(
        " iteration   168000/  311541 | consumed samples:    153013584 | elapsed time per "
        "iteration "
        "(ms): 13248.2 | learning rate: 1.000E-05 | global batch size:  1024 | lm loss: "
        "2.376641E+00 | loss scale: 131072.0 | grad norm: 19767.052 | num zeros: 0.0 | number of "
        "skipped iterations:   0 | number of nan iterations:   0 |");
    REQUIRE(tr1.iteration());
    CHECK(tr1.iteration()->step_s == Approx(13.2482));
    CHECK(!tr1.iteration()->consumed_tokens);
    CHECK(!tr1.iteration()->flops_per_s);

    const LogLine today = parse_log_line(
        " [2024-05-03 10:20:30.250000] iteration        1/  508626 | consumed samples:          "
        "288 "
        "| elapsed time per iteration (ms): 255940.5 | throughput per GPU (TFLOP/s/GPU): 12.5 | "
        "learning rate: 0.000000E+00 | global batch size:   288 | loss scale: 4294967296.0 | "
        "number "
        "of skipped iterations:   1 | number of nan iterations:   0 |");
    REQUIRE(today.iteration());
    CHECK(today.iteration()->step_s == Approx(255.9405));
    CHECK(*today.unix_time_s == 1714731630.25);
    CHECK(*today.iteration()->flops_per_s == Approx(12.5e12));
}

TEST_CASE("the rate gives the time of short steps where it agrees with the printed time") {
    const auto step_s = [](const std::string& elapsed, const std::string& rate) {
        return parse_log_line(" iteration 1/ 2 | elapsed time per iteration (s): " + elapsed +
                              " | global batch size: 16 | samples per second: " + rate + " |")
            .iteration()
            ->step_s;
    };
    CHECK(step_s("0.00", "16000.000") == Approx(0.001));
    CHECK(step_s("0.01", "1280.000") == Approx(0.0125));
    CHECK(step_s("13.25", "0.005") == 13.25);
    CHECK(step_s("0.01", "nan") == 0.01);
    CHECK(step_s("0.00", "0.000") == 0);
}

TEST_CASE("values that are not finite are ignored in fields that are not needed") {
    const LogLine line = parse_log_line(
        " iteration 10/ 20 | elapsed time per iteration (s): 1.50 | global batch size: 4 | lm "
        "loss: "
        "nan | grad norm: inf | TFLOPs: nan |");
    REQUIRE(line.iteration());
    CHECK(line.iteration()->step_s == 1.5);
    CHECK(!line.iteration()->flops_per_s);
}

TEST_CASE("truncated and mixed lines are counted") {
    for (const char* text : {
             " iteration    12695/  1153",
             " iteration    12695/  115311 | consumed samples:      98",
             " iteration 10/ 20 | elapsed time per iteration (s): 1.5",
             " iteration 10/ 20 | elapsed time per iteration (s): nan |",
             " iteration 10/ 20 | elapsed time per iteration (s): 1e308 |",
             " iteration 10/ 20 | elapsed time per iteration (s): -1.0 |",
             " iteration 10/ 20 | elapsed time per iteration (s): 1.0x |",
             " iteration 10/ 20 | consumed samples: 1[default3]: NCCL INFO | elapsed time per "
             "iteration (s): 1.0 |",
             " iteration 10/ 99999999999999999999 | elapsed time per iteration (s): 1.0 |",
             "{\"kind\":\"step\",\"time\":1.0,\"iter",
             "{\"kind\":\"step\",\"iteration\":1,\"total_iterations\":2,\"step_s\":null}",
         }) {
        CAPTURE(text);
        const LogLine line = parse_log_line(text);
        CHECK(has_no_content(line));
        CHECK(line.n_invalid == 1);
    }
    // This line is cut, and the next one follows it without a newline.
    const LogLine line = parse_log_line(" iteration    12694/  115311 | consumed sam" + bloom_text);
    CHECK(line.n_invalid == 1);
    CHECK(line.iteration()->iteration == 12695);
    // Cut after the last field that is needed.
    const LogLine cut =
        parse_log_line(" iteration 7/ 9 | elapsed time per iteration (s): 1.0 | glo");
    REQUIRE(cut.iteration());
    CHECK(!cut.iteration()->global_batch);
}

TEST_CASE("other lines are ignored") {
    for (const char* text :
         {"", "iteration", "time (ms)", "saving checkpoint at iteration   1000 to /scratch/ckpt",
          "Skipped iterations 1 to 2 due to --skip-train-iteration-range flag.",
          "{\"kind\":\"validation\",\"iteration\":10}", "[after x] datetime: yesterday",
          "will use batch size rampup starting from global batch size x"}) {
        CAPTURE(text);
        const LogLine line = parse_log_line(text);
        CHECK(has_no_content(line));
        CHECK(line.n_invalid == 0);
    }
}

TEST_CASE("an evaluation is read without a time stamp, too") {
    const LogLine line = parse_log_line(
        " validation loss at iteration 168000 | lm loss value: 2.342049E+00 | lm loss PPL: "
        "1.040253E+01 | ");
    CHECK(is<EvaluationEvent>(line));
    CHECK(!line.unix_time_s);
}

TEST_CASE("starts, checkpoints and ramps") {
    const LogLine start =
        parse_log_line("[after megatron is initialized] datetime: 2021-08-08 01:00:51 ");
    CHECK(is<StartEvent>(start));
    CHECK(*start.unix_time_s == 1628384451);
    const LogLine clock = parse_log_line(
        "[exiting program after 1190.0357275923093 minutes] datetime: 2021-08-08 01:00:51");
    CHECK(is<StopEvent>(clock));
    CHECK(*clock.unix_time_s == 1628384451);
    const LogLine megatron = parse_log_line(
        "  successfully loaded checkpoint from /ckpt/at iteration 5 [ t 1/1, p 1/1 ] at iteration "
        "168000");
    CHECK(event_of<LoadEvent>(megatron).iteration == 168000);
    const LogLine ours = parse_log_line(
        "lm-train: note: ckpt/global_step20: resuming after iteration 20, 160 samples");
    CHECK(event_of<LoadEvent>(ours).iteration == 20);
    const LogLine ramp = parse_log_line(
        "will use batch size rampup starting from global batch size 192 to global batch size 2048 "
        "with batch size increments 16 over 9765625 samples.");
    const auto* const batches = std::get_if<LoggedRamp>(&ramp.content);
    REQUIRE(batches);
    CHECK(batches->start == 192);
    CHECK(batches->global_batch == 2048);
    CHECK(batches->increment == 16);
    CHECK(batches->samples == 9765625);
}

TEST_CASE("events of --log-json and lines of --log-file") {
    const LogLine start = parse_log_line(R"({"kind":"start","time":5.5,"job":"7","iteration":3})");
    CHECK(is<StartEvent>(start));
    CHECK(*start.unix_time_s == 5.5);
    const LogLine resume = parse_log_line(R"({"kind":"resume","time":5.5,"iteration":3})");
    CHECK(event_of<LoadEvent>(resume).iteration == 3);
    const std::pair<const char*, LogEvent> events[] = {{"save", SaveEvent{}},
                                                       {"stop", StopEvent{}},
                                                       {"error", StopEvent{}},
                                                       {"validation", EvaluationEvent{}},
                                                       {"phases", ClockEvent{}}};
    for (const auto& [name, event] : events) {
        const LogLine line = parse_log_line(fmt::format(R"({{"kind":"{}","time":7}})", name));
        REQUIRE(line.event());
        CHECK(line.event()->index() == event.index());
        CHECK(*line.unix_time_s == 7);
    }
    const LogLine stop =
        parse_log_line(R"({"kind":"stop","time":7,"iteration":75,"exit_code":75})");
    CHECK(event_of<StopEvent>(stop).last_iteration == 75);
    const LogLine error = parse_log_line(R"({"kind":"error","time":7,"iteration":75})");
    CHECK(!event_of<StopEvent>(error).last_iteration);
    CHECK(has_no_content(parse_log_line(R"({"kind":"stop","ti)")));
    CHECK(has_no_content(parse_log_line(R"({"a":{"kind":"stop"},"kind":3,"time":7})")));

    const LogLine program = parse_log_line("2024-05-03T10:20:30Z  > program      lm-train 0.1.0");
    CHECK(is<StartEvent>(program));
    CHECK(*program.unix_time_s == 1714731630);
    CHECK(!parse_log_line(" > program      lm-train 0.1.0").unix_time_s);
    const LogLine loaded = parse_log_line(
        "2024-05-03T10:20:30Z lm-train: note: x: resuming after iteration 5, 9 samples");
    CHECK(is<LoadEvent>(loaded));
    CHECK(*loaded.unix_time_s == 1714731630);
    const std::string stopped =
        "lm-train: note: SIGUSR1: stopped after iteration 75 of 196: rerun the same command";
    CHECK(event_of<StopEvent>(parse_log_line(stopped)).last_iteration == 75);
    CHECK(!parse_log_line(stopped).unix_time_s);
    CHECK(*parse_log_line("2024-05-03T10:20:30Z " + stopped).unix_time_s == 1714731630);
    CHECK(has_no_content(parse_log_line("x: stopped after iteration 75 of 196")));
    CHECK(is<ClockEvent>(parse_log_line("2024-05-03T10:20:30Z lm-train: warning: x")));
    CHECK(has_no_content(parse_log_line("2024-05-03T10:20:30Z another program: x")));
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
        const LogLine line = parse_log_line(text);
        REQUIRE(line.iteration());
        CHECK(line.iteration()->iteration == 20);
        CHECK(line.iteration()->total_iterations == 100);
        CHECK(line.iteration()->consumed_samples == 320);
        CHECK(line.iteration()->consumed_tokens == 40960);
        CHECK(line.iteration()->global_batch == 16);
        CHECK(line.iteration()->step_s == Approx(0.0125));
        CHECK(*line.iteration()->flops_per_s == Approx(1.5e12));
    }
    CHECK(*parse_log_line(to_json(record)).unix_time_s == 1714731630.25);
}

TEST_CASE("events of evaluations, saves and ends") {
    LogLine line = parse_log_line(
        R"({"kind":"validation","time":5,"iteration":9,"lm_loss":2.5,"elapsed_s":1.5})");
    CHECK(*event_of<EvaluationEvent>(line).busy_s == 1.5);
    line = parse_log_line(R"({"kind":"save","time":5,"iteration":9,"elapsed_s":8,"blocked_s":2})");
    CHECK(*event_of<SaveEvent>(line).busy_s == 2);
    line =
        parse_log_line("2026-01-01T00:00:40Z validation loss at iteration 8 | lm loss value: 2 |");
    CHECK(!event_of<EvaluationEvent>(line).busy_s);
    CHECK(line.unix_time_s);
    line = parse_log_line("lm-train: note: x/global_step5: saved, 2.3 TiB in 1 min 40 s");
    CHECK(*event_of<SaveEvent>(line).busy_s == 100);
    line = parse_log_line(
        "2026-01-01T00:00:40Z lm-train: note: x/global_step5: saved, 1 B in 40.0 s, loop blocked "
        "250 ms");
    CHECK(*event_of<SaveEvent>(line).busy_s == 0.25);
    CHECK(line.unix_time_s);
    line = parse_log_line("time (ms) | save-checkpoint: 57514.53");
    CHECK(*event_of<SaveEvent>(line).busy_s == Approx(57.51453));
    line = parse_log_line("[exiting program after 1190 minutes] datetime: 2021-08-08 01:00:51 ");
    CHECK(is<StopEvent>(line));
    line = parse_log_line(
        " iteration 5/ 9 | elapsed time per iteration (s): 2.00 | learning rate: 5.969E-05 | lm "
        "loss: 2.5E+00 | grad norm: 0.174 | number of skipped iterations:   3 | number of nan "
        "iterations:   1 |");
    CHECK(*line.iteration()->loss == 2.5);
    CHECK(*line.iteration()->grad_norm == 0.174);
    CHECK(*line.iteration()->learning_rate == 5.969e-5);
    CHECK(line.iteration()->skipped == 3);
    CHECK(line.iteration()->nan == 1);
}

TEST_CASE("the time of a save, as a duration is printed") {
    const auto busy_s = [](const std::string& duration) {
        const std::string note = "lm-train: note: x/global_step5: saved, 1 B in ";
        return event_of<SaveEvent>(parse_log_line(note + duration)).busy_s;
    };
    CHECK(*busy_s("1 h 02 min") == 3720);
    CHECK(*busy_s("3 min 05 s, loop") == 185);
    CHECK(*busy_s("12.3 s") == 12.3);
    CHECK(*busy_s("250 ms") == 0.25);
    CHECK(*busy_s("2 d 01 h") == 176400);
    CHECK(!busy_s("soon"));
    CHECK(!busy_s(""));
}
