// SPDX-License-Identifier: Apache-2.0
#include "cli/main.hpp"
#include "verbs.hpp"

int main(int argc, char** argv) {
    lm::cli::Options options("lm-estimate",
                             "estimate the parameters, memory, disk space and time of a training");
    lm::estimate::add_params_verb(options);
    lm::estimate::add_memory_verb(options);
    lm::estimate::add_batch_verb(options);
    lm::estimate::add_checkpoint_verb(options);
    lm::estimate::add_time_verb(options);
    lm::estimate::add_layout_verb(options);
    lm::estimate::add_eta_verb(options);
    options.exits_with(lm::Exit::answer_is_no,
                       "memory: the model does not fit in --gpu-memory; layout: no layout fits; "
                       "batch: one of --nodes cannot run the ramp; eta: the last line is older "
                       "than --max-age, --why finds no reason, or the run of --follow failed");
    options.examples(
        {"lm-estimate params --model gpt2-124m",
         "lm-estimate memory --model 7.5b --bf16 --tensor-model-parallel-size 8 --gpu-memory 80GB",
         "lm-estimate eta train.log --hours-per-day 20"});
    return lm::cli::run_main(argc, argv, options);
}
