#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs a build into lm-utils-VERSION-linux-x86_64.tar.gz, which runs on another x86-64 Linux after unpacking.

`gpu_kit` packs lm-utils-VERSION-gpu-kit.tar.gz instead, with the programs of tests/gpu.sh and bench/gpu.py and without docs.

The archive contains the installation and every library that it needs except libc, the CUDA driver, the CUDA libraries
and MPI, which the machine provides. The programs find the libraries by DT_RPATH, which also applies to the libraries of
libraries; DT_RUNPATH, the linkers' default, does not (ld.so(8)). The plugins for GPUs keep DT_RUNPATH, because
LD_LIBRARY_PATH, which names the machine's CUDA libraries, precedes it in the search.

Where the machine's libc is older than this one's, the scripts in bin-with-glibc start the same programs with the libc of
the archive. BUNDLE.md in the archive states the versions.

Each library's licence is copied into third-party. The same build gives the same bytes: file times are
SOURCE_DATE_EPOCH, by default the time of the commit.
"""
import argparse
import gzip
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile

# Libraries of glibc, NVIDIA and MPI implementations (which need their own files at fixed places).
LEFT_TO_THE_MACHINE = re.compile(
    r"^(ld-linux|linux-vdso|lib(c|m|pthread|dl|rt|resolv|util|anl|mvec|nss_\w+)\.so"
    r"|lib(cuda|cudart|cublas|cublasLt|cudnn\w*|nccl|nvrtc|nvJitLink|nvidia[-\w]*)\.so"
    r"|lib(mpi|mpich|open-rte|open-pal|pmix|prte)\b)")
# Libraries of glibc that a program or one of its libraries may open.
GLIBC = ("libc.so.6", "libm.so.6", "libmvec.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libresolv.so.2",
         "libutil.so.1")
# Files that need libraries of CUDA.
PLUGINS = ("liblm_cuda.so", "liblm_cudnn.so")
# Sets LM_SHARE_DIR: share_file() of lib/base/version.cpp cannot find this directory when the running program is ld.so.
WRAPPER = """#!/bin/sh
# Runs the program of the same name with the C library of this archive, for machines whose own is older.
here=$(dirname "$(readlink -f "$0")")
export LM_SHARE_DIR="${LM_SHARE_DIR:-$here/../share/lm-utils}"
exec "$here/../GLIBC/LOADER" --argv0 "$0" --library-path "$here/../GLIBC" "$here/../bin/${0##*/}" "$@"
"""
BUNDLE_TEXT = """# lm-utils VERSION for Linux on x86-64

Put `bin` on the PATH. The programs need Linux NEEDED or later (`ldd --version`). On an older system put `bin-with-glibc` there
instead: its scripts start the same programs with the archive's own C library.

A GPU needs NVIDIA's driver and libcublasLt. Several GPUs also need libnccl, and cuDNN's attention needs libcudnn and
libnvrtc. `mpirun` needs an MPI library. The machine provides these.
The directory may be moved. docs/install.md describes other ways to install, `third-party` has the licences.
"""
DT_NULL, DT_RPATH, DT_RUNPATH = 0, 15, 29
PT_DYNAMIC = 2


def die(text):
    sys.exit(f"bundle: {text}")


def elf_files(directory):
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                with open(path, "rb") as file:
                    if file.read(4) == b"\x7fELF":
                        yield path


def libraries_of(path):
    """Returns {name: path} of the libraries that a file needs directly, without those of the machine."""
    needed = subprocess.run(["objdump", "-p", path], capture_output=True, text=True, check=True).stdout
    names = [name for name in re.findall(r"NEEDED\s+(\S+)", needed) if not LEFT_TO_THE_MACHINE.match(name)]
    out = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    places = dict(re.findall(r"^\s*(\S+) => (/\S+)", out, re.MULTILINE))
    for name in names:
        if name not in places:
            die(f"{path} needs {name}, which the loader does not find")
    return {name: places[name] for name in names}


def all_libraries(stage):
    found = {}
    waiting = list(elf_files(stage))
    while waiting:
        for name, place in libraries_of(waiting.pop()).items():
            if name not in found:
                found[name] = place
                waiting.append(place)
    return found


def runpath_to_rpath(path):
    """Changes the tag of the library search path of an ELF file of 64 bits, little-endian."""
    with open(path, "r+b") as file:
        header = file.read(64)
        program_headers, = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        for i in range(count):
            file.seek(program_headers + i * size)
            kind, _, offset = struct.unpack("<IIQ", file.read(16))
            if kind != PT_DYNAMIC:
                continue
            while True:
                file.seek(offset)
                tag, _ = struct.unpack("<QQ", file.read(16))
                if tag == DT_NULL:
                    return
                if tag == DT_RUNPATH:
                    file.seek(offset)
                    file.write(struct.pack("<Q", DT_RPATH))
                offset += 16


def newest_glibc(stage):
    """Returns the newest version of glibc, as (2, 36), whose symbols a file of the archive needs."""
    versions = set()
    for path in elf_files(stage):
        symbols = subprocess.run(["objdump", "-T", path], capture_output=True, text=True, check=True).stdout
        versions.update(tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols))
    return max(versions)


def add_glibc(stage, folder):
    """Adds this machine's glibc in a directory of its own, and bin-with-glibc. Returns {name: path} of its libraries."""
    glibc = os.path.join(folder, "glibc")
    os.makedirs(glibc)
    listed = subprocess.run(["ldd", os.path.join(stage, "bin", "lm-train")], capture_output=True, text=True, check=True)
    loader, = re.findall(r"^\s*(/\S+/ld-linux\S+)", listed.stdout, re.MULTILINE)
    place, = re.findall(r"libc\.so\.6 => (/\S+)", listed.stdout)
    copied = {os.path.basename(loader): loader}
    for name in GLIBC:
        copied[name] = os.path.join(os.path.dirname(place), name)
    for name, source in copied.items():
        shutil.copyfile(os.path.realpath(source), os.path.join(glibc, name))
        os.chmod(os.path.join(glibc, name), 0o755)
    wrapper = WRAPPER.replace("GLIBC", os.path.relpath(glibc, stage)).replace("LOADER", os.path.basename(loader))
    os.makedirs(os.path.join(stage, "bin-with-glibc"))
    for program in os.listdir(os.path.join(stage, "bin")):
        path = os.path.join(stage, "bin-with-glibc", program)
        with open(path, "w", encoding="utf-8") as file:
            file.write(wrapper)
        os.chmod(path, 0o755)
    return copied


# Programs of the build and scripts of the source tree; the archive keeps their relative paths.
KIT_PROGRAMS = ("bin/test_conformance", "tests/cuda/test_cuda", "bench/bench_device_ops")
KIT_SCRIPTS = ("tests/gpu.sh", "tests/cuda/sanitizer.sh", "tests/e2e/common.bash", "tests/e2e/train_cuda.sh",
               "tests/e2e/train_cuda_ranks.sh", "bench/gpu.py", "bench/gpu_libraries.py", "bench/gemm_model.py",
               "bench/step_model.py", "bench/pytorch_model.py", "bench/train_pytorch.py")


def add_kit(stage, build, source):
    for names, root in ((KIT_PROGRAMS, build), (KIT_SCRIPTS, source)):
        for name in names:
            os.makedirs(os.path.dirname(os.path.join(stage, name)), exist_ok=True)
            shutil.copy(os.path.join(root, name), os.path.join(stage, name))


def install(build, stage):
    """Installs into `stage`. Keeps the install manifest of the user's own installation, which the target uninstall reads."""
    manifest = os.path.join(build, "install_manifest.txt")
    kept = None
    if os.path.exists(manifest):
        with open(manifest, "rb") as file:
            kept = file.read()
    subprocess.run(["cmake", "--install", build, "--prefix", stage], check=True, stdout=subprocess.DEVNULL)
    os.remove(manifest)
    if kept is not None:
        with open(manifest, "wb") as file:
            file.write(kept)


def compiled_in():
    """Returns header-only libraries, whose code is compiled into lm-utils."""
    headers = {"CLI11": "/usr/include/CLI/CLI.hpp", "nlohmann-json": "/usr/include/nlohmann/json.hpp"}
    return {name: path for name, path in headers.items() if os.path.exists(path)}


def package_of(path):
    """Returns the Debian package of a file. dpkg may list a library under its path from before the merge of /usr."""
    for place in (path, path.removeprefix("/usr")):
        found = subprocess.run(["dpkg", "-S", place], capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    return None


def copy_licences(places, given, folder):
    """Copies the licence of each file of `places` (name: path): its package's, or the file given by --licence."""
    for name, place in sorted(places.items()):
        package = None
        if name in given:
            package, licence = name, given[name]
        elif shutil.which("dpkg"):
            package = package_of(os.path.realpath(place))
            licence = f"/usr/share/doc/{package}/copyright"
        if not package or not os.path.exists(licence):
            die(f"{place}: unknown licence: give --licence {name}=FILE")
        os.makedirs(os.path.join(folder, package), exist_ok=True)
        target = os.path.join(folder, package, "copyright")
        if not os.path.exists(target):
            shutil.copyfile(licence, target)
            os.chmod(target, 0o644)


def time_of(source):
    """Returns the time of all files of the archive."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    commit = subprocess.run(["git", "-C", source, "log", "-1", "--format=%ct"], capture_output=True, text=True)
    if commit.returncode == 0:
        return int(commit.stdout)
    return int(os.path.getmtime(os.path.join(source, "CMakeLists.txt")))


def pack(stage, name, archive, time):
    """Writes the archive: sorted, without users or times of this machine, so equal files give equal bytes."""
    def plain(entry):
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = time
        entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        return entry

    with open(archive + ".part", "wb") as file:
        with gzip.GzipFile("", "wb", fileobj=file, mtime=time) as zipped, tarfile.open(fileobj=zipped, mode="w") as tar:
            tar.add(stage, name, filter=plain)
    os.rename(archive + ".part", archive)


def parse_arguments():
    parser = argparse.ArgumentParser(prog="bundle", description=__doc__.split("\n")[0])
    parser.add_argument("build", metavar="BUILD-DIRECTORY")
    parser.add_argument("what", nargs="?", choices=["bundle", "gpu_kit"], default="bundle",
                        help="bundle (default), or gpu_kit, which has the tests and benchmarks of a GPU and no docs")
    parser.add_argument("--licence", action="append", default=[], metavar="NAME=FILE",
                        help="the licence of a library that no Debian package owns")
    args = parser.parse_args()
    if not os.path.exists(os.path.join(args.build, "bin", "lm-train")):
        die(f"{args.build}: not a build of lm-utils: bin/lm-train does not exist")
    args.licence = dict(pair.split("=", 1) for pair in args.licence if "=" in pair)
    return args


def main():
    args = parse_arguments()
    source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    program = os.path.join(args.build, "bin", "lm-train")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    name = f"lm-utils-{version}-" + ("gpu-kit" if args.what == "gpu_kit" else "linux-x86_64")
    with tempfile.TemporaryDirectory() as scratch:
        stage = os.path.join(scratch, name)
        install(args.build, stage)
        folder, = {os.path.dirname(path) for path in elf_files(stage) if os.path.basename(path) == "liblm.so"}
        foreign = {}
        if args.what == "gpu_kit":
            add_kit(stage, args.build, source)
        for library, place in all_libraries(stage).items():
            target = os.path.join(folder, library)
            if not os.path.exists(target):
                shutil.copyfile(place, target)
                os.chmod(target, 0o755)
                foreign[library] = place
        for path in elf_files(stage):
            if os.path.basename(path) not in PLUGINS:
                runpath_to_rpath(path)
            if args.what == "gpu_kit":
                subprocess.run(["strip", "--strip-unneeded", path], check=True)
        needed = "glibc {}.{}".format(*newest_glibc(stage))
        if args.what == "bundle":
            foreign.update(add_glibc(stage, folder))
            with open(os.path.join(stage, "BUNDLE.md"), "w", encoding="utf-8") as file:
                file.write(BUNDLE_TEXT.replace("VERSION", version).replace("NEEDED", needed))
        # The documents move to the top of the archive.
        texts = os.path.join(stage, "share", "doc", "lm-utils")
        if args.what == "gpu_kit":
            shutil.rmtree(texts)
        copy_licences({**foreign, **compiled_in()}, args.licence, os.path.join(texts, "third-party"))
        shutil.copytree(texts, stage, dirs_exist_ok=True)
        shutil.rmtree(os.path.join(stage, "share", "doc"))
        archive = os.path.join(args.build, name + ".tar.gz")
        pack(stage, name, archive, time_of(source))
    print(f"{archive}: {os.path.getsize(archive) >> 20} MiB, needs {needed}")


main()
