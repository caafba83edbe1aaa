#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Debian packages build without network (lm-utils-cuda where nvcc is), lintian finds no error or warning, their
# autopkgtests pass in a bare Debian 12, and the archive of `--target bundle` trains in Debian 11, whose glibc is older.
# Skipped if the user is not root, or if a tool for packages is not installed.
# labels: proof
# timeout: 3000
# lock: install_manifest
build=$(realpath "$1")
root=$(realpath "$(dirname "$0")/../..")
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"
# shellcheck source=tests/e2e/debian.bash
. "$root/tests/e2e/debian.bash"
for tool in debootstrap lintian autopkgtest dpkg-buildpackage; do
    command -v $tool >/dev/null || {
        echo "skipped: $tool is not installed: apt install debhelper lintian autopkgtest debootstrap"
        exit 77
    }
done
if [ "$(id -u)" != 0 ] || ! unshare --net --mount true 2>/dev/null; then
    echo "skipped: no right to make a root directory and a network namespace"
    exit 77
fi

# The packages hold the last commit. They are always built in the same directory, so that ccache has most objects.
packages=(lm-utils lm-utils-mpi)
flags=()
if PATH=$PATH:/usr/local/cuda/bin command -v nvcc >/dev/null; then
    packages+=(lm-utils-cuda)
    flags=(--cuda)
fi
run built "$root/tools/deb-packages" "${flags[@]}" --work "$build/deb-packages" "$work/debs"
for package in "${packages[@]}"; do
    ls "$work/debs/${package}_"*.deb >/dev/null || fail "no package $package: $(cat built)"
done
if [ ${#flags[@]} -gt 0 ]; then
    dpkg -c "$work"/debs/lm-utils-cuda_*.deb >files
    grep -q lm-utils/liblm_cuda.so files || fail "lm-utils-cuda: $(cat files)"
    if [ -e "$root/.cudnn/complete" ]; then grep -q lm-utils/liblm_cudnn.so files || fail "lm-utils-cuda: $(cat files)"; fi
fi
dpkg --fsys-tarfile "$work"/debs/lm-utils_*.deb | tar -xO ./usr/share/doc/lm-utils/copyright >copyright
cmp copyright "$root/debian/copyright" || fail "the licences in lm-utils"
lintian --allow-root --fail-on error,warning "$work"/debs/*.changes >lintian.log 2>&1 || fail "lintian: $(cat lintian.log)"

bare_debian_like_this bookworm
mkdir checked
git -C "$root" archive HEAD | tar -x -C checked
# inside ROOT COMMAND...: runs COMMAND with /proc mounted in ROOT, because the loader reads the path of a program there.
# shellcheck disable=SC2016
inside() { unshare --mount sh -c 'mount --bind /proc "$0/proc" && exec "$@"' "$@"; }
inside "$work/bookworm" autopkgtest --output-dir "$work/autopkgtest" "$work"/debs/*.deb checked/ -- chroot "$work/bookworm" \
    >autopkgtest.log 2>&1 || fail "autopkgtest: $(tail -n 40 autopkgtest.log)"
grep -q 'train-ranks  *PASS' autopkgtest.log || fail "$(tail -n 20 autopkgtest.log)"

bare_debian bullseye bullseye
"$root/tools/bundle.py" "$build" >made
archive=$(sed -E 's/: [0-9]+ MiB, needs glibc [0-9.]+$//' made)
tar -xzf "$archive" -C bullseye/opt
name=$(basename "$archive" .tar.gz)
old() { inside "$work/bullseye" chroot "$work/bullseye" "$@"; } # in Debian 11
[ "$(echo Hello | old "/opt/$name/bin-with-glibc/lm-preprocess" encode)" = 15496 ] || fail "lm-preprocess encode"
run train.log old "/opt/$name/bin-with-glibc/lm-train" --num-layers 1 --hidden-size 32 --num-attention-heads 2 \
    --seq-length 16 --mock-data --vocab-size 100 --micro-batch-size 2 --global-batch-size 2 --lr 1e-3 --train-iters 10 \
    --eval-iters 0 --log-interval 1 --threads 1
grep -q '^ iteration  *10/' train.log || fail "no training: $(cat train.log)"
echo "packages: lintian clean, autopkgtest passed; $(sed 's/.*needs/needs/' made), trained with glibc $(old ldd --version | sed -n '1s/.* //p')"
