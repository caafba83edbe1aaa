#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Dockerfile builds an image in which two ranks train. A bare Debian 12 takes the place of the base image with CUDA.
# Skipped if the user is not root, or if buildah or debootstrap is not installed.
# labels: proof
# timeout: 5400
root=$(realpath "$(dirname "$0")/../..")
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"
# shellcheck source=tests/e2e/debian.bash
. "$root/tests/e2e/debian.bash"
for tool in buildah debootstrap; do
    command -v $tool >/dev/null || {
        echo "skipped: $tool is not installed: apt install --no-install-recommends buildah debootstrap"
        exit 77
    }
done
if [ "$(id -u)" != 0 ] || ! unshare --mount true 2>/dev/null; then
    echo "skipped: no right to make a root directory"
    exit 77
fi
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
store() { buildah --root "$work/images" --runroot "$work/run" "$@"; }

bare_debian_like_this bare
base=$(store from scratch)
store add --quiet "$base" bare / >/dev/null
store commit --quiet --rm "$base" localhost/bare >/dev/null
mkdir context
git -C "$root" archive HEAD | tar -x -C context
run image.log store build --file context/share/container/Dockerfile --tag localhost/lm-utils \
    --build-arg BASE=localhost/bare --build-arg LM_CUDA=OFF context
image=$(store from localhost/lm-utils)
inside() { store run "$image" -- "$@"; }
run help inside lm-train --help
run train.log inside mpirun --allow-run-as-root --oversubscribe -n 2 lm-train --num-layers 2 --hidden-size 32 --num-attention-heads 2 \
    --seq-length 16 --mock-data --vocab-size 100 --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --train-iters 10 \
    --eval-iters 0 --log-interval 1 --threads 1
grep -q '^ iteration  *10/' train.log || fail "no training: $(cat train.log)"
! inside test -e /src || fail "the image has the sources"
echo "the image has $(store images --json localhost/lm-utils | jq -r '.[0].size'), and two ranks train in it"
