// SPDX-License-Identifier: Apache-2.0
#include "preprocess/encode_part.hpp"

#include "preprocess/chunk_pipeline.hpp"

namespace lm::preprocess {
namespace {

constexpr i64 chunk_bytes = i64{1} << 20;

}  // namespace

void encode_part(PartWriter& writer, const PartTask& task) {
    if (writer.record().finished) return;
    const auto check = [&] {
        if (task.observer.stop_requested()) {
            writer.save();
            throw Stopped();
        }
        task.check_others();
    };
    data::ChunkReader reader(task.inputs, task.pieces, chunk_bytes, writer.record().next,
                             task.n_workers);
    reader.limit_decoding(task.decoding_memory);
    BadLineReporter bad_lines(task.rules.on_bad_line, task.warnings);
    try {
        ChunkPipeline pipeline(reader, task.rules, task.tokenizer, task.budget, task.n_workers);
        pipeline.start();
        i64 disk_bytes = 0;
        while (const auto item = pipeline.next(check)) {
            check();
            const EncodedChunk& encoded = *item->chunk;
            if (item->ahead) {
                const size_t key = *item->ahead;
                task.observer.advance(writer.append_ahead(encoded.keys[key], key), 0);
                continue;
            }
            const data::LineChunk& chunk = encoded.chunk;
            bad_lines.report(chunk, task.inputs[static_cast<size_t>(chunk.file)].path,
                             writer.lines_before(chunk), encoded.bad);
            task.observer.advance(writer.append(encoded), encoded.compressed_bytes - disk_bytes);
            disk_bytes = encoded.compressed_bytes;
        }
    } catch (const data::BadLineError& bad_line) {
        // If compressed data is corrupt, its text has a bad line long before the decoder reaches
        // the checksum. fail() decodes the data up to the checksum and throws the actual error.
        reader.fail(bad_line, check);
    }
    check();
    writer.finish();
}

}  // namespace lm::preprocess
