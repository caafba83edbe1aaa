// SPDX-License-Identifier: Apache-2.0
// Files of torch.save: TorchFile reads the files of TorchWriter, and refuses hostile files.
#include <libdeflate.h>

#include <cstring>

#include "../ckpt/support.hpp"
#include "convert/torch/pickle_reader.hpp"
#include "convert/torch/torch_file.hpp"
#include "convert/torch/torch_writer.hpp"
#include "convert/torch/zip_archive.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::convert;
using Kind = PickleValue::Kind;

namespace {

std::string le(u64 value, int n) {
    std::string bytes;
    for (int i = 0; i < n; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
    return bytes;
}

std::string parse_error(const std::string& pickle) {
    return test::error_of([&] {
        size_t at = 0;
        parse_pickle(std::as_bytes(std::span(pickle)), at, "p");
    });
}

// One entry of an archive, with fields that a test may falsify.
struct FakeEntry {
    std::string name;
    std::string data;
    std::string local_name = name;
    u16 flags = 0;
    u16 method = 0;
    std::optional<u32> crc = std::nullopt;
    std::optional<u32> size = std::nullopt;
    std::optional<u32> header = std::nullopt;
};

std::string zip_of(const std::vector<FakeEntry>& entries) {
    std::string file;
    std::string directory;
    for (const FakeEntry& entry : entries) {
        const u32 crc =
            entry.crc.value_or(libdeflate_crc32(0, entry.data.data(), entry.data.size()));
        const u64 size = entry.size.value_or(static_cast<u32>(entry.data.size()));
        const u64 header = entry.header.value_or(static_cast<u32>(file.size()));
        const std::string common = le(entry.flags, 2) + le(entry.method, 2) + le(0, 4);
        file += "PK\x03\x04" + le(20, 2) + common + le(crc, 4) + le(size, 4) + le(size, 4) +
                le(entry.local_name.size(), 2) + le(0, 2) + entry.local_name + entry.data;
        directory += "PK\x01\x02" + le(20, 2) + le(20, 2) + common + le(crc, 4) + le(size, 4) +
                     le(size, 4) + le(entry.name.size(), 2) + le(0, 2) + le(0, 2) + le(0, 2) +
                     le(0, 2) + le(0, 4) + le(header, 4) + entry.name;
    }
    return file + directory + "PK\x05\x06" + le(0, 4) + le(entries.size(), 2) +
           le(entries.size(), 2) + le(directory.size(), 4) + le(file.size(), 4) + le(0, 2);
}

// The pickle of {"w": tensor of `numel` elements in storage 0}.
std::string tensor_pickle(const std::string& numel = "K\x04", const std::string& shape = "(K\x04t",
                          const std::string& strides = "(K\x01t",
                          const std::string& offset = std::string("K\0", 2),
                          const std::string& key = "0") {
    const auto text = [](const std::string& value) { return "X" + le(value.size(), 4) + value; };
    return "\x80\x02}" + text("w") + "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") +
           "ctorch\nFloatStorage\n" + text(key) + text("cpu") + numel + "tQ" + offset + shape +
           strides + "\x89" + "ccollections\nOrderedDict\n)RtRs.";
}

std::vector<FakeEntry> archive(const std::string& pickle, const std::string& data) {
    return {{"a/data.pkl", pickle}, {"a/data/0", data}, {"a/version", "3\n"}};
}

std::string open_error(const std::string& content, bool read = true) {
    const test::ScratchDirectory scratch;
    test::write(scratch / "f.pt", content);
    return test::error_of([&] {
        const TorchFile file = TorchFile::open(scratch / "f.pt");
        if (!read) return;
        const SourceTensor tensor = file.tensor(*file.root().find("w"), "w");
        std::vector<float> values(static_cast<size_t>(tensor.shape[0]));
        SourceReader().read(tensor.matrix(), DType::fp32,
                            reinterpret_cast<std::byte*>(values.data()), 1);
    });
}

const std::string sixteen(16, '\1');

}  // namespace

TEST_CASE("what TorchWriter writes, TorchFile reads") {
    const test::ScratchDirectory scratch;
    PickleWriter pickle;
    pickle.open_dict();
    pickle.key("a");
    pickle.tensor(DType::bf16, {3, 2});
    pickle.key("empty");
    pickle.tensor(DType::fp32, {0});
    pickle.key("numbers");
    pickle.open_list();
    for (const i64 value : {i64{0}, i64{-1}, i64{255}, i64{256}, i64{70000}, i64{1} << 40,
                            std::numeric_limits<i64>::min()}) {
        pickle.integer(value);
    }
    pickle.real(0.1);
    pickle.none();
    pickle.close_list();
    pickle.key("args");
    pickle.open_namespace();
    pickle.key("flag");
    pickle.boolean(true);
    pickle.close_namespace();
    pickle.key("b");
    pickle.tensor(DType::fp32, {2});
    pickle.close_dict();
    auto writer = TorchWriter::create(scratch / "x.pt", pickle);
    const std::string data = "0123456789ab" + std::string("\0\0\x80\x3f\0\0\0\x40", 8);
    writer.append(std::as_bytes(std::span(data)).first(5));
    writer.append(std::as_bytes(std::span(data)).subspan(5));
    writer.commit();

    const ZipArchive zip = ZipArchive::open(scratch / "x.pt", 0, io::file_size(scratch / "x.pt"));
    CHECK(zip.find("x/data/0")->offset % 64 == 0);
    CHECK(zip.entries().size() == 6);
    const TorchFile file = TorchFile::open(scratch / "x.pt");
    CHECK(file.root().find("numbers")->items[5]->integer == i64{1} << 40);
    CHECK(file.root().find("numbers")->items[6]->integer == std::numeric_limits<i64>::min());
    CHECK(file.root().find("numbers")->items[7]->real == 0.1);
    CHECK(file.root().find("args")->find("flag")->boolean);
    const SourceTensor b = file.tensor(*file.root().find("b"), "b");
    std::vector<float> values(2);
    SourceReader().read(b.matrix(), DType::fp32, reinterpret_cast<std::byte*>(values.data()), 1);
    CHECK(values == std::vector<float>{1, 2});
    CHECK(file.tensor(*file.root().find("a"), "a").shape == std::vector<i64>{3, 2});
    // A flipped byte of the data is found by the CRC.
    std::string bytes = test::read(scratch / "x.pt");
    bytes[static_cast<size_t>(zip.find("x/data/2")->offset)] = 'x';
    test::write(scratch / "y.pt", bytes);
    const TorchFile flipped = TorchFile::open(scratch / "y.pt");
    CHECK_THAT(test::error_of([&] {
                   SourceReader().read(flipped.tensor(*flipped.root().find("b"), "b").matrix(),
                                       DType::fp32, reinterpret_cast<std::byte*>(values.data()), 1);
               }),
               ContainsSubstring("CRC of 8 bytes"));
}

TEST_CASE("views with offsets and strides are read") {
    const test::ScratchDirectory scratch;
    std::string data;
    for (int i = 0; i < 24; ++i) {
        const auto value = static_cast<float>(i);
        data.append(reinterpret_cast<const char*>(&value), 4);
    }
    // [2, 3] with strides (1, 7) from element 2 on: rows 2 and 3 of the transpose of a [3, 7]
    // matrix.
    test::write(
        scratch / "f.pt",
        zip_of(archive(tensor_pickle("K\x18", "(K\x02K\x03t", "(K\x01K\x07t", "K\x02"), data)));
    const TorchFile file = TorchFile::open(scratch / "f.pt");
    const SourceTensor tensor = file.tensor(*file.root().find("w"), "w");
    std::vector<float> values(6);
    SourceReader().read(tensor.matrix(), DType::fp32, reinterpret_cast<std::byte*>(values.data()),
                        3);
    CHECK(values == std::vector<float>{2, 9, 16, 3, 10, 17});
}

TEST_CASE("hostile pickles are refused, and nothing is executed") {
    const auto global = [](const std::string& module, const std::string& name) {
        return "\x80\x02"
               "c" +
               module + "\n" + name + "\n(X\x04" + std::string(3, '\0') + "truetR.";
    };
    const auto refused = [](const std::string& pickle, const std::string& reason) {
        CHECK_THAT(parse_error(pickle), HasInOrder("p: pickle ", " byte ", reason));
    };
    for (const auto& [module, name] : {std::pair{"os", "system"},
                                       {"posix", "system"},
                                       {"nt", "system"},
                                       {"subprocess", "Popen"},
                                       {"builtins", "eval"},
                                       {"builtins", "exec"},
                                       {"__builtin__", "__import__"},
                                       {"builtins", "open"},
                                       {"runpy", "_run_code"},
                                       {"torch.hub", "load"},
                                       {"torch", "load"},
                                       {"megatron.core", "os.system"},
                                       {"pickle", "loads"},
                                       {"socket", "socket"},
                                       {"operator", "attrgetter"},
                                       {"functools", "reduce"},
                                       {"shutil", "rmtree"},
                                       {"deepspeedx.evil", "f"},
                                       {"importlib", "import_module"},
                                       {"numpy.testing", "runstring"}}) {
        refused(global(module, name), " " + std::string(module) + "." + name);
    }
    refused("\x80\x04\x8c\x02os\x8c\x06system\x93.", " os.system");
    refused("\x80\x02(ios\nsystem\n.", "opcode 0x69");
    refused("\x80\x02(cos\n", "name");
    refused("\x80\x02(Ppersid\n.", "opcode 0x50");
    refused("\x80\x02\x82\x01.", "opcode 0x82");
    refused("\x80\x09N.", "protocol 9");
    refused("\x80\x02" + std::string(2000, '('), "marks");
    refused("\x80\x02]" + std::string(3000, '\x85') + ".", "1000 levels");
    refused(
        "\x80\x02X\xff\xff\xff\x7f"
        "a",
        "truncated");
    refused("\x80\x04\x8d" + le(~u64{0}, 8) + "a", "truncated");
    refused("\x80\x02h\x05.", "memo");
    refused("\x80\x02NR.", "stack");
    refused("\x80\x02NNR.", "not a tuple");
    refused("\x80\x02]NNs.", "expected a dict");
    refused("\x80\x02(N(.", "stack");
    refused("\x80\x02NN.", "values are left");
    refused(
        "\x80\x02"
        "e",
        "no mark");
    refused("\x80\x02", "truncated");
    refused("\x80\x04\x95" + le(1000, 8), "frame");
    refused("\x80\x02NQ.", "persistent id");
    // A hostile pickle refers to one memo entry again and again, so that the number of its items
    // would grow without limit. The parser shares such items, and bounds their number.
    std::string bomb = "\x80\x02]q";
    bomb += '\0';
    for (int i = 0; i < 40; ++i) bomb += std::string("0(", 2) + std::string(200, 'h');
    CHECK(parse_error(bomb) != "no error");
    std::string copies =
        "\x80\x02](" + std::string(100000, 'N') + "eq" + std::string(1, '\0') + "0";
    for (int i = 0; i < 1000; ++i) {
        copies += std::string("c__builtin__\ntuple\n(h\0tR0", 25);
    }
    refused(copies + "N.", "more than 32000000 items");
}

TEST_CASE("hostile tensors and archives are refused") {
    CHECK(open_error(zip_of(archive(tensor_pickle(), sixteen))) == "no error");
    const auto tensor = [](const std::string& numel, const std::string& shape,
                           const std::string& strides, const std::string& offset) {
        return open_error(zip_of(archive(tensor_pickle(numel, shape, strides, offset), sixteen)));
    };
    const std::string zero("K\0", 2);
    CHECK_THAT(tensor("K\x04", "(K\x05t", "(K\x01t", zero), ContainsSubstring("storage"));
    CHECK_THAT(tensor("K\x04", "(K\x04t", "(K\x02t", zero), ContainsSubstring("storage"));
    CHECK_THAT(tensor("K\x04", "(K\x04t", "(K\x01t", "K\x01"), ContainsSubstring("storage"));
    CHECK_THAT(tensor("K\x04", "(K\x04t", "(K\x01t", "J\xff\xff\xff\xff"),
               ContainsSubstring("storage"));
    CHECK_THAT(tensor("K\x04", "(J\xff\xff\xff\xfft", "(K\x01t", zero),
               ContainsSubstring("invalid shape"));
    const std::string huge = "\x8a\x08" + le(u64{1} << 62, 8);
    CHECK_THAT(tensor("K\x04", "(" + huge + huge + "t", "(K\x01K\x01t", zero),
               ContainsSubstring("storage"));
    CHECK_THAT(tensor(huge, "(K\x04t", "(K\x01t", zero), ContainsSubstring("number of elements"));
    CHECK_THAT(tensor("K\x05", "(K\x04t", "(K\x01t", zero), HasInOrder("20 bytes", "16"));
    const auto key = [](const std::string& text) {
        return open_error(zip_of(archive(
            tensor_pickle("K\x04", "(K\x04t", "(K\x01t", std::string("K\0", 2), text), sixteen)));
    };
    CHECK_THAT(key("../0"), ContainsSubstring("not a number"));
    CHECK_THAT(key("7"), HasInOrder("storage 7 ", "missing"));

    auto entries = archive(tensor_pickle(), sixteen);
    const auto changed = [&](auto change) {
        auto copy = entries;
        change(copy);
        return open_error(zip_of(copy));
    };
    CHECK_THAT(changed([](auto& e) { e[1].name = e[1].local_name = "../../etc/passwd"; }),
               ContainsSubstring("plain path"));
    CHECK_THAT(changed([](auto& e) { e[1].name = e[1].local_name = "/etc/passwd"; }),
               ContainsSubstring("plain path"));
    CHECK_THAT(changed([](auto& e) { e[1].method = 8; }), ContainsSubstring("compressed"));
    CHECK_THAT(changed([](auto& e) { e[1].flags = 1; }), ContainsSubstring("encrypted"));
    CHECK_THAT(changed([](auto& e) { e[1].local_name = "a/data/9"; }),
               ContainsSubstring("another name"));
    CHECK_THAT(changed([](auto& e) { e[1].header = 0; }), ContainsSubstring("overlaps"));
    CHECK_THAT(changed([](auto& e) { e[1].size = 0x7fffffff; }), ContainsSubstring("longer"));
    CHECK_THAT(changed([](auto& e) { e[1].size = 90; }), ContainsSubstring("overlaps"));
    CHECK_THAT(changed([](auto& e) { e[1].header = 0x7fffffff; }), ContainsSubstring("archive"));
    CHECK_THAT(changed([](auto& e) { e[1].crc = 7; }), ContainsSubstring("CRC of 16 bytes"));
    CHECK_THAT(changed([](auto& e) { e[0].crc = 7; }), ContainsSubstring("CRC of"));
    CHECK_THAT(changed([](auto& e) { e.push_back(e[1]); }), ContainsSubstring("twice"));
    CHECK_THAT(changed([](auto& e) { e.pop_back(); }), ContainsSubstring("a/version"));
    CHECK_THAT(changed([](auto& e) { e[1].crc = 0; }), ContainsSubstring("no error"));
    CHECK_THAT(changed([](auto& e) {
                   e.push_back({"a/byteorder", "big"});
               }),
               ContainsSubstring("'big'"));
    const std::string good = zip_of(entries);
    for (size_t n = 0; n < good.size(); n += 3) {
        CHECK(open_error(good.substr(0, n)) != "no error");
    }
    CHECK_THAT(open_error("hello"), ContainsSubstring("torch.save"));
}
