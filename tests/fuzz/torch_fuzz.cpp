// SPDX-License-Identifier: Apache-2.0
// libFuzzer: any bytes as a file of torch.save. Opening it throws Error(failure), or all its float
// tensors can be read.
#include <cstdlib>

#include "base/error.hpp"
#include "convert/torch/pickle_reader.hpp"
#include "convert/torch/torch_file.hpp"
#include "fuzz_files.hpp"

namespace {

using namespace lm;
using namespace lm::convert;

void read_tensors(const PickleValue& root, const TorchFile& file) {
    for (const PickleValue* item : root.items) {
        if (!item->is(PickleValue::Kind::tensor) || !item->tensor[0].dtype) continue;
        const SourceTensor tensor = file.tensor(*item, "t");
        if (tensor.shape.empty() || tensor.shape.size() > 2) continue;
        const SourceMatrix matrix = tensor.matrix();
        if (matrix.rows > 1000 || matrix.cols > 1000) continue;
        std::vector<float> values(static_cast<size_t>(matrix.rows * matrix.cols));
        SourceReader().read(matrix, DType::fp32, reinterpret_cast<std::byte*>(values.data()),
                            matrix.cols);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto attempt = [](auto&& f) {
        try {
            f();
        } catch (const Error& error) {
            if (error.code() != Exit::failure) std::abort();
        }
    };
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    const std::string path = fuzz::put("file.pt", bytes);
    attempt([&] {
        const TorchFile file = TorchFile::open(path);
        read_tensors(file.root(), file);
    });
    attempt([&] {
        std::size_t at = 0;
        parse_pickle(std::as_bytes(std::span(data, size)), at, "input");
    });
    return 0;
}
