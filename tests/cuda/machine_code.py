#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the machine code of the CUDA plugin's kernels: no local memory (spilled or indexed registers), accesses of
16 bytes where kernels are bound by memory, tensor cores and asynchronous copies in attention, no atomics on floats.

Usage: machine_code.py liblm_cuda.so test_cuda EMULATED [DIRECTORY...]
EMULATED is liblm_cuda.so for the emulator: its launches have the threads and the shared memory of each kernel.
cuobjdump is $CUOBJDUMP, or in the PATH, or in one of the directories (PyPI packages: nvidia-cuda-cuobjdump, and
nvidia-cuda-nvdisasm, which it needs). Exit code 77: no cuobjdump.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict, namedtuple

WIDE_LOAD, WIDE_STORE = r"LDG\.E\S*\.128", r"STG\.E\S*\.128"
TENSOR_CORES, MATRIX_LOAD, COPY = r"HMMA\.", r"LDSM\.", r"LDGSTS\."
LOCAL = r"(LDL|STL)\b"
FLOAT_ATOMIC = r"(RED|ATOMG?|ATOMS)\.\S*F(16|32|64)"

# Source file, kernel (mangled: its name, then template arguments), and instructions that it must contain. Kernels with
# two widths are checked in the wide one (8 elements; 4 for activations in fp32).
REQUIRED = [
    ("activation", r"activate_kernelI(f\w*Li4|\w+Li8)", (WIDE_LOAD, WIDE_STORE)),
    ("activation", r"activate_backward_kernelI(f\w*Li4|\w+Li8)", (WIDE_LOAD, WIDE_STORE)),
    ("adamw", r"adamw_kernel", (WIDE_LOAD, WIDE_STORE)),
    ("attention", r"attention_delta_kernel", (WIDE_LOAD,)),
    ("attention_forward", r"attention_forward_kernel", (TENSOR_CORES, MATRIX_LOAD, COPY, WIDE_STORE)),
    ("attention_backward", r"attention_backward_keys_kernel", (TENSOR_CORES, MATRIX_LOAD, COPY, WIDE_STORE)),
    ("attention_backward", r"attention_backward_queries_kernel", (TENSOR_CORES, MATRIX_LOAD, COPY, WIDE_STORE)),
    ("attention_fp32", r"attention_\w+_fp32_kernel", ()),
    ("column_sums", r"column_sums_kernelI\w+Li8", (WIDE_LOAD,)),
    ("cross_entropy", r"stats_kernel", (WIDE_LOAD,)),
    ("cross_entropy", r"backward_kernel", (WIDE_LOAD, WIDE_STORE)),
    ("cross_entropy", r"one_pass_kernel", (WIDE_LOAD, WIDE_STORE)),
    ("embedding", r"forward_kernel", (WIDE_LOAD, WIDE_STORE)),
    ("embedding", r"sum_kernel", (WIDE_STORE,)),
    ("flat", r"sum_kernelI", (WIDE_LOAD,)),
    ("flat", r"fingerprint_kernelI", (WIDE_LOAD,)),
    ("flat", r"(cast|scale)_kernel", (WIDE_LOAD, WIDE_STORE)),
    ("flat", r"fill_kernel", (WIDE_STORE,)),
    ("gated", r"(forward|backward)I\w+Li8", (WIDE_LOAD, WIDE_STORE)),
    ("head_norm", r"(forward|backward)I\w+Li8", (WIDE_LOAD, WIDE_STORE)),
    ("residual_norm_forward", r"forwardI\w+Li8", (WIDE_LOAD, WIDE_STORE)),
    ("residual_norm_backward", r"backward_in_registers", (WIDE_LOAD, WIDE_STORE)),
    ("residual_norm_backward", r"backward_rowsI\w+Li8", (WIDE_LOAD, WIDE_STORE)),
    ("residual_norm_backward", r"parameter_gradientsI\w+Li8", (WIDE_LOAD,)),
    ("rotary", r"rotary_kernelI\w+Li8", (WIDE_LOAD, WIDE_STORE)),
]
# Attention in fp32 must not use tensor cores, which would round its operands.
FORBIDDEN = [("", r"", LOCAL), ("", r"", FLOAT_ATOMIC), ("attention_fp32", r"", TENSOR_CORES)]


def find_cuobjdump(directories):
    wish = os.environ.get("CUOBJDUMP")
    path = os.pathsep.join([os.environ.get("PATH", ""), *directories])
    found = shutil.which(wish or "cuobjdump", path=path)
    if not found:
        print("skipped: no cuobjdump: set CUOBJDUMP to its path")
        sys.exit(77)
    os.environ["PATH"] = os.pathsep.join([os.path.dirname(found), path])  # cuobjdump searches it for nvdisasm
    return found


def kernels_of(cuobjdump, library):
    """Returns {(architecture, function): Counter of its instructions}."""
    kernels = {}
    architecture, current = "", None
    process = subprocess.Popen([cuobjdump, "--dump-sass", library], stdout=subprocess.PIPE, text=True)
    instruction = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?\w+\s+)?([A-Z][\w.]*)")
    for line in process.stdout:
        if match := instruction.match(line):
            current[match[1]] += 1
        elif match := re.match(r"\s*Function : (\S+)", line):
            current = kernels.setdefault((architecture, match[1]), Counter())
        elif match := re.match(r"arch = (sm_\w+)", line):
            architecture = match[1]
    if process.wait() != 0:
        sys.exit(f"{cuobjdump} failed")
    return kernels


def own_memory(cuobjdump, library):
    """Returns the functions with a stack or local memory, each with its resource usage."""
    text = subprocess.run([cuobjdump, "--dump-resource-usage", library], capture_output=True, text=True, check=True)
    usage = re.findall(r"Function (\S+):\s+(REG:.*)", text.stdout)
    if not usage:
        sys.exit("cuobjdump --dump-resource-usage printed no function")
    return [f"{name}: {used}" for name, used in usage if not re.search(r"STACK:0 .*LOCAL:0\b", used)]


# The blocks of an SM. Architecture: KiB of shared memory of an SM, and registers.
SM = {"sm_80": (164, 65536), "sm_90": (228, 65536)}
# Shared memory that the system reserves in each block; in the code of sm_90 the block's static size includes it.
RESERVED_BYTES = 1024
ATTENTION = {"forward": ("attention_forward", "attention_forward_kernel"),
             "dK and dV": ("attention_backward", "attention_backward_keys_kernel"),
             "dQ": ("attention_backward", "attention_backward_queries_kernel")}
ATTENTION_THREADS, NORM_THREADS, LOSS_THREADS = 128, 256, 512  # as the document states
REGISTERS_MORE = 3  # another version of nvcc may use this many registers more or fewer than the document states

# A kernel in the document. file, pattern: as in REQUIRED. kib: dynamic shared memory of a block; None: not stated.
Documented = namedtuple("Documented", "file pattern threads registers kib blocks")


def both(text):
    """Returns the numbers of "180 (168)": sm_90's, and sm_80's in brackets."""
    numbers = [int(n) for n in re.findall(r"\d+", text)]
    return {"sm_90": numbers[0], "sm_80": numbers[-1]}


def norm_backward(columns, registers, blocks):
    """Returns the norm's backward kernels for up to `columns` columns, without and with dropout ("80 (88)": with dropout 88)."""
    steps = columns // (8 * NORM_THREADS)
    numbers = [[int(n) for n in re.findall(r"\d+", text)] for text in (registers, blocks)]
    return [Documented("residual_norm_backward", rf"backward_in_registersI13__nv_bfloat16Li{steps}ELb{dropout}E", NORM_THREADS,
                       {"sm_90": numbers[0][at]}, None, {"sm_90": numbers[1][at]}) for dropout, at in ((0, 0), (1, -1))]


def documented(path):
    """Returns the kernels of attention's and the norms' tables in bench/cuda.md, and the one-pass cross-entropy of GPT-2."""
    rows = [Documented("cross_entropy", "one_pass_kernelI13__nv_bfloat16", LOSS_THREADS, {}, None, {"sm_90": 2})]
    with open(path) as file:
        for line in file:
            if match := re.match(r"\| (forward|dK and dV|dQ), D <= (\d+)(, dropout)?[^|]*\|[^|]*\|([^|]*)\|([^|]*)\|([^|]*)\|", line):
                kernel, width, dropout, registers, kib, blocks = match.groups()
                source, name = ATTENTION[kernel]
                rows.append(Documented(source, rf"{name}I13__nv_bfloat16Li{width}ELb{1 if dropout else 0}E", ATTENTION_THREADS,
                                       both(registers), float(kib), both(blocks)))
            elif match := re.match(r"\| forward \| (\d+) \| (\d+) \|", line):
                rows.append(Documented("residual_norm_forward", r"forwardI13__nv_bfloat16Li8E", NORM_THREADS,
                                       {"sm_90": int(match[1])}, None, {"sm_90": int(match[2])}))
            elif match := re.match(r"\| heads, (forward|backward) \| (\d+) \| (\d+) \|", line):
                rows.append(Documented("head_norm", rf"{match[1]}I13__nv_bfloat16Li8E", NORM_THREADS,
                                       {"sm_90": int(match[2])}, None, {"sm_90": int(match[3])}))
            elif match := re.match(r"\| backward, up to (\d+)[^|]*\|([^|]*)\|([^|]*)\|", line):
                rows += norm_backward(int(match[1]), match[2], match[3])
    if len(rows) != 1 + len(ATTENTION) * 5 + 1 + 6 + 2:
        sys.exit(f"{path}: {len(rows)} rows of kernels, not 25")
    return rows


def launches(test, library):
    """Returns {(source file, kernel): {(threads, bytes of dynamic shared memory)}} of the launches by the emulator, in the
    shapes of kernel_launch_test.cpp. The log has the kernels' addresses in the library. A kernel's symbol follows the
    symbol of its file."""
    with tempfile.TemporaryDirectory() as directory:
        log = os.path.join(directory, "log")
        environment = dict(os.environ, LM_PLUGIN_DIR=os.path.dirname(library), EMULATED_CUDA_LOG=log, EMULATED_CUDA_LAUNCHES="1")
        subprocess.run([test, "[.launches]"], env=environment, stdout=subprocess.DEVNULL, check=True)
        text = "".join(open(os.path.join(directory, name)).read() for name in os.listdir(directory))
    names, file = {}, ""
    for line in subprocess.run(["readelf", "-sW", library], capture_output=True, text=True, check=True).stdout.splitlines():
        words = line.split()
        if len(words) == 8 and words[3] == "FILE":
            file = words[7].removesuffix(".cu")
        elif len(words) == 8 and words[3] == "FUNC" and words[4] == "LOCAL":
            names[int(words[1], 16)] = file, words[7]
    found = defaultdict(set)
    for address, threads, shared in re.findall(r"^launch (\w+) (\d+) (\d+)$", text, re.MULTILINE):
        if kernel := names.get(int(address, 16)):
            found[kernel].add((int(threads), int(shared)))
    return found


def launch_of(row, launched):
    """Returns the bytes of dynamic shared memory of the kernel's launches with the document's number of threads, or a text
    that states how the launches differ from the document."""
    of_kernel = {launch for (file, name), launches in launched.items() if file == row.file and
                 re.search(rf"\d{row.pattern}", name) for launch in launches}
    sizes = [shared for threads, shared in of_kernel if threads == row.threads]
    if len(sizes) != 1:
        return f"{row.pattern}: (threads, bytes) of its launches: {sorted(of_kernel)}, expected one with {row.threads} threads"
    if row.kib is not None and abs(row.kib * 1024 - sizes[0]) > 0.05 * 1024 + 1:
        return f"{row.pattern}: launched with {sizes[0] / 1024:.2f} KiB of dynamic shared memory, not {row.kib}"
    return sizes[0]


# Rows of the table with a column of threads: the kernels whose registers it lists.
FLAT = {"adamw": ["adamw_kernelI13"], "sum_squares": ["sum_kernelI\\w*6Square"], "cast fp32": ["cast_kernelIf13"],
        "fill, scale": ["fill_kernelI13", "scale_kernelI13"], "cross_entropy (": ["one_pass_kernelI13"],
        "cross_entropy_stats": ["12stats_kernelI13"], "cross_entropy_backward": ["cross_entropy_cu_\\w+backward_kernelI13"],
        "embedding_forward": ["embedding_cu_\\w+forward_kernelI13"], "embedding_backward": ["embedding_cu_\\w+sum_kernelI13"]}


def documented_registers(path):
    """Returns [(pattern of the kernel's name, registers)] of the table with a column of threads in bench/cuda.md."""
    found = []
    with open(path) as file:
        for line in file:
            if match := re.match(r"\| ([^|]+)\| \d+(?: to \d+)? \| (\d+)(?:, (\d+))? \|[^|]*\|[^|]*\|[^|]*\|[^|]*\|$", line):
                patterns = [FLAT[name] for name in FLAT if match[1].startswith(name)]
                if len(patterns) != 1:
                    sys.exit(f"{path}: {match[1]}: {len(patterns)} known kernels, not 1")
                found += zip(patterns[0], (int(n) for n in match.groups()[1:] if n))
    if len(found) != sum(map(len, FLAT.values())):
        sys.exit(f"{path}: registers of {len(found)} kernels, not {sum(map(len, FLAT.values()))}")
    return found


def occupancy(cuobjdump, library, path, launched):
    """Compares registers and blocks of an SM in the document `path` with the compiled kernels and their launches.
    Returns the differences."""
    text = subprocess.run([cuobjdump, "--dump-resource-usage", library], capture_output=True, text=True, check=True).stdout
    used, architecture = {}, ""
    for line in text.splitlines():
        if match := re.match(r"arch = (sm_\w+)", line):
            architecture = match[1]
        elif match := re.match(r"\s*Function (\S+):", line):
            function = match[1]
        elif match := re.search(r"REG:(\d+) .*SHARED:(\d+)", line):
            used[architecture, function] = int(match[1]), int(match[2])
    problems, n = [], 0
    for row in documented(path):
        dynamic = launch_of(row, launched)
        if isinstance(dynamic, str):
            problems.append(dynamic)
            continue
        for architecture, wanted in row.blocks.items():
            found = [use for (arch, name), use in used.items() if arch == architecture and
                     is_kernel(name, row.file, rf"\d{row.pattern}")]
            if architecture not in {arch for arch, _ in used}:
                continue
            if len(found) != 1:
                problems.append(f"{architecture}: {len(found)} kernels {row.pattern}")
                continue
            regs, static = found[0]
            static = max(static, RESERVED_BYTES) if architecture == "sm_90" else static + RESERVED_BYTES
            of_sm, all_registers = SM[architecture]
            held = min(all_registers // (-(-regs // 8) * 8 * row.threads), of_sm * 1024 // (dynamic + static))
            n += 1
            if held != wanted:
                problems.append(f"{architecture}: {row.pattern}: an SM holds {held} blocks ({regs} registers, {dynamic} bytes), "
                                f"not {wanted}")
            if architecture == "sm_90" and row.registers and abs(row.registers["sm_90"] - regs) > REGISTERS_MORE:
                problems.append(f"{architecture}: {row.pattern}: {regs} registers, not {row.registers['sm_90']}")
    for pattern, registers in documented_registers(path):
        found = [regs for (arch, name), (regs, _) in used.items() if arch == "sm_90" and re.search(pattern, name)]
        if len(found) != 1:
            problems.append(f"sm_90: {len(found)} kernels {pattern}")
        elif abs(found[0] - registers) > REGISTERS_MORE:
            problems.append(f"sm_90: {pattern}: {found[0]} registers, not {registers}")
    print(f"blocks of an SM: {n} kernels as in {os.path.basename(path)}")
    return problems


def is_kernel(function, file, pattern):
    """Returns true when `file` defines the kernel: an unnamed namespace is mangled with the name of its file."""
    in_file = rf"_\d+_{file}_cu_" if file else ""
    return re.search(rf"{in_file}\w*?{pattern}" if in_file else pattern, function)


def has(instructions, pattern):
    return any(re.match(pattern, name) for name in instructions)


def main():
    library, test, emulated, *directories = sys.argv[1:]
    if not os.path.exists(library):
        print(f"skipped: {library} does not exist")
        sys.exit(77)
    cuobjdump = find_cuobjdump(directories)
    problems = own_memory(cuobjdump, library)
    document = os.path.join(os.path.dirname(__file__), "../../bench/cuda.md")
    problems += occupancy(cuobjdump, library, document, launches(test, emulated))
    kernels = kernels_of(cuobjdump, library)
    by_architecture = defaultdict(dict)
    for (architecture, function), instructions in kernels.items():
        by_architecture[architecture][function] = instructions
    if not by_architecture:
        sys.exit(f"{library}: contains no machine code")
    for architecture, functions in by_architecture.items():
        for file, pattern, required in REQUIRED:
            chosen = [f for f in functions if is_kernel(f, file, rf"\d{pattern}")]
            if not chosen:
                problems.append(f"{architecture}: no kernel {pattern} of {file}.cu")
            problems += [f"{architecture}: {f}: no {r}" for f in chosen for r in required if not has(functions[f], r)]
        for file, pattern, forbidden in FORBIDDEN:
            problems += [f"{architecture}: {f}: {forbidden}" for f, instructions in functions.items()
                         if is_kernel(f, file, pattern) and has(instructions, forbidden)]
        print(f"{architecture}: {len(functions)} kernels")
    sys.exit("\n".join(problems) or None)


if __name__ == "__main__":
    main()
