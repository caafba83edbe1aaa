// SPDX-License-Identifier: Apache-2.0
#include "convert/conversion.hpp"

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "ckpt/format/elements.hpp"
#include "ckpt/history/generation.hpp"
#include "ckpt/history/steps.hpp"
#include "io/file.hpp"
#include "io/output_place.hpp"

namespace lm::convert {
namespace {

constexpr std::string_view tmp = ".tmp.";  // separates a name from the suffix of its temporary name

bool is_model(const std::string& path) {
    const auto names = io::list_directory(path);
    return names.empty() || io::exists(path + "/config.json") || io::exists(path + "/latest") ||
           io::exists(path + "/latest_checkpointed_iteration.txt");
}

bool contains(const std::filesystem::path& outer, const std::filesystem::path& inner) {
    const auto [at, rest] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
    return at == outer.end();
}

// Returns whether a training has saved to the directory: it has several steps, of lm-utils or of
// Megatron, or a start of lm-train has claimed it. An output of lm-convert or lm-ckpt merge has one
// step and no claim.
bool is_run(const std::string& directory) {
    if (ckpt::is_step(directory)) return false;
    const auto n_megatron_lm = std::ranges::count_if(
        io::list_directory(directory),
        [](const std::string& name) { return name.starts_with("iter_") || name == "release"; });
    return n_megatron_lm > 1 || ckpt::steps_in(directory).size() > 1 ||
           ckpt::newest_claim(directory).has_value();
}

}  // namespace

void check_converted(const std::string& path, const std::string& tensor, ckpt::SliceKind kind,
                     DType dtype, std::span<const std::byte> values) {
    if (kind == ckpt::SliceKind::weight || ckpt::count_non_finite(values, dtype) == 0) return;
    run_error(path,
              "tensor {} has numbers that are not finite or exceed the range of {}: choose another "
              "--dtype",
              tensor, name_of(dtype));
}

io::AtomicDirectory make_output(const std::string& out, const std::vector<std::string>& ins,
                                bool force) {
    const auto overwrite = force ? io::Overwrite::yes : io::Overwrite::no;
    std::string name = out;
    while (name.size() > 1 && name.ends_with('/')) name.pop_back();
    io::require_parent(name);
    for (const std::string& stale : io::stale_temporaries(name)) io::remove_tree(stale);
    if (force && io::is_directory(out)) {
        if (is_run(out)) {
            usage_error(out,
                        "is the directory of a run, which --force does not replace: choose another "
                        "name");
        }
        if (!is_model(out)) {
            usage_error(out,
                        "is a directory without a model, which --force does not replace: choose "
                        "another name");
        }
        std::error_code error;
        const auto out_path = std::filesystem::canonical(out, error);
        for (const std::string& in : ins) {
            const auto in_path = std::filesystem::canonical(in, error);
            if (contains(out_path, in_path))
                usage_error(out, "contains {}: choose another name", in);
        }
    }
    const std::string suffix = io::temporary_name(name).substr(name.size() + tmp.size());
    return io::AtomicDirectory::create(name, suffix, overwrite);
}

}  // namespace lm::convert
