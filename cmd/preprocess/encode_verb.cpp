// SPDX-License-Identifier: Apache-2.0
// lm-preprocess encode and decode: filters that convert lines of text to lines of ids and back.
// decode also reads the objects that encode --json writes.

#include <fmt/ranges.h>

#include <charconv>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <span>

#include "args.hpp"
#include "base/error.hpp"
#include "base/utf8.hpp"
#include "cli/main.hpp"
#include "cli/terminal.hpp"
#include "data/indexed/indexed_dataset.hpp"
#include "data/jsonl/line_parser.hpp"
#include "io/json.hpp"
#include "text/bpe/byte_map.hpp"
#include "text/normalizer/normalizer.hpp"

namespace lm::preprocess {
namespace {

struct CodecArgs {
    text::TokenizerChoice tokenizer;
    bool whole = false;
    bool append_eod = false;
    bool no_newline = false;
    bool json = false;
    bool binary = false;
};

constexpr const char* stdin_name = "standard input";

// Calls `use` with each line of standard input and the number of the line. If `whole` is set, calls
// `use` once with all of standard input.
void for_each_text(bool whole, const std::function<void(std::string_view, i64)>& use) {
    // Standard input is read as a piece, because the reader decompresses only whole inputs. Here,
    // bytes that look compressed are text or ids.
    constexpr data::InputPiece as_it_comes{0, 0, std::numeric_limits<i64>::max()};
    data::ChunkReader reader({{"-"}}, {as_it_comes}, i64{1} << 20, {}, 1);
    data::LineChunk chunk;
    std::string all;
    i64 line = 0;
    while (reader.next(chunk)) {
        std::string_view text = chunk.text();
        if (whole) {
            all.append(text);
            continue;
        }
        while (!text.empty()) use(data::next_line(text), ++line);
    }
    if (whole) use(all, 1);
}

std::string text_line(std::span<const i32> ids) {
    return fmt::format("{}\n", fmt::join(ids, " "));
}

// Returns the line that --json prints. The line spells tokens as in vocab.json, because the bytes
// of a token may be invalid UTF-8.
std::string json_line(std::span<const i32> ids, const text::Tokenizer& tokenizer) {
    io::OrderedJson json;
    json["ids"] = ids;
    json["tokens"] = io::OrderedJson::array();
    for (const i32 id : ids) json["tokens"].push_back(text::token_of_bytes(tokenizer.token(id)));
    return json.dump() + "\n";
}

// Returns the ids in the format of a .bin file.
template <typename Id>
std::string binary_ids(std::span<const i32> ids) {
    std::string bytes(ids.size() * sizeof(Id), '\0');
    for (size_t i = 0; i < ids.size(); ++i) {
        const auto id = static_cast<Id>(ids[i]);
        std::memcpy(bytes.data() + i * sizeof(Id), &id, sizeof id);
    }
    return bytes;
}

bool is_narrow(const text::Tokenizer& tokenizer) {
    return data::token_type_for(tokenizer.vocab_size()) == data::TokenType::u16;
}

void check(const CodecArgs& args) {
    if (args.json && args.binary)
        usage_error("--binary", "cannot be combined with --json: give one of the two");
}

void encode_text(text::Encoder& encoder, std::string_view text, i64 line, text::IdBuffer& ids) {
    const auto refuse = [&](const char* why) {
        run_error(fmt::format("{}:{}", stdin_name, line), "{}", why);
    };
    if (static_cast<i64>(text.size()) > max_text_bytes) refuse("the text is longer than 2.15 GB");
    try {
        encoder.encode(text, ids);
    } catch (const text::TextTooLong& error) {
        refuse(error.what());
    } catch (const text::UnknownByte& error) {
        refuse(error.what());
    }
}

int encode(const CodecArgs& args) {
    check(args);
    if (args.binary && cli::stdout_is_terminal())
        usage_error("--binary", "writes no binary data to a terminal: redirect the output");
    const auto tokenizer = text::load_tokenizer(args.tokenizer);
    if (args.append_eod && !tokenizer->eod())
        usage_error("--append-eod", "this tokenizer has no end-of-document token: omit the flag");
    const auto encoder = tokenizer->make_encoder(-1);
    text::IdBuffer buffer(true);
    for_each_text(args.whole, [&](std::string_view text, i64 line) {
        if (const i64 bad = find_invalid_utf8(text); bad >= 0) {
            run_error(fmt::format("{}:{}:{}", stdin_name, line, bad + 1), "not valid UTF-8");
        }
        buffer.clear();
        encode_text(*encoder, text, line, buffer);
        if (args.append_eod) buffer.push(*tokenizer->eod());
        const std::span<const i32> ids = buffer.ids<i32>();
        cli::write_stdout(!args.binary ? args.json ? json_line(ids, *tokenizer) : text_line(ids)
                          : is_narrow(*tokenizer) ? binary_ids<u16>(ids)
                                                  : binary_ids<i32>(ids));
    });
    return 0;
}

std::vector<i32> parse_ids(std::string_view text, i64 line) {
    std::vector<i32> ids;
    const char* at = text.data();
    const char* end = at + text.size();
    for (;;) {
        while (at < end && (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n')) ++at;
        if (at == end) return ids;
        i32 id = 0;
        const auto [next, error] = std::from_chars(at, end, id);
        const bool clean =
            next == end || *next == ' ' || *next == '\t' || *next == '\r' || *next == '\n';
        if (error != std::errc() || !clean) {
            run_error(fmt::format("{}:{}:{}", stdin_name, line, at - text.data() + 1),
                      "expected an id");
        }
        ids.push_back(id);
        at = next;
    }
}

// Returns the ids in a line that encode --json wrote.
std::vector<i32> parse_json_ids(std::string_view text, i64 line) {
    const std::string where = fmt::format("{}:{}", stdin_name, line);
    return io::json_get<std::vector<i32>>(io::parse_json(text, where), "ids", where);
}

template <typename Id>
std::vector<i32> parse_binary_ids(std::string_view bytes) {
    if (bytes.size() % sizeof(Id) != 0)
        run_error(stdin_name, "ends in the middle of an id of {} bytes", sizeof(Id));
    std::vector<i32> ids;
    for (size_t i = 0; i < bytes.size(); i += sizeof(Id)) {
        Id id;
        std::memcpy(&id, bytes.data() + i, sizeof id);
        ids.push_back(static_cast<i32>(id));
    }
    return ids;
}

// Returns the text that the ids encode. The error for an invalid id names `where`, the origin of
// the ids.
std::string bytes_of(std::span<const i32> ids, const text::Tokenizer& tokenizer,
                     const std::string& where) {
    std::string bytes;
    for (const i32 id : ids) {
        try {
            bytes += tokenizer.token(id);
        } catch (const Error&) {
            const i64 n = tokenizer.vocab_size();
            if (id >= 0 && id < n) run_error(where, "no token has the id {}", id);
            run_error(where, "there is no id {}: the vocabulary has {} ids, from 0", id, n);
        }
    }
    return bytes;
}

void decode_line(const CodecArgs& args, const text::Tokenizer& tokenizer, std::string_view text,
                 i64 line) {
    const bool object =
        text.find_first_not_of(" \t") < text.size() && text[text.find_first_not_of(" \t")] == '{';
    std::string bytes = bytes_of(object ? parse_json_ids(text, line) : parse_ids(text, line),
                                 tokenizer, fmt::format("{}:{}", stdin_name, line));
    if (args.json) {
        std::string valid;
        append_utf8_lossy(valid, bytes);
        bytes = io::json_line({{"text", valid}});
    } else if (!args.no_newline) {
        bytes += '\n';
    }
    cli::write_stdout(bytes);
}

int decode(const CodecArgs& args) {
    check(args);
    const auto tokenizer = text::load_tokenizer(args.tokenizer);
    for_each_text(args.binary, [&](std::string_view text, i64 line) {
        if (!args.binary) return decode_line(args, *tokenizer, text, line);
        cli::write_stdout(bytes_of(
            is_narrow(*tokenizer) ? parse_binary_ids<u16>(text) : parse_binary_ids<i32>(text),
            *tokenizer, stdin_name));
    });
    return 0;
}

}  // namespace

void declare_encode(cli::Options& options) {
    auto args = std::make_shared<CodecArgs>();
    cli::Options& verb = options.verb("encode", "print the ids of each line of standard input",
                                      [args] { return encode(*args); });
    verb.examples({"echo 'Hello world' | lm-preprocess encode"});
    verb.flag("--whole", &args->whole,
              "encode all of standard input, newlines included, as one text");
    verb.flag("--append-eod", &args->append_eod, "end every text with the end-of-document token");
    verb.flag("--json", &args->json, "write JSON Lines with ids and tokens");
    verb.flag("--binary", &args->binary,
              "write the ids of all texts in 16 or 32 bits, as in a .bin file");
    declare_tokenizer(verb, args->tokenizer);
}

void declare_decode(cli::Options& options) {
    auto args = std::make_shared<CodecArgs>();
    cli::Options& verb =
        options.verb("decode", "print the text of each line of ids on standard input",
                     [args] { return decode(*args); });
    verb.examples({"echo 'The first' | lm-preprocess encode | lm-preprocess decode"});
    verb.flag("--json", &args->json, "write JSON Lines with the text");
    verb.flag("--binary", &args->binary,
              "read ids in 16 or 32 bits, and write the bytes of their tokens");
    verb.flag("--no-newline", &args->no_newline, "add no newline after each text");
    declare_tokenizer(verb, args->tokenizer);
}

}  // namespace lm::preprocess
