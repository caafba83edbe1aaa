#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The archive of `--target bundle` runs where nothing is installed: in a root directory that holds libc and nothing
# else. Without the right to make one (root): skipped.
# timeout: 300
# lock: install_manifest
build=$(realpath "$1")
root=$(realpath "$(dirname "$0")/../..")
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

"$root/tools/bundle.py" "$build" >made
archive=$(sed -E 's/: [0-9]+ MiB$//' made)
sum=$(sha256sum <"$archive")
sleep 1
"$root/tools/bundle.py" "$build" >made
[ "$sum" = "$(sha256sum <"$archive")" ] || fail "made again, it is another archive"
mkdir -p empty/tmp empty/lib64 empty/proc empty/lib/x86_64-linux-gnu
tar -xzf "$archive" -C empty
name=$(basename "$archive" .tar.gz)
inside=empty/$name

# No file of it needs anything that is not in it, but for what belongs to the machine.
while read -r file; do
    for library in $(objdump -p "$file" 2>/dev/null | sed -nE 's/^ +NEEDED +//p'); do
        [ -n "$(find "$inside" -name "$library")" ] && continue
        [[ $library =~ ^(ld-linux.*|lib(c|m|pthread|dl|rt)\.so.*|lib(mpi|cublasLt|nccl|cudnn).*)$ ]] ||
            fail "$file needs $library, which is not in the bundle"
    done
done < <(find "$inside" -type f)
[ -z "$(find "$inside" -name 'libc.so*' -o -name 'libcuda.so*' -o -name 'libcublas*')" ] || fail "too much is in it"

# What needs CUDA's libraries looks for them where LD_LIBRARY_PATH says, and knows nothing of the machine that built it.
while read -r plugin; do
    paths=$(readelf -dW "$plugin" | sed -nE 's/^.*\((RPATH|RUNPATH)\).*\[(.*)\]$/\1 \2/p')
    # shellcheck disable=SC2016
    [ "$paths" = 'RUNPATH $ORIGIN' ] || fail "$plugin: $paths"
done < <(find "$inside" -name 'liblm_cu*.so')

# Each library that is not ours has its licence there, and the links of README.md lead to something.
for library in libdnnl libzstd liblzma; do
    package=$(find "$inside/third-party" -mindepth 1 -maxdepth 1 -name "$library*")
    [ -s "$package/copyright" ] || fail "no licence of $library: $(ls "$inside/third-party")"
done
while read -r link; do
    [ -e "$inside/$link" ] || fail "README.md links to $link, which is not there"
done < <(sed -nE 's/.*\]\(([^):#]+)\).*/\1/p' "$inside/README.md")
[ -s "$inside/share/lm-utils/slurm/train.sbatch" ] || fail "no job script"
"$root/tools/bundle.py" --help >out || fail "--help"
expect 1 'bundle: nowhere: no build of lm-utils' "$root/tools/bundle.py" nowhere

cp -L /lib64/ld-linux-x86-64.so.2 empty/lib64/
for library in libc libm libpthread libdl librt libresolv; do
    for file in /lib/x86_64-linux-gnu/"$library".so.[0-9]*; do cp -L "$file" empty/lib/x86_64-linux-gnu/; done
done
# The loader asks /proc where a program lies.
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
for program in "$build"/bin/lm-*; do
    program=$(basename "$program")
    [[ $(alone "/$name/bin/$program" --version) == "$program (lm-utils) "* ]] || fail "$program --version"
done
# It computes: the tables are found, a model is trained on the CPU.
[ "$(echo Hello | alone "/$name/bin/lm-preprocess" encode)" = 15496 ] || fail "lm-preprocess encode"
run train.log alone "/$name/bin/lm-train" --num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length 16 \
    --mock-data --vocab-size 100 --micro-batch-size 2 --global-batch-size 2 --lr 1e-3 --train-iters 2 --eval-iters 0 \
    --log-interval 1 --threads 1
grep -q '^ iteration  *2/' train.log || fail "no training: $(cat train.log)"
echo "$name ($(du -m "$archive" | cut -f1) MiB) runs with libc alone"
