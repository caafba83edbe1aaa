// SPDX-License-Identifier: Apache-2.0
#include "data/jsonl.hpp"

#include <simdjson.h>

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "text/utf8.hpp"

namespace lm::data {
namespace {

constexpr size_t keep_bytes = size_t{32} << 20;  // a parser grown beyond this is made anew

}  // namespace

void LineChunk::reserve(size_t bytes, size_t keep) {
    if (bytes <= capacity_) return;
    std::unique_ptr<char[]> larger(new char[bytes + padding]);
    if (keep > 0) std::memcpy(larger.get(), buffer_.get(), keep);
    std::memset(larger.get() + bytes, 0, padding);
    buffer_ = std::move(larger);
    capacity_ = bytes;
}

ChunkReader::ChunkReader(std::vector<std::string> inputs, i64 chunk_bytes)
    : inputs_(std::move(inputs)), chunk_bytes_(static_cast<size_t>(chunk_bytes)) {}

bool ChunkReader::open_next() {
    if (next_input_ == inputs_.size()) return false;
    stream_ = io::open_stream(inputs_[next_input_++]);
    at_start_ = true;
    return true;
}

i64 ChunkReader::compressed_bytes_read() const {
    return finished_bytes_ + (stream_ ? stream_->compressed_bytes_read() : 0);
}

bool ChunkReader::next(LineChunk& chunk) {
    chunk.size_ = 0;
    while (chunk.size_ == 0) {
        if (!stream_ && !open_next()) return false;
        if (chunk.capacity_ > 4 * chunk_bytes_) chunk = LineChunk();  // a long line has gone by
        chunk.reserve(std::max(chunk_bytes_, rest_.size() + chunk_bytes_ / 4), 0);
        std::memcpy(chunk.buffer_.get(), rest_.data(), rest_.size());
        size_t filled = rest_.size();
        size_t whole = 0;  // bytes up to the end of the last whole line
        rest_.clear();
        for (;;) {
            const std::span<char> room(chunk.buffer_.get() + filled, chunk.capacity_ - filled);
            const auto got = static_cast<size_t>(stream_->read(std::as_writable_bytes(room)));
            bytes_read_ += static_cast<i64>(got);
            const void* end = ::memrchr(room.data(), '\n', got);
            if (end != nullptr)
                whole =
                    static_cast<size_t>(static_cast<const char*>(end) - chunk.buffer_.get()) + 1;
            filled += got;
            if (got < room.size()) {
                finished_bytes_ += stream_->compressed_bytes_read();
                stream_.reset();
                whole = filled;
                break;
            }
            if (whole > 0) break;
            chunk.reserve(chunk.capacity_ * 2, filled);
        }
        rest_.assign(chunk.buffer_.get() + whole, filled - whole);
        chunk.size_ = whole;
        std::memset(chunk.buffer_.get() + whole, 0, LineChunk::padding);
        chunk.file = static_cast<int>(next_input_) - 1;
        chunk.first = at_start_;
        at_start_ = at_start_ && whole == 0;
    }
    return true;
}

std::string_view take_line(std::string_view& text) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    return line;
}

struct LineParser::State {
    std::vector<std::string> keys;
    BadBytes bad_bytes;
    simdjson::dom::parser parser;
    std::vector<LineValue> values;
    std::vector<JsonValue> slow;  // owns the strings that the slow path made
    std::string cleaned;
    bool replaced = false;

    bool parse_fast(std::string_view line);
    bool take(LineValue& value, simdjson::dom::element element);
    void parse_slow(std::string_view line);
    void adopt(size_t k);
};

// False: anything out of the ordinary, left to the slow path.
bool LineParser::State::parse_fast(std::string_view line) {
    simdjson::dom::object object;
    if (parser.parse(line.data(), line.size(), false).get_object().get(object) !=
        simdjson::SUCCESS) {
        return false;
    }
    size_t found = 0;
    for (const auto field : object) {
        for (size_t k = 0; k < keys.size(); ++k) {
            if (field.key != keys[k]) continue;
            if (found >> k & 1 || !take(values[k], field.value)) return false;
            found |= size_t{1} << k;
        }
    }
    return found == (size_t{1} << keys.size()) - 1;
}

bool LineParser::State::take(LineValue& value, simdjson::dom::element element) {
    value.sentences.clear();
    simdjson::dom::array sentences;
    value.is_list = element.get_array().get(sentences) == simdjson::SUCCESS;
    if (!value.is_list) return element.get_string().get(value.text) == simdjson::SUCCESS;
    for (const simdjson::dom::element sentence : sentences) {
        std::string_view text;
        if (sentence.get_string().get(text) != simdjson::SUCCESS) return false;
        value.sentences.push_back(text);
    }
    return true;
}

void LineParser::State::adopt(size_t k) {
    JsonValue& from = slow[k];
    LineValue& to = values[k];
    if (from.kind == JsonValue::Kind::missing)
        throw LineError{1, "there is no key '" + keys[k] + "'"};
    if (from.kind == JsonValue::Kind::other) {
        throw LineError{from.byte, "'" + keys[k] + "' is " + from.what + ", not a string"};
    }
    to.is_list = from.kind == JsonValue::Kind::strings;
    to.text = from.text;
    to.sentences.assign(from.sentences.begin(), from.sentences.end());
}

void LineParser::State::parse_slow(std::string_view line) {
    const bool replace = bad_bytes == BadBytes::replace;
    if (const i64 bad = text::find_invalid_utf8(line); bad >= 0) {
        if (!replace) throw LineError{bad + 1, "not valid UTF-8"};
        cleaned.clear();
        text::append_lossy(cleaned, line);
        line = cleaned;
        replaced = true;
    }
    JsonLine read =
        read_json_line(line, keys, replace ? LoneSurrogates::replace : LoneSurrogates::refuse);
    replaced = replaced || read.n_replaced > 0;
    slow = std::move(read.values);
    for (size_t k = 0; k < keys.size(); ++k) adopt(k);
}

LineParser::LineParser(std::vector<std::string> keys, BadBytes bad_bytes)
    : state_(std::make_unique<State>()) {
    LM_CHECK(!keys.empty() && keys.size() < 64, "1 to 63 keys");
    state_->values.resize(keys.size());
    state_->keys = std::move(keys);
    state_->bad_bytes = bad_bytes;
}

LineParser::~LineParser() = default;
LineParser::LineParser(LineParser&&) noexcept = default;

std::span<const LineValue> LineParser::parse(std::string_view line) {
    state_->replaced = false;
    if (state_->parser.capacity() > keep_bytes && line.size() <= keep_bytes) {
        state_->parser = simdjson::dom::parser();
    }
    if (!state_->parse_fast(line)) state_->parse_slow(line);
    return state_->values;
}

bool LineParser::replaced() const {
    return state_->replaced;
}

}  // namespace lm::data
