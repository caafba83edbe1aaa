// SPDX-License-Identifier: Apache-2.0
#include "convert/hf/from_hf.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/log.hpp"
#include "convert/hf/config_json.hpp"
#include "convert/hf/files.hpp"
#include "convert/hf/weights.hpp"
#include "convert/tokenizer_fit.hpp"
#include "io/json.hpp"
#include "io/path.hpp"
#include "text/tokenizer_json/read_tokenizer.hpp"
#include "text/tokenizer_json/special_tokens.hpp"

namespace lm::convert {

OpenedHf open_hf(const std::string& path) {
    const HfModel model = read_hf_model(path);
    const HfWeights weights = HfWeights::open(path, model);
    OpenedHf opened{model.tokenizer, NativeImport(model.config)};
    std::set<std::string> used;
    for (const MappedTensor& map : hf_tensors(*model.hf_class, opened.import.tensors())) {
        const SourceTensor& tensor = weights.at(map.name);
        used.insert(tensor.name);
        opened.import.add(map, ckpt::SliceKind::weight, tensor);
    }
    weights.check_rest(used);
    opened.n_tensors = std::ssize(used);
    return opened;
}

HfSource open_hf_source(const std::string& path) {
    OpenedHf opened = open_hf(path);
    return {open_tensors({path, std::move(opened.import), hf_weights_type(path)}),
            opened.tokenizer};
}

namespace {

// Returns the files of the tokenizer in `directory`. If only config.json states the class that
// reads vocab.json, which a step does not hold, tokenizer_config.json gets it.
std::vector<ckpt::TokenizerFile> tokenizer_of_model(const std::string& directory) {
    constexpr const char* name = "tokenizer_config.json";
    std::vector<ckpt::TokenizerFile> files = ckpt::tokenizer_files_in(directory);
    if (!text::is_pair_of_class(directory)) return files;
    const auto found = std::ranges::find(files, name, &ckpt::TokenizerFile::name);
    const bool has = found != files.end();
    io::Json config = has ? io::parse_json(*found->text, name) : io::Json::object();
    if (config.contains("tokenizer_class")) return files;
    config["tokenizer_class"] = text::tokenizer_class_in(directory);
    ckpt::TokenizerFile file = ckpt::tokenizer_file(name, io::json_text(config));
    has ? void(*found = std::move(file)) : files.push_back(std::move(file));
    return files;
}

}  // namespace

ConversionReport from_hf(const ConversionRequest& request) {
    const OpenedHf opened = open_hf(request.in);
    ckpt::SaveInfo info;
    info.tokenizer = opened.tokenizer;
    const std::string directory = io::parent_of(hf_config_path(request.in));
    check_tokenizer_fits(directory, opened.import.tensors().config().vocab_size);
    info.tokenizer.files = tokenizer_of_model(directory);
    if (const auto more = directory + "/additional_chat_templates"; io::is_directory(more))
        note("{}: not stored: an export has them with --tokenizer {}", more, directory);
    if (info.tokenizer.end_of_document < 0) {
        const auto eos = tokenizer_ids(directory).eos;
        if (eos && *eos < opened.import.tensors().config().vocab_size)
            info.tokenizer.end_of_document = *eos;
    }
    info.weights = request.dtype.value_or(DType::fp32);
    ConversionReport report = opened.import.write(request, info);
    report.n_tensors = opened.n_tensors;
    return report;
}

}  // namespace lm::convert
