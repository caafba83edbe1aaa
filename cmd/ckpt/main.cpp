// SPDX-License-Identifier: Apache-2.0
// lm-ckpt: lists, shows, verifies, compares, prunes, copies, rewrites, averages and repairs
// checkpoints; generates and scores text with their models.
#include "cli/main.hpp"
#include "verbs.hpp"

int main(int argc, char** argv) {
    lm::cli::Options options(
        "lm-ckpt", "list, show, verify, compare, prune, copy, rewrite and average checkpoints");
    lm::ckpt_tool::add_ls(options);
    lm::ckpt_tool::add_show(options);
    lm::ckpt_tool::add_verify(options);
    lm::ckpt_tool::add_latest(options);
    lm::ckpt_tool::add_diff(options);
    lm::ckpt_tool::add_prune(options);
    lm::ckpt_tool::add_copy(options);
    lm::ckpt_tool::add_sync(options);
    lm::ckpt_tool::add_unshard(options);
    lm::ckpt_tool::add_reshard(options);
    lm::ckpt_tool::add_merge(options, lm::cli::command_line(argc, argv));
    lm::ckpt_tool::add_repair(options, lm::cli::command_line(argc, argv));
    lm::ckpt_tool::add_generate(options);
    lm::ckpt_tool::add_score(options);
    options.exits_with(lm::Exit::answer_is_no,
                       "verify found a problem, or diff found a difference");
    options.examples({"lm-ckpt ls checkpoints", "lm-ckpt verify checkpoints/global_step1000",
                      "lm-ckpt prune checkpoints --keep-last 5 --keep-every 1000 --dry-run",
                      "lm-ckpt copy checkpoints/global_step1000 /store/run --weights-only"});
    return lm::cli::run_main(argc, argv, options);
}
