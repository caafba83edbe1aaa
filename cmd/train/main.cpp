// SPDX-License-Identifier: Apache-2.0
// lm-train: pretrains a GPT.
#include "cli/main.hpp"
#include "train/dry_run.hpp"
#include "train/loop.hpp"
#include "train/show_samples.hpp"

using namespace lm;

int main(int argc, char** argv) {
    cli::Options options("lm-train", "pretrain a GPT on tokens that lm-preprocess made");
    train::TrainFlags flags;
    train::add_train_options(options, flags);
    options.exits_with(Exit::done, "finished now or before, or --exit-iteration or --exit-samples");
    for (const Exit code : {Exit::self_stopped, Exit::run_again, Exit::do_not_run_again}) {
        options.exits_with(code);
    }
    return cli::run_main(argc, argv, options, [&] {
        if (flags.output.dry_run) {
            return static_cast<int>(train::dry_run(flags, cli::command_line(argc, argv)));
        }
        const train::RunConfig config = train::resolve(flags, cli::command_line(argc, argv));
        if (flags.output.print_config) {
            cli::write_stdout(train::to_json(config).dump(2) + "\n");
            return 0;
        }
        if (!flags.output.show_samples.empty()) {
            train::show_samples(config, flags.data,
                                train::parse_sample_range(flags.output.show_samples));
            return 0;
        }
        return static_cast<int>(train::run(config));
    });
}
