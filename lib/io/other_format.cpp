// SPDX-License-Identifier: Apache-2.0
#include "io/other_format.hpp"

#include <algorithm>
#include <array>

#include "io/file.hpp"

namespace lm::io {
namespace {

using namespace std::string_view_literals;

struct Beginning {
    std::string_view bytes;
    std::string_view format;
};

constexpr size_t n_head = 264;     // bytes that tell the formats apart
constexpr size_t tar_magic = 257;  // offset of "ustar" in the header of the first file (POSIX)

constexpr std::string_view lfs_pointer = "version https://git-lfs";
constexpr std::string_view compressed =
    "compressed data: decompress the file, or compress it only once";
constexpr std::string_view web_page = "a web page, not the file: download the file itself";

constexpr std::array beginnings{
    Beginning{lfs_pointer, "a Git LFS pointer, not the file: run git lfs pull"},
    Beginning{"<!DOCTYPE"sv, web_page},
    Beginning{"<!doctype"sv, web_page},
    Beginning{"<html"sv, web_page},
    Beginning{"PAR1"sv,
              "a Parquet file: write it as JSON Lines (pandas: read_parquet(FILE).to_json(OUT, "
              "orient='records', lines=True))"},
    Beginning{"GGUF"sv, "a GGUF file of llama.cpp, which is not supported: give safetensors"},
    Beginning{"\x89HDF\r\n"sv, "an HDF5 file, which is not supported: give safetensors"},
    Beginning{"PK\x03\x04"sv, "a zip file: extract it"},
    Beginning{"\x1f\x8b"sv, compressed},
    Beginning{"\xfd"
              "7zXZ"sv,
              compressed},
    Beginning{"\x28\xb5\x2f\xfd"sv, compressed},
    Beginning{"BZh"sv, compressed},
};

// A SentencePiece model is a protobuf whose first field is the first piece, such as "<unk>":
// 0A SIZE 0A LENGTH text (sentencepiece_model.proto: ModelProto.pieces, SentencePiece.piece).
bool is_sentencepiece(std::string_view head) {
    if (head.size() < 5 || head[0] != '\x0a' || head[2] != '\x0a') return false;
    const auto size = static_cast<unsigned char>(head[1]);
    const auto length = static_cast<unsigned char>(head[3]);
    return length > 0 && length + 2 <= size && size < 128;
}

// A table of tiktoken has lines of a token in base64 and its rank: "IQ== 0".
bool is_tiktoken(std::string_view head) {
    const std::string_view line = head.substr(0, head.find('\n'));
    const size_t space = line.find(' ');
    if (space == line.npos || space == 0 || space % 4 != 0 || line.size() == head.size())
        return false;
    const auto in_base64 = [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
               c == '+' || c == '/' || c == '=';
    };
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    return std::ranges::all_of(line.substr(0, space), in_base64) && space + 1 < line.size() &&
           std::ranges::all_of(line.substr(space + 1), is_digit);
}

}  // namespace

std::string_view other_format(std::string_view head) {
    head = head.substr(0, n_head);  // a caller may pass a mapped file
    for (const Beginning& each : beginnings) {
        if (head.starts_with(each.bytes)) return each.format;
    }
    if (head.size() > tar_magic && head.substr(tar_magic).starts_with("ustar"))
        return "a tar archive: extract it";
    if (is_sentencepiece(head)) {
        return "a SentencePiece model, which is not supported: give a tokenizer.json "
               "(transformers: AutoTokenizer.from_pretrained(DIR).save_pretrained(OUT))";
    }
    if (is_tiktoken(head)) {
        return "a table of tiktoken, which is not supported: give a tokenizer.json "
               "(transformers: convert_tiktoken_to_fast)";
    }
    return "";
}

bool is_lfs_pointer(std::string_view head) {
    return head.starts_with(lfs_pointer);
}

std::string_view other_format_of(const std::string& path) {
    try {
        std::array<char, n_head> head{};
        const Fd fd = open_read(path);
        const auto n = std::min<i64>(file_size(path), std::ssize(head));
        read_exact(fd, path, std::as_writable_bytes(std::span(head)).first(static_cast<size_t>(n)),
                   0);
        return other_format({head.data(), static_cast<size_t>(n)});
    } catch (const std::exception&) {
        return "";
    }
}

}  // namespace lm::io
