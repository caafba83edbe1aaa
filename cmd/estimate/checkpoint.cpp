// SPDX-License-Identifier: Apache-2.0
// lm-estimate checkpoint: bytes of one checkpoint, and of all that a schedule saves.
#include <memory>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "config/model_flags.hpp"
#include "report.hpp"
#include "schedule.hpp"
#include "spec/cost.hpp"
#include "verbs.hpp"

namespace lm::estimate {
namespace {

struct Flags {
    config::ModelFlags model;
    config::PrecisionFlags precision;
    ScheduleFlags schedule;
    std::optional<std::string> save_schedule;
    std::optional<i64> save_interval;
    OutputFlags output;
};

std::vector<spec::SaveRange> ranges_of(const Flags& flags) {
    if (flags.save_schedule && flags.save_interval) {
        usage_error("--save-schedule", "contradicts --save-interval: give one of the two");
    }
    if (flags.save_schedule) return spec::parse_save_schedule(*flags.save_schedule);
    if (!flags.save_interval) return {};
    at_least_one("--save-interval", *flags.save_interval);
    return {{*flags.save_interval, 0}};
}

void add_total(Report& report, const Flags& flags, const spec::ModelConfig& model,
               const spec::CheckpointSize& size) {
    const std::vector<spec::SaveRange> ranges = ranges_of(flags);
    if (ranges.empty()) return;
    const Schedule schedule = resolve_schedule(flags.schedule, model.seq_length);
    const i64 iterations = count_iterations(schedule.ramp, schedule.samples);
    const i64 saves = spec::count_saves(ranges, iterations);
    report.figures("all", {{"iterations", "iterations", Unit::count, iterations,
                            "as lm-estimate batch counts them"},
                           {"saves", "checkpoints", Unit::count, saves,
                            "multiples of the intervals, the ends of ranges and of the run"},
                           {"weights", "weights of all", Unit::bytes,
                            checked_mul(saves, size.weights), "checkpoints x weights"},
                           {"total", "all of them", Unit::bytes, checked_mul(saves, size.total()),
                            "checkpoints x checkpoint, when none is pruned"}});
}

int run(const Flags& flags) {
    const spec::ModelConfig model = config::resolve_model(flags.model);
    const spec::CheckpointSize size =
        spec::checkpoint_size(model, resolve_precision(flags.precision));
    Report report;
    report.figures("checkpoint",
                   {{"weights", "weights", Unit::bytes, size.weights,
                     "4 bytes (2 with --bf16, --fp16) x parameters, vocabulary unpadded; "
                     "lm-ckpt copy --weights-only"},
                    {"optimizer", "optimizer state", Unit::bytes, size.optimizer,
                     "8 bytes x parameters of Adam's moments, and 4 of fp32 masters with 16-bit "
                     "weights"},
                    {"total", "checkpoint", Unit::bytes, size.total(),
                     "the sum: 14 bytes x parameters in 16 bits (BigScience measured 2.3 TB for "
                     "176B); headers of files come on top, about 100 bytes a tensor"}});
    add_total(report, flags, model, size);
    report.print(flags.output);
    return 0;
}

}  // namespace

void add_checkpoint_verb(cli::Options& program) {
    const auto flags = std::make_shared<Flags>();
    cli::Options& options = program.verb(
        "checkpoint", "bytes on disk of a checkpoint, and of all that a schedule saves",
        [flags] { return run(*flags); });
    config::add_model_options(options, flags->model);
    config::add_precision_options(options, flags->precision);
    add_schedule_options(options, flags->schedule);
    options.group("Saves");
    options.value("--save-interval", &flags->save_interval, "N", "save every N iterations");
    options.value("--save-schedule", &flags->save_schedule, "N@ITERATION,...,N",
                  "save every N iterations up to ITERATION, then by the next range; the end of "
                  "each range is saved too");
    add_output_options(options, flags->output);
}

}  // namespace lm::estimate
