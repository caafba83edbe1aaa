// SPDX-License-Identifier: Apache-2.0
// Recognizes files of other formats by their first bytes, for messages: a Git LFS pointer instead
// of a model, a SentencePiece model instead of a tokenizer.json, a web page instead of a download.
#pragma once

#include <string>
#include <string_view>

namespace lm::io {

// Returns what a file that begins with `head` is, and the remedy, as in "a Git LFS pointer, not the
// file: run git lfs pull"; "" when the format is not known. 64 bytes of the file are enough. JSON,
// safetensors and files of torch.save are not among the formats.
std::string_view other_format(std::string_view head);

// Returns whether the file is a pointer of Git LFS to the file itself.
bool is_lfs_pointer(std::string_view head);

// As other_format(), for the file `path`; "" when the file cannot be read.
std::string_view other_format_of(const std::string& path);

}  // namespace lm::io
