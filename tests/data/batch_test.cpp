// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/batch.hpp"

#include "counting_source.hpp"
#include "support/catch.hpp"

using lm::i32;
using lm::i64;
using lm::data::Batch;
using lm::data::BatchOptions;
using lm::data::Counting;

TEST_CASE("a truncated batch has the first tokens and targets of each row") {
    const Counting source(6, lm::data::endless);
    BatchOptions options;
    options.micro_batch = 2;
    options.eod_id = 102;
    options.reset_position_ids = options.reset_attention_mask = options.eod_mask_loss = true;
    Batch full(6, options);
    lm::data::fill_batch(source, options, 0, full);
    Batch batch;
    for (const i64 length : {2, 6, 4}) {
        lm::data::truncate(full, length, batch);
        CHECK(batch.seq_length == length);
        CHECK(batch.sample_ids == std::vector<i64>{0, 1});
    }
    CHECK(batch.tokens == std::vector<i32>{0, 1, 2, 3, 100, 101, 102, 103});
    CHECK(batch.targets == std::vector<i32>{1, 2, 3, 4, 101, 102, 103, 104});
    CHECK(batch.positions == std::vector<i32>{0, 1, 2, 3, 0, 1, 2, 0});
    CHECK(batch.document_starts == std::vector<i32>{0, 0, 0, 0, 0, 0, 0, 3});
    CHECK(batch.loss_mask == std::vector<float>{1, 1, 1, 1, 1, 1, 0, 1});
}

TEST_CASE("positions and document starts restart after each eod") {
    const std::vector<i32> tokens = {5, 9, 9, 6, 7, 9, 8};
    std::vector<i32> positions(7), starts(7);
    std::vector<float> mask(7);
    lm::data::mark_documents(tokens, 9, positions, starts, mask);
    CHECK(positions == std::vector<i32>{0, 1, 0, 0, 1, 2, 0});
    CHECK(starts == std::vector<i32>{0, 0, 2, 3, 3, 3, 6});
    CHECK(mask == std::vector<float>{1, 0, 0, 1, 1, 0, 1});
}

TEST_CASE("a batch has only the fields of its options") {
    const Counting source(4, lm::data::endless);
    BatchOptions options;
    options.micro_batch = 2;
    Batch plain(4, options);
    lm::data::fill_batch(source, options, 0, plain);
    CHECK(plain.positions.empty());
    CHECK(plain.n_unmasked() == 8);
    options.reset_position_ids = options.reset_attention_mask = options.eod_mask_loss = true;
    CHECK_THROWS_WITH(options.check(), ContainsSubstring("--reset-position-ids"));
    options.eod_id = 101;
    Batch batch(4, options);
    lm::data::fill_batch(source, options, 0, batch);
    CHECK(batch.positions == std::vector<i32>{0, 1, 2, 3, 0, 1, 0, 1});
    CHECK(batch.document_starts == std::vector<i32>{0, 0, 0, 0, 0, 0, 2, 2});
    CHECK(batch.loss_mask == std::vector<float>{1, 1, 1, 1, 1, 0, 1, 1});
    CHECK(batch.n_unmasked() == 7);
}

TEST_CASE("documents of the index bound positions and attention") {
    const auto spans = [](std::initializer_list<i64> counts) {
        std::vector<lm::data::TokenSpan> result;
        for (const i64 count : counts) result.push_back({nullptr, 0, 0, count});
        return result;
    };
    std::vector<i32> positions(6), starts(6);
    // The last span also has the token that is only a target.
    lm::data::mark_documents(spans({2, 1, 4}), positions, starts);
    CHECK(positions == std::vector<i32>{0, 1, 0, 0, 1, 2});
    CHECK(starts == std::vector<i32>{0, 0, 2, 3, 3, 3});
    lm::data::mark_documents(spans({6, 1}), positions, starts);
    CHECK(positions == std::vector<i32>{0, 1, 2, 3, 4, 5});
    lm::data::mark_documents(spans({}), positions, {});  // mock data
    CHECK(positions == std::vector<i32>{0, 1, 2, 3, 4, 5});
    lm::data::mark_documents(spans({3, 1}), {}, starts);
    CHECK(starts == std::vector<i32>{0, 0, 0, 3, 3, 3});

    BatchOptions options;
    options.documents_of_index = options.reset_position_ids = options.reset_attention_mask = true;
    CHECK_NOTHROW(options.check());  // needs no end-of-document token
    options.eod_mask_loss = true;
    CHECK_THROWS_WITH(options.check(), StartsWith("--eod-mask-loss: "));
}
