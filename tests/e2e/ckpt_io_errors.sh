#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Errors of a real block device. The file of a mounted loop device is cut short: reads of the newest step give EIO, so
# every verb and a resume end with an error that names the file, and never take an older step. The file system below
# another loop device is full, so that the device fails writes although its file system has room: the last save fails,
# and the step before it is complete.
# labels: proof
# timeout: 300
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"

skip() {
    echo "skipped: $1"
    exit 77
}
[ "$(id -u)" = 0 ] || skip "mounting a loop device needs root"
for program in mkfs.ext4 filefrag; do
    command -v $program >/dev/null || skip "$program is not installed"
done
mkdir disk small full
unmount_all() {
    end_jobs
    for directory in disk full small; do umount "$work/$directory" 2>/dev/null || true; done
    rm -rf "$work"
}
at_exit unmount_all
# loop_disk IMAGE DIRECTORY SIZE: mounts a file system in a sparse file. Its metadata is at the start, without a journal.
loop_disk() {
    truncate -s "$3" "$1"
    mkfs.ext4 -q -F -b 4096 -m 0 -O ^has_journal -E lazy_itable_init=0 "$1"
    mount -o loop "$1" "$2" 2>mount.err || skip "no loop device can be mounted: $(cat mount.err)"
}
model=(--num-layers 2 --hidden-size 256 --num-attention-heads 4 --seq-length 16 --vocab-size 1000 --mock-data
    --micro-batch-size 2 --lr 1e-3 --threads 2 --eval-iters 0)
args=("${model[@]}" --train-iters 12 --save-interval 4)

# ---- reads --------------------------------------------------------------------------------------
loop_disk disk.img disk 120M
# Without direct I/O, the kernel gives zeros and no error for a whole read that crosses the end of the image.
losetup --direct-io=on "$(losetup -n -O NAME -j disk.img)" || skip "the loop device has no direct I/O"
# last_block FILE...: prints the number of their last block on the disk.
last_block() { filefrag -b4096 -v "$@" | sed -nE 's/^ *[0-9]+: +[0-9]+\.\. *[0-9]+: +[0-9]+\.\. *([0-9]+):.*/\1/p' | sort -n | tail -n1; }
# fill FILE: allocates all free space of the disk but 64 KiB.
fill() { fallocate -l $(($(df --output=avail -B1 disk | tail -n1) - 65536)) "disk/$1"; }
# Two copies of step 4 are in the two halves of the disk. Steps 4 and 8 are then written over them in place: step 8, the
# newest, over the copy with the last blocks.
run train.err lm-train "${args[@]}" --exit-iteration 8 --save trained
mkdir disk/run
fallocate -l 56M disk/one_half
fill other_half
rm disk/one_half
cp -r trained/global_step4 disk/run/one
sync -f disk
fill rest
rm disk/other_half
cp -r trained/global_step4 disk/run/other
rm disk/rest
older=one newest=other
if [ "$(last_block disk/run/one/*.safetensors)" -gt "$(last_block disk/run/other/*.safetensors)" ]; then older=other newest=one; fi
mv disk/run/$older disk/run/global_step4
mv disk/run/$newest disk/run/global_step8
for path in trained/*/*; do dd if="$path" of="disk/run/${path#trained/}" conv=notrunc status=none; done
cp trained/global_step8/*.json disk/run/global_step8
cp trained/latest trained/fence.json trained/generation-1 disk/run
sync -f disk
file=disk/run/global_step8/optim-00000.safetensors
first=$(($(last_block disk/run/global_step4/*.safetensors) + 1))
[ "$first" -lt "$(last_block $file)" ] || skip "the file system does not place the files as needed"
cp --sparse=always disk.img whole.img
truncate -s $((first * 4096)) disk.img
dd if=$file iflag=nocache count=0 status=none  # drops the file from the page cache

expect 3 "${file}: .*Input/output error" lm-ckpt verify disk/run
expect 3 "optim-00000.safetensors: .*Input/output error" lm-ckpt verify disk/run/global_step8
expect 3 "Input/output error" lm-ckpt diff disk/run/global_step4 disk/run/global_step8
expect 3 "Input/output error" lm-ckpt copy disk/run/global_step8 copied
expect 3 "Input/output error" lm-ckpt reshard disk/run/global_step8 resharded --tensor-model-parallel-size 2
expect 3 "Input/output error" lm-ckpt prune disk/run --keep-last 1
expect 3 "Input/output error" lm-ckpt sync disk/run synced
# Under load, a read has been seen to give zeros and no error. lm-train then rightly resumes from step 4.
for path in trained/global_step8/*; do
    code=0
    cmp -s "$path" "disk/run/${path#trained/}" 2>/dev/null || code=$?
    [ $code != 1 ] || skip "the loop device gives other bytes instead of an error"
done
expect 3 "global_step8/.*: .*Input/output error" lm-train "${args[@]}" --load disk/run --save disk/run
[ "$(head -n1 disk/run/latest)" = global_step8 ] || fail "the newest step is not the latest one any more"
[ -d disk/run/global_step4 ] || fail "prune deleted a step although it could not verify the newest one"
[ -z "$(find copied resharded synced/global_step8 -name manifest.json 2>/dev/null)" ] || fail "a copy of unreadable data is complete"

# The same disk, readable again: nothing is lost.
dd if=whole.img of=disk.img bs=4096 skip="$first" seek="$first" conv=notrunc,sparse status=none
truncate -s 120M disk.img
run again.err lm-train "${args[@]}" --load disk/run --save disk/run
grep -q "$resumed 8," again.err.err || fail "no resume: $(cat again.err.err)"
lm-ckpt verify disk/run >verified || fail "verify: $(cat verified)"

# ---- writes -------------------------------------------------------------------------------------
# The image has 120 MiB. The tmpfs below it has room for two steps and a part of the third.
bytes=$(du -sb disk/run/global_step8 | cut -f1)
mount -t tmpfs -o size=$((bytes * 5 / 2 + (4 << 20))) tmpfs small || skip "no tmpfs can be mounted"
loop_disk small/disk.img full 120M
code=0
lm-train "${args[@]}" --save full/run --save-retry 1s >out 2>err || code=$?
[ $code = 3 ] || fail "exit $code, although the last save failed: $(cat err)"
grep -Eq 'global_step[0-9]+: NOT SAVED: .*(Input/output error|No space left on device)' err || fail "no warning: $(cat err)"
latest=$(head -n1 full/run/latest)
expect 0 '' lm-ckpt verify "full/run/$latest"
echo "a broken block device: reads are errors, writes are failed saves ($latest is complete)"
