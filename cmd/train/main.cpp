// SPDX-License-Identifier: Apache-2.0
// lm-train: pretrains a GPT.
#include "cli/main.hpp"
#include "train/loop.hpp"

using namespace lm;

int main(int argc, char** argv) {
    cli::Options options("lm-train", "pretrain a GPT on tokens that lm-preprocess made");
    train::TrainFlags flags;
    train::add_train_options(options, flags);
    return cli::run_main(argc, argv, options, [&] {
        const train::RunConfig config = train::resolve(flags, cli::command_line(argc, argv));
        if (flags.output.print_config) {
            cli::write_stdout(train::to_json(config).dump(2) + "\n");
            return 0;
        }
        return static_cast<int>(train::run(config));
    });
}
