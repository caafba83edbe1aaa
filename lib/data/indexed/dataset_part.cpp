// SPDX-License-Identifier: Apache-2.0
#include "data/indexed/dataset_part.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "io/json.hpp"

namespace lm::data {
namespace {

bool is_one(i32 n) {
    return n == 1;
}

}  // namespace

size_t DigestedFile::count_matching(std::span<const SizeAndDigest> wanted,
                                    const std::function<void()>& check) {
    size_t n = 0;
    BlockDigester digester;
    // Called at each size in `wanted`: compares the digests. digest_ keeps the digest at the last
    // matching size, so that append() can continue from there.
    const auto compare = [&] {
        while (n < wanted.size() && wanted[n].first == digester.n_bytes() &&
               wanted[n].second == digester.finish()) {
            digest_ = digester;
            ++n;
        }
    };
    digest_ = BlockDigester();
    compare();
    if (wanted.empty()) return n;
    const i64 most = std::min(wanted.back().first, file_.size());
    file_.for_each_block(most, [&](std::span<const std::byte> block) {
        check();
        while (n < wanted.size() && wanted[n].first > digester.n_bytes() && !block.empty()) {
            const i64 missing = wanted[n].first - digester.n_bytes();
            const auto size =
                static_cast<size_t>(std::min(static_cast<i64>(block.size()), missing));
            digester.update(block.first(size));
            block = block.subspan(size);
            compare();
        }
    });
    return n;
}

void DigestedFile::cut_back(i64 size, const std::function<void()>& check) {
    file_.truncate(size);
    if (digest_.n_bytes() == size) return;
    digest_ = BlockDigester();
    file_.for_each_block(size, [&](std::span<const std::byte> block) {
        check();
        digest_.update(block);
    });
}

void DigestedFile::append(std::span<const std::byte> bytes) {
    file_.write(bytes);
    digest_.update(bytes);
}

std::string DigestedFile::flush_and_digest() {
    file_.flush();
    return digest_.finish();
}

io::OrderedJson PartState::to_json() const {
    io::OrderedJson j;
    j["bytes"] = bytes;
    j["sequences"] = sequences;
    j["documents"] = documents;
    j["largest_id"] = largest_id;
    j["counted"] = counted;
    j["bin_digest"] = bin_digest;
    j["lengths_digest"] = lengths_digest;
    j["documents_digest"] = documents_digest;
    return j;
}

PartState PartState::parse(const io::Json& object, const std::string& path) {
    PartState s;
    s.bytes = io::json_get<i64>(object, "bytes", path);
    s.sequences = io::json_get<i64>(object, "sequences", path);
    s.documents = io::json_get<i64>(object, "documents", path);
    s.largest_id = io::json_get<i64>(object, "largest_id", path);
    s.counted = io::json_get<bool>(object, "counted", path);
    s.bin_digest = io::json_get<std::string>(object, "bin_digest", path);
    s.lengths_digest = io::json_get<std::string>(object, "lengths_digest", path);
    s.documents_digest = io::json_get<std::string>(object, "documents_digest", path);
    return s;
}

DatasetPart DatasetPart::open(const std::string& stem, TokenType type, io::ReadAgain read_again) {
    return {type, io::AppendFile::open(bin_of(stem), read_again),
            io::AppendFile::open(lengths_of(stem)), io::AppendFile::open(documents_of(stem))};
}

size_t DatasetPart::count_intact(std::span<const PartState> states,
                                 const std::function<void()>& check) {
    std::vector<DigestedFile::SizeAndDigest> bin, lengths, documents;
    for (const PartState& s : states) {
        bin.emplace_back(s.bytes, s.bin_digest);
        lengths.emplace_back(4 * s.sequences, s.lengths_digest);
        documents.emplace_back(s.counted ? 4 * s.documents : 0, s.documents_digest);
    }
    return std::min({bin_.count_matching(bin, check), lengths_.count_matching(lengths, check),
                     documents_.count_matching(documents, check)});
}

void DatasetPart::resume(const PartState& state, const std::function<void()>& check) {
    state_ = state;
    bin_.cut_back(state.bytes, check);
    lengths_.cut_back(4 * state.sequences, check);
    documents_.cut_back(state.counted ? 4 * state.documents : 0, check);
}

void DatasetPart::add_tokens(std::span<const std::byte> tokens, i64 largest) {
    bin_.append(tokens);
    const auto n_bytes = static_cast<i64>(tokens.size());
    state_.bytes += n_bytes;
    ahead_ += n_bytes;
    state_.largest_id = std::max(state_.largest_id, largest);
}

void DatasetPart::add(std::span<const std::byte> tokens, std::span<const i32> lengths,
                      std::span<const i32> sequences_per_document, i64 largest) {
    add_tokens(tokens, largest);
    const i64 sum = std::accumulate(lengths.begin(), lengths.end(), i64{0});
    LM_CHECK(sum * size_of(type_) == ahead_,
             "expected {} bytes of tokens, which is the sum of the lengths, got {}",
             sum * size_of(type_), ahead_);
    ahead_ = 0;
    if (!state_.counted && !std::ranges::all_of(sequences_per_document, is_one)) {
        // This is the first call with a document that has no sequence or several. Each document of
        // earlier calls has one sequence, so the file gets a 1 for each of them.
        state_.counted = true;
        const std::vector<i32> ones(static_cast<size_t>(idx_entries_at_once), 1);
        for (i64 begin = 0; begin < state_.documents; begin += idx_entries_at_once) {
            const i64 n = std::min(idx_entries_at_once, state_.documents - begin);
            documents_.append(std::as_bytes(std::span(ones).first(static_cast<size_t>(n))));
        }
    }
    lengths_.append(std::as_bytes(lengths));
    if (state_.counted) documents_.append(std::as_bytes(sequences_per_document));
    state_.sequences += static_cast<i64>(lengths.size());
    state_.documents += static_cast<i64>(sequences_per_document.size());
}

PartState DatasetPart::state() {
    LM_CHECK(ahead_ == 0, "expected complete documents, got {} bytes of tokens without a length",
             ahead_);
    state_.bin_digest = bin_.flush_and_digest();
    state_.lengths_digest = lengths_.flush_and_digest();
    state_.documents_digest = documents_.flush_and_digest();
    return state_;
}

void DatasetPart::sync() {
    bin_.sync();
    lengths_.sync();
    documents_.sync();
}

}  // namespace lm::data
