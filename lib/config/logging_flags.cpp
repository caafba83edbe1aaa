// SPDX-License-Identifier: Apache-2.0
#include "config/logging_flags.hpp"

#include "metrics/record.hpp"

namespace lm::config {

const Fields<LoggingFlags>& logging_fields() {
    using S = LoggingFlags;
    static const FieldsIn<S, Block::logging> fields = {
        {.option = "--log-interval",
         .member = &S::interval,
         .metavar = "N",
         .help = "log every N iterations"},
        {.option = "--log-format",
         .member = &S::format,
         .help = "form of the log line; megatron-lm also logs the first iteration, and adds the "
                 "TensorBoard tags of Megatron-LM",
         .choices = names_in(metrics::log_formats)},
        {.option = "--log-throughput",
         .member = &S::throughput,
         .help = "add the TFLOP/s of a rank to the line of --log-format megatron-lm; "
                 "megatron-deepspeed always has them"},
        {.option = "--quiet,-q",
         .member = &S::quiet,
         .help = "print no plan, no notes and, on a terminal, no status line",
         .block = Block::none},
        {.option = "--log-file",
         .member = &S::file,
         .metavar = "FILE",
         .help = "also append the log lines and errors to FILE, in whole lines"},
        {.option = "--log-json",
         .member = &S::json,
         .metavar = "FILE",
         .help = "append one JSON object to FILE for each logged iteration and each event: start, "
                 "resume, save, stop, error"},
        {.option = "--log-params-norm",
         .member = &S::params_norm,
         .help = "log the L2 norm of the fp32 weights"},
        {.option = "--log-num-zeros-in-grad",
         .member = &S::num_zeros,
         .help = "log the number of gradients that are zero"},
        {.option = "--status-file",
         .member = &S::status_file,
         .metavar = "FILE",
         .help = "write the state of the run to FILE as JSON at each log line, about once a "
                 "minute, and at the end"},
        {.option = "--tensorboard-dir",
         .member = &S::tensorboard_dir,
         .metavar = "DIR",
         .help = "write TensorBoard events to DIR"},
        {.option = "--tensorboard-queue-size",
         .member = &S::tensorboard_queue_size,
         .metavar = "N",
         .help =
             "largest number of TensorBoard events in memory; each log line writes all of them"},
        {.option = "--log-timers-to-tensorboard",
         .member = &S::timers,
         .help = "add the times of an iteration and of its phases to TensorBoard and --log-json"},
        {.option = "--log-batch-size-to-tensorboard",
         .member = &S::batch_size,
         .help = "add the batch size to the TensorBoard scalars"},
        {.option = "--log-validation-ppl-to-tensorboard",
         .member = &S::validation_ppl,
         .help = "add the validation perplexity to the TensorBoard scalars"},
        {.option = "--timing-log-level",
         .member = &S::timing_level,
         .metavar = "N",
         .help = "1 or more: after each log line, log the smallest and the largest time over the "
                 "ranks for each phase of an iteration"},
        {.option = "--codecarbon-dir",
         .member = &S::codecarbon_dir,
         .metavar = "DIR",
         .help = "write the energy of each host to DIR/emissions-RANK.csv in the format of "
                 "CodeCarbon 3, at each save and at the end"},
        {.option = "--codecarbon-intensity",
         .member = &S::codecarbon_intensity,
         .metavar = "GRAMS",
         .help = "CO2 equivalent per kWh for --codecarbon-dir"},
        {.option = "--codecarbon-country",
         .member = &S::codecarbon_country,
         .metavar = "CODE",
         .help = "ISO code of the country in the files of --codecarbon-dir, such as FRA"},
        {.option = "--codecarbon-cpu-power",
         .member = &S::codecarbon_cpu_power,
         .metavar = "WATTS",
         .help =
             "power of the processors of a host without RAPL counters; default: 4 W for each core"},
    };
    return fields;
}

}  // namespace lm::config
