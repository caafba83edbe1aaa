// SPDX-License-Identifier: Apache-2.0
#include "config/action_flags.hpp"

#include "config/field_json.hpp"

namespace lm::config {

using io::OrderedJson;

const Fields<ActionFlags>& action_fields() {
    using S = ActionFlags;
    static const FieldsIn<S, Block::none> fields = {
        {.option = "--dry-run",
         .member = &S::dry_run,
         .help = "check files and flags, print the plan, do not train"},
        {.option = "--world-size",
         .member = &S::world_size,
         .json = [](const Resolved& r) -> OrderedJson { return r.parallel.n_ranks(); },
         .metavar = "N",
         .help = "number of ranks to plan for, instead of the number of started ranks; lm-train "
                 "accepts it with --dry-run only",
         .block = Block::parallel},
        {.option = "--show-samples",
         .member = &S::show_samples,
         .metavar = "A-B",
         .help = "print the training samples A to B as JSON Lines instead of training; the first "
                 "sample is 0; 'consumed samples: N' in a log means samples 0 to N-1"},
        {.option = "--print-config",
         .member = &S::print_config,
         .help = "print the resolved configuration as JSON instead of training"},
        {.option = "--benchmark",
         .member = &S::benchmark,
         .help = "train without validation and saves; print tokens/s, FLOP/s and the time of each "
                 "operation",
         .block = Block::logging},
    };
    return fields;
}

}  // namespace lm::config
