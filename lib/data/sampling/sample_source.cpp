// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/sample_source.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace lm::data {

void check_tokens(i64 n_tokens, i64 seq_length, const std::string& what) {
    if (n_tokens >= seq_length + 1) return;
    usage_error("--seq-length",
                "{} has {} tokens, one sample needs {}: use more data, a shorter sequence or "
                "another --split",
                what, n_tokens, seq_length + 1);
}

DatasetUse dataset_use(const TokenRange& range, i64 n_tokens, i64 seq_length, i64 n_samples) {
    DatasetUse use;
    use.prefix = range.dataset->prefix();
    use.sequences = range.sequences;
    use.tokens = n_tokens;
    use.epoch_samples = (n_tokens - 1) / seq_length;
    use.samples = n_samples;
    use.weight = 1.0;
    use.epochs = static_cast<double>(n_samples) / static_cast<double>(use.epoch_samples);
    return use;
}

void read_checked(const IndexedDataset& dataset, i64 vocab_size, i64 position, std::span<i32> out) {
    dataset.read(position, out);
    u32 largest = 0;  // a negative id becomes a large number
    for (const i32 id : out) largest = std::max(largest, static_cast<u32>(id));
    if (static_cast<i64>(largest) < vocab_size) return;
    const auto bad = std::find_if(out.begin(), out.end(), [&](i32 id) {
        return static_cast<i64>(static_cast<u32>(id)) >= vocab_size;
    });
    const i64 at = position + (bad - out.begin());
    const i64 sequence = dataset.sequence_at(at);
    run_error(bin_path(dataset.prefix()),
              "document {} has the id {} at its token {}, but the model's vocabulary has {} ids: "
              "encode the data with the model's tokenizer, or set --vocab-size",
              sequence, *bad, at - dataset.position(sequence), vocab_size);
}

void append_spans(const IndexedDataset& dataset, i64 position, i64 count,
                  std::vector<TokenSpan>& spans) {
    while (count > 0) {
        const i64 sequence = dataset.sequence_at(position);
        const i64 offset = position - dataset.position(sequence);
        const i64 take = std::min(count, dataset.length(sequence) - offset);
        if (take <= 0) {
            run_error(idx_path(dataset.prefix()),
                      "corrupt: sequence {} has {} tokens, but its pointer and the next one are "
                      "more than {} tokens apart: run lm-preprocess verify {}",
                      sequence, dataset.length(sequence), offset, dataset.prefix());
        }
        spans.push_back({&dataset, sequence, offset, take});
        position += take;
        count -= take;
    }
}

}  // namespace lm::data
