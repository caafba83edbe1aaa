// SPDX-License-Identifier: Apache-2.0
// Writes files that torch.load(..., weights_only=True) reads: a ZIP archive of uncompressed entries
// with sizes and CRCs. One entry is a pickle of plain data and tensors.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "io/atomic.hpp"
#include "io/block_file.hpp"

namespace lm::convert {

// Writes the pickle of a file (protocol 2), value by value. Tensors are numbered in the order of
// the tensor() calls; each tensor has a storage of its own.
class PickleWriter {
  public:
    struct Tensor {
        DType dtype = DType::fp32;
        std::vector<i64> shape;
        i64 bytes() const;
    };

    PickleWriter();
    // For a dict, call open_dict(), then key() and a value for each entry, then close_dict(). key()
    // returns the writer, for the value. For a list, call open_list(), then each value, then
    // close_list().
    void open_dict();
    void close_dict();
    void open_list();
    void close_list();
    // For a tuple, call open_tuple(), then each value, then close_tuple().
    void open_tuple();
    void close_tuple();
    PickleWriter& key(std::string_view name) {
        text(name);
        return *this;
    }
    void text(std::string_view value);
    void integer(i64 value);
    void real(double value);
    void boolean(bool value);
    void none();
    void size(const std::vector<i64>& shape);  // torch.Size
    void type(DType dtype);                    // torch.float16
    void tensor(DType dtype, std::vector<i64> shape);
    // Opens an argparse.Namespace; its attributes follow as in a dict. To load it, torch.load needs
    // weights_only=False.
    void open_namespace() { open_object("argparse", "Namespace"); }
    void close_namespace() { close_object(); }
    // Opens an object of a class; its attributes follow as in a dict.
    void open_object(std::string_view module, std::string_view name);
    void close_object();

    const std::vector<Tensor>& tensors() const { return tensors_; }
    std::string finish();  // ends the pickle and returns it

  private:
    void tuple(std::span<const i64> values);

    std::string bytes_;
    std::vector<Tensor> tensors_;
};

// Writes a file: first the pickle, then the data of the tensors. append() must get the data in the
// order of the pickle, in parts of any size.
class TorchWriter {
  public:
    static TorchWriter create(const std::string& path, PickleWriter pickle,
                              io::Overwrite overwrite = io::Overwrite::no);
    void append(std::span<const std::byte> bytes);  // a full tensor is followed by the next tensor
    void commit();

  private:
    struct Entry {
        std::string name;
        i64 header = 0;
        i64 size = 0;
        u32 crc = 0;
    };
    explicit TorchWriter(io::AtomicFile file);
    void append_text(std::string_view text);
    void begin_entry(const std::string& name, i64 size);
    void write_entry(const std::string& name, std::string_view data);
    void skip_empty();
    void write_directory();
    void write_checksums();

    io::AtomicFile file_;
    io::BlockStream stream_;
    std::string folder_;
    std::vector<PickleWriter::Tensor> tensors_;
    std::vector<Entry> entries_;
    size_t current_ = 0;
    i64 done_ = 0;  // bytes appended to the current tensor
};

}  // namespace lm::convert
