#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The archive of `--target bundle` runs in a root directory that contains only the C library. Without the right to change the
# root directory, the script checks only the content of the archive and counts as skipped.
# timeout: 300
# lock: install_manifest
build=$(realpath "$1")
root=$(realpath "$(dirname "$0")/../..")
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

"$root/tools/bundle.py" "$build" >made
archive=$(sed -E 's/: [0-9]+ MiB, needs glibc [0-9.]+$//' made)
sum=$(sha256sum <"$archive")
sleep 1
"$root/tools/bundle.py" "$build" >made
[ "$sum" = "$(sha256sum <"$archive")" ] || fail "a second call makes another archive from the same build"
mkdir -p empty/tmp empty/lib64 empty/proc empty/lib/x86_64-linux-gnu
tar -xzf "$archive" -C empty
name=$(basename "$archive" .tar.gz)
inside=empty/$name

# Every file needs only libraries of the archive or of the machine.
while read -r file; do
    for library in $(objdump -p "$file" 2>/dev/null | sed -nE 's/^ +NEEDED +//p'); do
        [ -n "$(find "$inside" -name "$library")" ] && continue
        [[ $library =~ ^(ld-linux.*|lib(c|m|pthread|dl|rt)\.so.*|lib(mpi|cublasLt|nccl|cudnn|nvrtc).*)$ ]] ||
            fail "$file needs $library, which is not in the bundle"
    done
done < <(find "$inside" -type f)
[ -z "$(find "$inside" -path '*/glibc' -prune -o -name 'libc.so*' -print -o -name 'libcuda.so*' -print -o -name 'libcublas*' -print)" ] ||
    fail "the archive contains a library that the machine must provide"

# The search path of the GPU plugins has no directory of the build machine, so the loader finds CUDA's libraries through
# LD_LIBRARY_PATH.
while read -r plugin; do
    paths=$(readelf -dW "$plugin" | sed -nE 's/^.*\((RPATH|RUNPATH)\).*\[(.*)\]$/\1 \2/p')
    # shellcheck disable=SC2016
    [ "$paths" = 'RUNPATH $ORIGIN' ] || fail "$plugin: $paths"
done < <(find "$inside" -name 'liblm_cu*.so')

# The licence of each third-party library is included, and the links of README.md have targets.
for library in libdnnl libzstd liblzma; do
    package=$(find "$inside/third-party" -mindepth 1 -maxdepth 1 -name "$library*")
    [ -s "$package/copyright" ] || fail "no licence of $library: $(ls "$inside/third-party")"
done
cmp "$inside/share/lm-utils/tokenizers/gpt2/LICENSE" "$root/share/tokenizers/gpt2/LICENSE" || fail "the licence of GPT-2"
while read -r link; do
    [ -e "$inside/$link" ] || fail "README.md links to $link, which is not there"
done < <(sed -nE 's/.*\]\(([^):#]+)\).*/\1/p' "$inside/README.md")
[ -s "$inside/share/lm-utils/slurm/train.sbatch" ] || fail "no job script"
"$root/tools/bundle.py" --help >out || fail "--help"
expect 1 'bundle: nowhere: ' "$root/tools/bundle.py" nowhere

cp -L /lib64/ld-linux-x86-64.so.2 empty/lib64/
for library in libc libm libpthread libdl librt libresolv; do
    for file in /lib/x86_64-linux-gnu/"$library".so.[0-9]*; do cp -L "$file" empty/lib/x86_64-linux-gnu/; done
done
# alone COMMAND...: runs COMMAND in the root directory `empty`, with /proc, because the loader reads the path of a program there.
alone() {
    # shellcheck disable=SC2016
    unshare --mount sh -c 'mount --bind /proc "$0/proc" && exec chroot "$0" "$@"' "$work/empty" "$@"
}
mkdir -p "$work/probe/proc"
# shellcheck disable=SC2016
if ! unshare --mount sh -c 'mount --bind /proc "$0/proc" && chroot / true' "$work/probe" 2>/dev/null; then
    echo "skipped: no right to change the root directory"
    exit 77
fi
# works BIN: the programs find their tables and libraries, and a model is trained on the CPU.
works() {
    local program
    for program in "$build"/bin/lm-*; do
        program=$(basename "$program")
        [[ $(alone "/$name/$1/$program" --version) == "$program (lm-utils) "* ]] || fail "$1/$program --version"
    done
    [ "$(echo Hello | alone "/$name/$1/lm-preprocess" encode)" = 15496 ] || fail "$1/lm-preprocess encode"
    run train.log alone "/$name/$1/lm-train" --num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length 16 \
        --mock-data --vocab-size 100 --micro-batch-size 2 --global-batch-size 2 --lr 1e-3 --train-iters 2 --eval-iters 0 \
        --log-interval 1 --threads 1
    grep -q '^ iteration  *2/' train.log || fail "$1: no training: $(cat train.log)"
}
works bin
needed=$(sed -nE 's/^.*needs glibc ([0-9.]+)$/\1/p' made)
grep -q "need Linux glibc $needed or later" "$inside/BUNDLE.md" || fail "BUNDLE.md does not state glibc $needed"

# bin-with-glibc needs a shell, dirname and readlink, and none of the machine's libraries.
rm -r empty/lib empty/lib64
mkdir -p empty/bin empty/lib64 empty/lib/x86_64-linux-gnu
busybox=$(command -v busybox) || fail "no busybox"
! ldd "$busybox" >/dev/null 2>&1 || fail "$busybox is not static"
cp "$busybox" empty/bin/
for tool in sh dirname readlink; do ln -s busybox empty/bin/$tool; done
works bin-with-glibc
echo "$name ($(du -m "$archive" | cut -f1) MiB) runs with libc alone, and with the archive's own libc"
