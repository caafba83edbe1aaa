#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run_pages.py DATA PAGE...: runs the commands of Markdown pages as they are printed, in the order of each page.

DATA is the directory of prepare_pages.sh; each page has its own copy. A command is a line of an indented block that begins with
a program. A line that ends with a backslash continues on the next one. In a command, "..." stands for the flags of a small
training, and /store, /dev/shm/run and host: for a directory.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

PROGRAM = re.compile(r"(?:[A-Z_]+=\S+ )*(lm-[a-z]+(?= |$)|echo |for |mpirun |srun |sbatch |torchrun |kill |cmake |pip |tar |apt |module "
                     r"|\. ~|fpath=|set -p|tests/|tools/|\./|ctest )")
# Commands that other tests run, or that need another machine: skipped and counted.
ELSEWHERE = [
    (r"srun |sbatch |torchrun |mpirun -n 64 ", "a cluster: tests/e2e/slurm*.sh, tests/e2e/rendezvous.sh"),
    (r"--device cuda", "a GPU: tests/gpu.sh, tests/e2e/train_cuda.sh"),
    (r"tests/gpu.sh|\S*gpu-kit|tar -xzf lm-utils|cmake .*(bundle|gpu_kit)", "tests/e2e/gpu_kit.sh, tests/e2e/bundle.sh"),
    (r"cmake |\./demo.sh|\./check.sh|\. ~|fpath=|set -p|module ", "tests/e2e/install.sh, demo.sh and completion.sh"),
    (r"tools/deb-packages|tools/install-deps|apt ", "tests/e2e/packages.sh and install.sh"),
    (r"pip |tools/lm_eval|.*--check-python", "tests/live"),
    (r"lm-convert megatron_345m ", "tests/e2e/convert_megatron_release.sh"),
    (r"kill ", "tests/e2e/train_stops.sh"),
    (r"lm-train --explain", "tests/e2e/train_hang.sh"),
]
TRAINING = ("--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --micro-batch-size 2 --global-batch-size {batch} "
            "--train-iters 20 --lr 1e-3 --lr-decay-style constant --eval-iters 0 --threads 1 --device cpu")
ENDLESS = re.compile("--watch|--follow")
# These commands may exit with 1, which is the answer "no".
ANSWERS = re.compile(r"lm-ckpt diff|lm-shmcheck|lm-estimate (batch|layout|memory|eta .*--max-age)")


def commands_of(page):
    """Yields (line number, command) of the indented blocks."""
    text = re.sub(r"\\\n +", lambda found: " " * len(found.group()), open(page).read())
    # Line numbers after joined lines are only approximate, which is enough to find a command.
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("    ") and PROGRAM.match(line[4:]):
            yield number, line[4:]


def runnable(command):
    """Returns the command with its placeholders replaced."""
    batch = 256 if "--world-size 128" in command else 16
    flags = TRAINING.format(batch=batch) + ("" if "--data-path" in command else " --data-path corpus_text_document")
    if "--load checkpoints" in command:
        flags += " --override-opt_param-scheduler"
    command = re.sub(r" \.\.\.(?= |$)", " " + flags, command)
    command = re.sub(r"(host:|(?<= ))/store/", "store/", command).replace("/dev/shm/run", "store/shm")
    if not ENDLESS.search(command):
        return command
    # The check of the exit code is on its own line, because the command may end with a comment.
    return f"set +e\ntimeout -s INT 3 {command}\ncode=$?\n[ $code = 0 ] || [ $code = 124 ]"


def set_aside(place, command):
    """Moves the outputs of earlier commands out of the way of a new run. Returns the names to restore after it."""
    for prefix in re.findall(r"--output-prefix (\S+)", command):
        subprocess.run(f"rm -rf {prefix}_*", shell=True, cwd=place, check=True)
    # A command with the sizes of its own model cannot resume from the checkpoints of another command.
    saved = [name for name in re.findall(r"--save (\S+)", command)
             if f"--load {name}" not in command or "--num-layers" in command]
    saved = [name for name in saved if os.path.exists(os.path.join(place, name))]
    for name in saved:
        os.rename(os.path.join(place, name), os.path.join(place, name + ".aside"))
    return saved


def main():
    data, pages = sys.argv[1], sys.argv[2:]
    ran, elsewhere, failed = 0, 0, 0
    for page in pages:
        with tempfile.TemporaryDirectory() as scratch:
            place = os.path.join(scratch, "page")
            shutil.copytree(data, place, symlinks=True)
            for number, command in commands_of(page):
                if any(re.match(pattern, command) or "--device cuda" in command for pattern, _ in ELSEWHERE):
                    elsewhere += 1
                    continue
                replaced = set_aside(place, command)
                ran += 1
                start = time.monotonic()
                done = subprocess.run(["bash", "-euo", "pipefail", "-c", runnable(command)], cwd=place,
                                      stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1200)
                for name in replaced:
                    subprocess.run(f"rm -rf {name} && mv {name}.aside {name}", shell=True, cwd=place, check=True)
                # The output of a test that is stopped then shows how far it came.
                print(f"{os.path.basename(page)}:{number}: {time.monotonic() - start:.1f} s", flush=True)
                if done.returncode > (1 if ANSWERS.match(command) else 0):
                    failed += 1
                    print(f"{page}:{number}: exit code {done.returncode}:\n{command}\n{done.stdout[-1500:]}{done.stderr[-1500:]}",
                          flush=True)
    print(f"{ran} commands of {len(pages)} pages ran, {failed} failed, {elsewhere} are in other tests")
    return 1 if failed or ran == 0 else 0


sys.exit(main())
