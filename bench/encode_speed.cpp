// SPDX-License-Identifier: Apache-2.0
// encode_speed FILE.jsonl [PASSES [TOKENIZER.json]]: measures JSON parsing, pre-tokenization and
// encoding separately, on one thread with the text in memory, in MB of text per second of CPU time.
// Prints the first pass (cold caches), and the best of PASSES.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/version.hpp"
#include "data/jsonl/line_parser.hpp"
#include "text/gpt2_tokenizer.hpp"
#include "text/pretokenizer/pretokenizer.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer_json/read_tokenizer.hpp"

using namespace lm;

namespace {

// Returns the CPU time of this thread, which other work on the machine affects less than wall time.
double cpu_s() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Corpus {
    std::vector<std::string> texts;
    i64 bytes = 0;
};

Corpus read_corpus(const std::string& path, double* parse_mb_s) {
    Corpus corpus;
    data::ChunkReader reader(data::examine_inputs({path}), i64{1} << 20);
    data::LineParser parser({"text"}, data::InvalidText::refuse);
    data::LineChunk chunk;
    double seconds = 0;
    while (reader.next(chunk)) {
        const double start = cpu_s();
        for (std::string_view rest = chunk.text(); !rest.empty();) {
            const auto plain = parser.parse_plain(rest);
            const auto text = plain ? *plain : parser.parse(data::next_line(rest))[0].text;
            corpus.bytes += static_cast<i64>(text.size());
        }
        seconds += cpu_s() - start;
        for (std::string_view rest = chunk.text(); !rest.empty();) {
            corpus.texts.emplace_back(parser.parse(data::next_line(rest))[0].text);
        }
    }
    *parse_mb_s = static_cast<double>(corpus.bytes) / seconds / 1e6;
    return corpus;
}

template <typename Work>
void measure(const char* what, const Corpus& corpus, int passes, Work work) {
    double first = 0, best = 1e30;
    i64 n = 0;
    for (int pass = 0; pass < passes; ++pass) {
        const double start = cpu_s();
        n = 0;
        for (const std::string& text : corpus.texts) n += work(text);
        const double seconds = cpu_s() - start;
        if (pass == 0) first = seconds;
        best = std::min(best, seconds);
    }
    const double mb = static_cast<double>(corpus.bytes) / 1e6;
    std::printf("%-8s %8.1f MB/s first, %8.1f MB/s best, %lld items, %.2f ns each\n", what,
                mb / first, mb / best, static_cast<long long>(n),
                best * 1e9 / static_cast<double>(n));
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) return 2;
    const int passes = argc > 2 ? std::atoi(argv[2]) : 5;
    double parse_mb_s = 0;
    const Corpus corpus = read_corpus(argv[1], &parse_mb_s);
    std::printf("%.1f MB in %zu texts\nparse    %8.1f MB/s\n",
                static_cast<double>(corpus.bytes) / 1e6, corpus.texts.size(), parse_mb_s);
    std::vector<u32> ends(512);
    const auto split = [&](text::Pretokenizer& pretokenizer, const std::string& text) {
        pretokenizer.start(text);
        i64 total = 0;
        while (const i64 n = pretokenizer.next(ends.data(), 512)) total += n;
        return total;
    };
    const auto scalar = text::make_scalar_pretokenizer(text::PretokenizerRule::gpt2);
    const auto fast = text::make_pretokenizer(text::PretokenizerRule::gpt2);
    measure("scalar", corpus, std::min(passes, 2),
            [&](const std::string& text) { return split(*scalar, text); });
    measure("split", corpus, passes, [&](const std::string& text) { return split(*fast, text); });
    for (const auto rule : {text::PretokenizerRule::llama3, text::PretokenizerRule::bloom}) {
        const auto portable = text::make_scalar_pretokenizer(rule);
        const auto masked = text::make_pretokenizer(rule);
        const char* name = rule == text::PretokenizerRule::llama3 ? "llama3" : "bloom";
        measure(name, corpus, std::min(passes, 2),
                [&](const std::string& text) { return split(*portable, text); });
        measure(name, corpus, passes,
                [&](const std::string& text) { return split(*masked, text); });
    }
    const auto tokenizer = argc > 3
                               ? text::load_hf_tokenizer(argv[3], text::SpecialInText::parse)
                               : text::load_gpt2_tokenizer(share_file("tokenizers/gpt2/vocab.json"),
                                                           share_file("tokenizers/gpt2/merges.txt"),
                                                           text::SpecialInText::plain);
    const auto encoder = tokenizer->make_encoder(-1);
    text::IdBuffer ids(tokenizer->vocab_size() > 65536);
    measure("encode", corpus, passes, [&](const std::string& text) {
        ids.clear();
        return encoder->encode(text, ids);
    });
    std::printf("%.1f merge steps per text byte over all passes\n",
                static_cast<double>(encoder->operations()) / static_cast<double>(corpus.bytes));
    return 0;
}
