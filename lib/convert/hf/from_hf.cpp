// SPDX-License-Identifier: Apache-2.0
#include "convert/hf/from_hf.hpp"

#include <set>

#include "convert/hf/config_json.hpp"
#include "convert/hf/files.hpp"
#include "convert/hf/weights.hpp"
#include "io/path.hpp"

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

ConversionReport from_hf(const ConversionRequest& request) {
    const OpenedHf opened = open_hf(request.in);
    ckpt::SaveInfo info;
    info.tokenizer = opened.tokenizer;
    info.tokenizer.files = ckpt::tokenizer_files_in(io::parent_of(hf_config_path(request.in)));
    info.weights = request.dtype.value_or(DType::fp32);
    ConversionReport report = opened.import.write(request, info);
    report.n_tensors = opened.n_tensors;
    return report;
}

}  // namespace lm::convert
