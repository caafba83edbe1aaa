// SPDX-License-Identifier: Apache-2.0
// lm-preprocess encode and decode: lines of text to lines of ids and back, for pipelines and tests.
#include <charconv>
#include <iostream>
#include <memory>

#include "args.hpp"
#include "base/error.hpp"
#include "cli/main.hpp"
#include "data/jsonl.hpp"
#include "text/utf8.hpp"

namespace lm::preprocess {
namespace {

struct CodecArgs {
    text::TokenizerChoice tokenizer;
    bool whole = false;
    bool no_newline = false;
};

constexpr const char* stdin_name = "standard input";

// Calls `use` with each line of standard input and its number; or once with all of it.
void for_each_text(bool whole, const std::function<void(std::string_view, i64)>& use) {
    data::ChunkReader reader({"-"}, i64{1} << 20);
    data::LineChunk chunk;
    std::string all;
    i64 line = 0;
    while (reader.next(chunk)) {
        std::string_view text = chunk.text();
        if (whole) {
            all.append(text);
            continue;
        }
        while (!text.empty()) use(data::take_line(text), ++line);
    }
    if (whole) use(all, 1);
}

int encode(const CodecArgs& args) {
    const auto tokenizer = text::load_tokenizer(args.tokenizer);
    const auto encoder = tokenizer->make_encoder();
    std::vector<i32> ids;
    std::string out;
    for_each_text(args.whole, [&](std::string_view text, i64 line) {
        if (const i64 bad = text::find_invalid_utf8(text); bad >= 0) {
            run_error(fmt::format("{}:{}:{}", stdin_name, line, bad + 1), "not valid UTF-8");
        }
        ids.resize(static_cast<size_t>(tokenizer->max_ids(static_cast<i64>(text.size()))));
        const i64 n = encoder->encode(text, ids.data());
        out.clear();
        for (i64 i = 0; i < n; ++i) {
            if (i > 0) out += ' ';
            fmt::format_to(std::back_inserter(out), "{}", ids[static_cast<size_t>(i)]);
        }
        cli::write_stdout(out + "\n");
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
                      "an id is expected");
        }
        ids.push_back(id);
        at = next;
    }
}

int decode(const CodecArgs& args) {
    const auto tokenizer = text::load_tokenizer(args.tokenizer);
    for_each_text(args.whole, [&](std::string_view text, i64 line) {
        std::string bytes;
        tokenizer->decode(parse_ids(text, line), bytes);
        if (!args.no_newline) bytes += '\n';
        cli::write_stdout(bytes);
    });
    return 0;
}

}  // namespace

void declare_encode(cli::Options& options) {
    auto args = std::make_shared<CodecArgs>();
    cli::Options& verb = options.verb("encode", "ids of each line of standard input",
                                      [args] { return encode(*args); });
    verb.flag("--whole", &args->whole,
              "take all of standard input, newlines included, as one text");
    declare_tokenizer(verb, args->tokenizer);
}

void declare_decode(cli::Options& options) {
    auto args = std::make_shared<CodecArgs>();
    cli::Options& verb = options.verb("decode", "text of each line of ids on standard input",
                                      [args] { return decode(*args); });
    verb.flag("--no-newline", &args->no_newline, "add no newline after each text");
    declare_tokenizer(verb, args->tokenizer);
}

}  // namespace lm::preprocess
