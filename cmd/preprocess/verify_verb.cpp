// SPDX-License-Identifier: Apache-2.0
// lm-preprocess verify: checks every entry and token of a dataset; exits with 1 for a corrupt one.
#include <memory>

#include "args.hpp"
#include "base/bounds.hpp"
#include "base/error.hpp"
#include "cli/main.hpp"
#include "cli/progress_line.hpp"
#include "data/indexed/indexed_dataset.hpp"
#include "data/indexed/verify_dataset.hpp"
#include "io/json.hpp"

namespace lm::preprocess {
namespace {

struct VerifyArgs {
    std::string prefix;
    data::VerifyRules rules;
    bool json = false;
    bool quiet = false;
};

int verify(const VerifyArgs& args) {
    check_at_least("--vocab-size", args.rules.vocab_size, 1);
    data::require_dataset(args.prefix);
    cli::ProgressLine progress("verifying", "MB", io::file_size(data::bin_path(args.prefix)),
                               args.quiet);
    const data::VerifyResult result =
        data::verify_dataset(args.prefix, args.rules, [&](i64 bytes) { progress.update(bytes); });
    progress.finish();
    if (args.json) {
        io::OrderedJson j;
        j["prefix"] = args.prefix;
        j["ok"] = result.faults.empty();
        j["documents"] = result.documents;
        j["sequences"] = result.sequences;
        j["tokens"] = result.tokens;
        j["largest_id"] = result.largest_id;
        j["side_file"] = result.had_metadata;
        j["faults"] = result.faults;
        cli::write_stdout(io::json_line(j));
    } else {
        for (const std::string& fault : result.faults) cli::write_text("{}\n", fault);
        if (result.faults.empty()) {
            cli::write_text("{}: {} documents, {} tokens: valid{}\n", args.prefix, result.documents,
                            result.tokens,
                            result.had_metadata ? "" : " (no metadata file to compare with)");
        }
    }
    return static_cast<int>(result.faults.empty() ? Exit::done : Exit::answer_is_no);
}

}  // namespace

void declare_verify(cli::Options& options) {
    auto args = std::make_shared<VerifyArgs>();
    cli::Options& verb = options.verb("verify", "check every entry and token of a dataset",
                                      [args] { return verify(*args); });
    verb.examples({"lm-preprocess verify corpus_text_document"});
    verb.positional("PREFIX", &args->prefix, "the files PREFIX.bin and PREFIX.idx of a dataset");
    verb.value("--vocab-size", &args->rules.vocab_size, "N",
               "ids must be below N; default: the vocabulary size in the metadata file");
    verb.value(
        "--eod-id", &args->rules.eod_id, "ID",
        "every document must end with this id; default: the appended id in the metadata file");
    verb.flag("--json", &args->json, "print JSON Lines");
    verb.flag("--quiet,-q", &args->quiet, "show no progress");
    verb.exits_with(Exit::answer_is_no, "the dataset is corrupt");
}

}  // namespace lm::preprocess
