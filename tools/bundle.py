#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes lm-utils-VERSION-linux-x86_64.tar.gz of a build: it runs on another x86-64 Linux, by unpacking.

Usage: tools/bundle.py BUILD-DIRECTORY [gpu_kit] (cmake --build BUILD-DIRECTORY --target bundle, or gpu_kit)

gpu_kit: lm-utils-VERSION-gpu-kit.tar.gz, with what tests/gpu.sh and bench/gpu.py run besides, without docs.

What `cmake --install` gives, and every library that it needs, but not libc, the CUDA driver, the CUDA
libraries and MPI: those belong to the machine. The programs find the libraries by DT_RPATH, which holds for the
libraries of libraries as well; DT_RUNPATH, which linkers write today, does not (ld.so(8)).
"""
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile

# Of the GNU C library, of NVIDIA, of MPI implementations (which need their own files at fixed places).
LEFT_TO_THE_MACHINE = re.compile(
    r"^(ld-linux|linux-vdso|lib(c|m|pthread|dl|rt|resolv|util|anl|mvec|nss_\w+)\.so"
    r"|lib(cuda|cudart|cublas|cublasLt|cudnn\w*|nccl|nvrtc|nvJitLink|nvidia[-\w]*)\.so"
    r"|lib(mpi|mpich|open-rte|open-pal|pmix|prte)\b)")
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
    """Name and place of the libraries that a file itself needs, but for those left to the machine."""
    needed = subprocess.run(["objdump", "-p", path], capture_output=True, text=True, check=True).stdout
    names = [name for name in re.findall(r"NEEDED\s+(\S+)", needed) if not LEFT_TO_THE_MACHINE.match(name)]
    out = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    places = dict(re.findall(r"^\s*(\S+) => (/\S+)", out, re.MULTILINE))
    for name in names:
        if name not in places:
            die(f"{path} needs {name}, which is not to be found")
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


# Of the build, and of the source tree; they lie where they lay, programs of the build below bin and tests.
KIT_PROGRAMS = ("bin/test_conformance", "tests/cuda/test_cuda", "bench/bench_device_ops")
KIT_SCRIPTS = ("tests/gpu.sh", "tests/cuda/sanitizer.sh", "tests/e2e/common.bash", "tests/e2e/train_cuda.sh",
               "tests/e2e/train_cuda_ranks.sh", "bench/gpu.py", "bench/train_pytorch.py")


def add_kit(stage, build, source):
    for names, root in ((KIT_PROGRAMS, build), (KIT_SCRIPTS, source)):
        for name in names:
            os.makedirs(os.path.dirname(os.path.join(stage, name)), exist_ok=True)
            shutil.copy(os.path.join(root, name), os.path.join(stage, name))


def add_texts(stage, source):
    for text in ("README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(os.path.join(source, text), stage)
    shutil.copytree(os.path.join(source, "docs"), os.path.join(stage, "docs"))


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["gpu_kit"]):
        die("arguments: the build directory, and gpu_kit or nothing")
    build = sys.argv[1]
    kit = len(sys.argv) == 3
    source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    program = os.path.join(build, "bin", "lm-train")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    name = f"lm-utils-{version}-" + ("gpu-kit" if kit else "linux-x86_64")
    with tempfile.TemporaryDirectory() as scratch:
        stage = os.path.join(scratch, name)
        subprocess.run(["cmake", "--install", build, "--prefix", stage], check=True, stdout=subprocess.DEVNULL)
        folder, = {os.path.dirname(path) for path in elf_files(stage) if os.path.basename(path) == "liblm.so"}
        if kit:
            add_kit(stage, build, source)
        for library, place in all_libraries(stage).items():
            target = os.path.join(folder, library)
            if not os.path.exists(target):
                shutil.copyfile(place, target)
                os.chmod(target, 0o755)
        for path in elf_files(stage):
            runpath_to_rpath(path)
            if kit:
                subprocess.run(["strip", "--strip-unneeded", path], check=True)
        if not kit:
            add_texts(stage, source)
        archive = os.path.join(build, name + ".tar.gz")
        with tarfile.open(archive + ".part", "w:gz") as tar:
            tar.add(stage, name)
        os.rename(archive + ".part", archive)
    print(f"{archive}: {os.path.getsize(archive) >> 20} MiB")


main()
