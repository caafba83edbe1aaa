// SPDX-License-Identifier: Apache-2.0
#include "preprocess/part_writer.hpp"

#include <algorithm>

namespace lm::preprocess {
namespace {

constexpr i64 record_bytes = i64{8} << 20;  // input text between two records

}  // namespace

PartWriter PartWriter::open(const std::string& journal, const std::vector<std::string>& stems,
                            data::TokenType type, io::ReadAgain read_again) {
    PartWriter writer(PartJournal::open(journal));
    for (const std::string& stem : stems) {
        writer.parts_.push_back(data::DatasetPart::open(stem, type, read_again));
    }
    for (data::DatasetPart& part : writer.parts_) writer.record_.keys.push_back(part.state());
    return writer;
}

void PartWriter::resume(const std::function<void()>& check) {
    // A kill may leave files that lack the data of the last records, so each file matches only the
    // first records of the journal. `n` becomes the number of records that all files match.
    std::vector<PartRecord> records = journal_.read(parts_.size());
    size_t n = records.size();
    for (size_t k = 0; k < parts_.size(); ++k) {
        std::vector<data::PartState> states;
        for (const PartRecord& record : records) states.push_back(record.keys[k]);
        n = std::min(n, parts_[k].count_intact(states, check));
    }
    if (n > 0) record_ = std::move(records[n - 1]);
    // Truncates the journal before the files. A kill between these steps leaves files that are
    // longer than the last record states. The next resume() truncates them.
    journal_.keep(n);
    for (size_t k = 0; k < parts_.size(); ++k)
        parts_[k].resume(n > 0 ? record_.keys[k] : data::PartState(), check);
}

i64 PartWriter::lines_before(const data::LineChunk& chunk) const {
    return chunk.first ? 0 : record_.lines;
}

BuildTotals PartWriter::append_ahead(const KeyTokens& ids, size_t key) {
    // A resumed run cannot start within a chunk, so the previous chunks are recorded first.
    if (!within_chunk_) write_record();
    within_chunk_ = true;
    parts_[key].add_tokens(ids.ids.bytes(), ids.largest);
    BuildTotals ahead;
    ahead.tokens = ids.ids.size();
    record_.totals += ahead;
    return ahead;
}

BuildTotals PartWriter::append(const EncodedChunk& encoded) {
    const data::LineChunk& chunk = encoded.chunk;
    within_chunk_ = false;
    BuildTotals totals;
    totals.documents = encoded.n_documents;
    totals.text_bytes = encoded.text_bytes;
    totals.input_bytes = static_cast<i64>(chunk.text().size());
    totals.blank = encoded.n_blank;
    totals.bad = encoded.bad.count;
    totals.replaced = encoded.n_replaced;
    for (size_t k = 0; k < parts_.size(); ++k) {
        const KeyTokens& key = encoded.keys[k];
        parts_[k].add(key.ids.bytes(), key.lengths, key.sequences_per_document, key.largest);
        totals.tokens += key.ids.size();
    }
    const bool ends_piece = chunk.next.offset < 0;
    record_.lines = ends_piece ? 0 : lines_before(chunk) + encoded.n_lines;
    record_.next = chunk.next;
    record_.totals += totals;
    unrecorded_bytes_ += totals.input_bytes;
    if (unrecorded_bytes_ >= record_bytes) write_record();
    return totals;
}

void PartWriter::save() {
    if (!within_chunk_) write_record();
}

void PartWriter::finish() {
    // The files are made durable before the journal states that the part is finished.
    record_.finished = true;
    for (data::DatasetPart& part : parts_) part.sync();
    write_record();
    journal_.sync();
}

void PartWriter::write_record() {
    for (size_t k = 0; k < parts_.size(); ++k) record_.keys[k] = parts_[k].state();
    journal_.append(record_);
    unrecorded_bytes_ = 0;
}

}  // namespace lm::preprocess
