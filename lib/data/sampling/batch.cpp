// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/batch.hpp"

#include <algorithm>
#include <numeric>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/shape.hpp"
#include "data/sampling/row_order.hpp"

namespace lm::data {

void BatchOptions::check() const {
    check_at_least("--micro-batch-size", micro_batch, 1);
    if (eod_id) return;
    const bool by_token = !documents_of_index;
    const char* flag = by_token && reset_position_ids     ? "--reset-position-ids"
                       : by_token && reset_attention_mask ? "--reset-attention-mask"
                       : eod_mask_loss                    ? "--eod-mask-loss"
                                                          : nullptr;
    if (flag != nullptr) {
        usage_error(flag,
                    "the id of the end-of-document token is unknown: name the tokenizer, or make "
                    "the data with lm-preprocess, which writes the id to the metadata file");
    }
}

Batch::Batch(i64 length, const BatchOptions& options)
    : n_rows(options.micro_batch), seq_length(length) {
    const size_t n = static_cast<size_t>(checked_mul(n_rows, seq_length));
    tokens.resize(n);
    targets.resize(n);
    sample_ids.resize(static_cast<size_t>(n_rows));
    if (options.reset_position_ids) positions.resize(n);
    if (options.reset_attention_mask) document_starts.resize(n);
    if (options.eod_mask_loss) loss_mask.resize(n);
    if (options.n_ids == 0) return;
    token_order.resize(n);
    std::iota(token_order.begin(), token_order.end(), 0);
    if (options.reset_position_ids) position_order = token_order;
}

i64 Batch::n_bytes() const {
    const auto size = [](const auto&... fields) { return (std::span(fields).size_bytes() + ...); };
    return static_cast<i64>(size(tokens, targets, sample_ids, positions, document_starts, loss_mask,
                                 token_order, position_order));
}

i64 Batch::n_unmasked() const {
    if (loss_mask.empty()) return static_cast<i64>(tokens.size());
    return std::ranges::count(loss_mask, 1.0F);
}

void mark_documents(std::span<const i32> tokens, i64 eod_id, std::span<i32> positions,
                    std::span<i32> document_starts, std::span<float> loss_mask) {
    i32 start = 0;
    for (size_t t = 0; t < tokens.size(); ++t) {
        const i32 here = static_cast<i32>(t);
        const bool eod = tokens[t] == eod_id;
        if (!positions.empty()) positions[t] = here - start;
        if (!document_starts.empty()) document_starts[t] = start;
        if (!loss_mask.empty()) loss_mask[t] = eod ? 0.0F : 1.0F;
        if (eod) start = here + 1;
    }
}

void mark_documents(const std::vector<TokenSpan>& spans, std::span<i32> positions,
                    std::span<i32> document_starts) {
    const size_t n = std::max(positions.size(), document_starts.size());
    size_t start = 0, end = spans.empty() ? n : static_cast<size_t>(spans.front().count);
    size_t span = 0;
    for (size_t t = 0; t < n; ++t) {
        if (t == end && span + 1 < spans.size()) {
            start = end;
            end += static_cast<size_t>(spans[++span].count);
        }
        if (!positions.empty()) positions[t] = static_cast<i32>(t - start);
        if (!document_starts.empty()) document_starts[t] = static_cast<i32>(start);
    }
}

void fill_batch(const SampleSource& source, const BatchOptions& options, i64 first_sample,
                Batch& batch) {
    thread_local std::vector<i32> row;
    const size_t length = static_cast<size_t>(batch.seq_length);
    LM_CHECK(source.seq_length() == batch.seq_length, "expected seq_length={}, got {}",
             source.seq_length(), batch.seq_length);
    row.resize(length + 1);
    const auto part = [&](auto& all, i64 r) {
        using Span = std::span<std::remove_reference_t<decltype(all[0])>>;
        return all.empty() ? Span() : Span(all).subspan(static_cast<size_t>(r) * length, length);
    };
    for (i64 r = 0; r < batch.n_rows; ++r) {
        const i64 sample = first_sample + r;
        if (sample >= source.size()) {
            usage_error("--data-path", "sample {} does not exist: this run planned {} samples",
                        sample, source.size());
        }
        source.fill(sample, row);
        const auto tokens = part(batch.tokens, r);
        std::copy_n(row.begin(), length, tokens.begin());
        std::copy_n(row.begin() + 1, length, part(batch.targets, r).begin());
        batch.sample_ids[static_cast<size_t>(r)] = sample;
        const auto positions = part(batch.positions, r), starts = part(batch.document_starts, r);
        const auto loss_mask = part(batch.loss_mask, r);
        if (options.eod_id) mark_documents(tokens, *options.eod_id, positions, starts, loss_mask);
        if (options.documents_of_index) mark_documents(source.spans(sample), positions, starts);
    }
    if (!batch.token_order.empty()) order_rows(batch.tokens, options.n_ids, batch.token_order);
    if (!batch.position_order.empty()) {
        order_rows(batch.positions, batch.seq_length, batch.position_order);
    }
}

void truncate(const Batch& full, i64 seq_length, Batch& batch) {
    LM_CHECK(seq_length > 0 && seq_length <= full.seq_length,
             "expected seq_length of at most {}, got {}", full.seq_length, seq_length);
    batch.n_rows = full.n_rows;
    batch.seq_length = seq_length;
    batch.sample_ids = full.sample_ids;
    const auto cut = [&](const auto& from, auto& to) {
        to.clear();
        to.reserve(from.size());
        for (i64 r = 0; r < full.n_rows && !from.empty(); ++r) {
            const auto begin = from.begin() + r * full.seq_length;
            to.insert(to.end(), begin, begin + seq_length);
        }
    };
    cut(full.tokens, batch.tokens);
    cut(full.targets, batch.targets);
    cut(full.positions, batch.positions);
    cut(full.document_starts, batch.document_starts);
    cut(full.loss_mask, batch.loss_mask);
    const auto cut_rows = [&](const std::vector<i32>& from, std::vector<i32>& to) {
        to.reserve(from.size());
        to.resize(from.empty() ? 0 : static_cast<size_t>(full.n_rows * seq_length));
        cut_order(from, full.seq_length, seq_length, to);
    };
    cut_rows(full.token_order, batch.token_order);
    cut_rows(full.position_order, batch.position_order);
}

}  // namespace lm::data
