// SPDX-License-Identifier: Apache-2.0
// A micro-batch on the host: samples, and the boundaries of their documents.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/types.hpp"
#include "data/sampling/sample_source.hpp"

namespace lm::data {

// Selects the fields of a batch in addition to tokens and targets. A document ends with eod_id.
struct BatchOptions {
    i64 micro_batch = 1;
    std::optional<i64> eod_id;          // of the next three flags
    bool reset_position_ids = false;    // positions restart at 0 after each eod
    bool reset_attention_mask = false;  // Batch::document_starts is filled
    bool eod_mask_loss = false;         // the prediction of the token after an eod has no loss
    // The documents of the index bound positions and attention instead of eod, so data without eod
    // has bounds, too.
    bool documents_of_index = false;
    // Number of token ids. Above 0: Batch::token_order is filled, and with reset_position_ids also
    // position_order.
    i64 n_ids = 0;

    // Throws Error(usage) when a flag needs eod_id and it is not set.
    void check() const;
};

// A micro-batch. A vector is empty if the option that fills it is off.
struct Batch {
    i64 n_rows = 0;               // B
    i64 seq_length = 0;           // T
    std::vector<i32> tokens;      // [B, T]
    std::vector<i32> targets;     // [B, T] the token after each of `tokens`
    std::vector<i64> sample_ids;  // [B] global sample numbers
    std::vector<i32> positions;   // [B, T] with reset_position_ids
    // [B, T] with reset_attention_mask: the first position to which each token may attend.
    std::vector<i32> document_starts;
    std::vector<float> loss_mask;     // [B, T] with eod_mask_loss: 1 or 0
    std::vector<i32> token_order;     // [B * T] with n_ids: rows sorted by token, order_rows()
    std::vector<i32> position_order;  // [B * T] rows sorted by position

    Batch() = default;
    Batch(i64 seq_length, const BatchOptions& options);

    // Returns the size of all fields in bytes.
    i64 n_bytes() const;
    // Returns the number of tokens that the loss counts.
    i64 n_unmasked() const;
};

// Fills `batch` with samples [first_sample, first_sample + B). `batch` must be constructed with the
// same options. The first call in a thread allocates memory for one row of tokens; later calls
// allocate nothing.
void fill_batch(const SampleSource& source, const BatchOptions& options, i64 first_sample,
                Batch& batch);

// Fills the three optional fields of one row from its input tokens, [T]. Each field is [T] or
// empty.
void mark_documents(std::span<const i32> tokens, i64 eod_id, std::span<i32> positions,
                    std::span<i32> document_starts, std::span<float> loss_mask);

// Fills the fields of one row from the documents that its tokens come from: `spans` in order.
// Tokens after the last span belong to the last document. Each field is [T] or empty.
void mark_documents(const std::vector<TokenSpan>& spans, std::span<i32> positions,
                    std::span<i32> document_starts);

// Copies the first `seq_length` tokens of each row of `full` to `batch`, for the curriculum of
// Megatron-DeepSpeed. Reuses the memory of `batch`. The last target of a row of `batch` is the
// token that follows the row's last token in `full`.
void truncate(const Batch& full, i64 seq_length, Batch& batch);

}  // namespace lm::data
