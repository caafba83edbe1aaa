// SPDX-License-Identifier: Apache-2.0
// lm-preprocess info: describes a dataset from its index and metadata file.
#include <algorithm>
#include <bit>
#include <memory>

#include "args.hpp"
#include "base/error.hpp"
#include "base/printable.hpp"
#include "cli/main.hpp"
#include "data/indexed/dataset_metadata.hpp"
#include "data/indexed/indexed_dataset.hpp"
#include "io/json.hpp"

namespace lm::preprocess {
namespace {

struct InfoArgs {
    std::string prefix;
    bool json = false;
};

struct Lengths {
    i64 shortest = 0, longest = 0, longest_at = -1;
    std::vector<i64> histogram;  // [i]: sequences whose length has i bits
};

// Throws Error(failure) unless the document index is monotonic.
void check_documents(const data::IndexedDataset& dataset) {
    for (i64 d = 0; d < dataset.n_documents(); ++d) {
        if (dataset.document(d + 1) < dataset.document(d))
            run_error(data::idx_path(dataset.prefix()),
                      "document index not monotonic at entry {}: run lm-preprocess verify", d + 1);
    }
}

Lengths measure(const data::IndexedDataset& dataset) {
    Lengths lengths;
    i64 position = 0;
    for (i64 s = 0; s < dataset.n_sequences(); ++s) {
        const i64 n = dataset.length(s);
        if (dataset.position(s) != position)
            run_error(
                data::idx_path(dataset.prefix()),
                "sequence {} does not begin where the previous one ends: run lm-preprocess verify",
                s);
        position += n;
        if (s == 0 || n < lengths.shortest) lengths.shortest = n;
        if (n > lengths.longest || s == 0) {
            lengths.longest = n;
            lengths.longest_at = s;
        }
        const auto bits = static_cast<size_t>(std::bit_width(static_cast<u64>(n)));
        if (lengths.histogram.size() <= bits) lengths.histogram.resize(bits + 1);
        ++lengths.histogram[bits];
    }
    return lengths;
}

i64 smallest_of(size_t bits) {
    return bits == 0 ? 0 : i64{1} << (bits - 1);
}

void print_json(const data::IndexedDataset& d, const Lengths& lengths,
                const std::optional<data::DatasetMetadata>& metadata) {
    io::OrderedJson j;
    j["prefix"] = d.prefix();
    j["documents"] = d.n_documents();
    j["sequences"] = d.n_sequences();
    j["tokens"] = d.n_tokens();
    j["dtype"] = std::string(name_of(d.token_type()));
    j["shortest"] = lengths.shortest;
    j["longest"] = lengths.longest;
    j["longest_sequence"] = lengths.longest_at;
    j["histogram"] = io::OrderedJson::array();
    for (size_t b = 0; b < lengths.histogram.size(); ++b) {
        if (lengths.histogram[b] == 0) continue;
        j["histogram"].push_back({{"from", smallest_of(b)},
                                  {"to", smallest_of(b + 1) - 1},
                                  {"sequences", lengths.histogram[b]}});
    }
    if (d.has_modes()) j["modes"] = true;
    if (metadata) j["side_file"] = io::parse_ordered_json(metadata->to_json(), d.prefix());
    cli::write_stdout(io::json_line(j));
}

void print_text(const data::IndexedDataset& d, const Lengths& lengths,
                const std::optional<data::DatasetMetadata>& metadata) {
    const double mean = d.n_sequences() > 0 ? static_cast<double>(d.n_tokens()) /
                                                  static_cast<double>(d.n_sequences())
                                            : 0.0;
    std::string out =
        fmt::format("{}\n  documents  {}\n  sequences  {}\n  tokens     {}\n  dtype      {}\n",
                    printable(d.prefix()), d.n_documents(), d.n_sequences(), d.n_tokens(),
                    name_of(d.token_type()));
    if (d.n_sequences() > 0) {
        out += fmt::format("  length     shortest {}, mean {:.1f}, longest {} (sequence {})\n",
                           lengths.shortest, mean, lengths.longest, lengths.longest_at);
    }
    if (d.has_modes()) out += "  modes      one for each sequence (multimodal), not used\n";
    if (metadata) {
        out += fmt::format("  tokenizer  {} ({} ids, padded to {}), {}\n",
                           printable(metadata->tokenizer.type), metadata->tokenizer.vocab_size,
                           metadata->tokenizer.padded_vocab_size,
                           printable(metadata->tokenizer.digest));
        out += fmt::format("  largest id {}; end of document {}{}\n", metadata->largest_id,
                           metadata->eod_id ? fmt::format("{}", *metadata->eod_id) : "none",
                           metadata->appended_eod ? ", appended" : ", not appended");
        out += fmt::format("  made by    {}\n", printable(metadata->tool));
    }
    if (d.n_sequences() > 0) out += "  tokens per sequence\n";
    const i64 most = lengths.histogram.empty()
                         ? 1
                         : std::max<i64>(1, *std::ranges::max_element(lengths.histogram));
    for (size_t b = 0; b < lengths.histogram.size(); ++b) {
        const i64 n = lengths.histogram[b];
        if (n == 0) continue;
        out += fmt::format("{:>12}-{:<10} {:>12} {}\n", smallest_of(b),
                           std::max<i64>(smallest_of(b + 1) - 1, 0), n,
                           std::string(static_cast<size_t>(40 * n / most), '*'));
    }
    cli::write_stdout(out);
}

int info(const InfoArgs& args) {
    const auto dataset = data::IndexedDataset::open(args.prefix);
    const auto metadata = data::read_metadata(dataset);
    check_documents(dataset);
    const Lengths lengths = measure(dataset);
    args.json ? print_json(dataset, lengths, metadata) : print_text(dataset, lengths, metadata);
    return 0;
}

}  // namespace

void declare_info(cli::Options& options) {
    auto args = std::make_shared<InfoArgs>();
    cli::Options& verb = options.verb("info", "describe a dataset", [args] { return info(*args); });
    verb.examples({"lm-preprocess info corpus_text_document"});
    verb.positional("PREFIX", &args->prefix, "the files PREFIX.bin and PREFIX.idx of a dataset");
    verb.flag("--json", &args->json, "print JSON Lines");
}

}  // namespace lm::preprocess
