#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Eight ranks on eight hosts (LM_HOST): one rank is stopped most of the time, and another has a slow disk. The node check and the
# table of the slowest ranks name both; there is a warning for the slow rank.
# labels: proof;mpi
# timeout: 600
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"
slow=5 disk=2 # ranks

make_corpus corpus.jsonl 300
lm-preprocess --input corpus.jsonl --output-prefix data --tokenizer-type ByteTokenizer --append-eod --quiet
cat >rank <<'END'
#!/bin/bash
export LM_HOST=host$OMPI_COMM_WORLD_RANK
[ "$OMPI_COMM_WORLD_RANK" != "$DISK" ] || export LM_IO_FAULT=slow:1000
[ "$OMPI_COMM_WORLD_RANK" != "$SLOW" ] || "$RUN/halting" $$ &
exec "$@"
END
# Stops the process for nine tenths of its time, until it ends.
cat >halting <<'END'
#!/bin/bash
while kill -STOP "$1" 2>/dev/null; do
    sleep 0.09
    kill -CONT "$1"
    sleep 0.01
done
END
chmod +x rank halting
export RUN=$work SLOW=$slow DISK=$disk

code=0
mpirun -n 8 ./rank lm-train --num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 64 --micro-batch-size 1 \
    --global-batch-size 8 --train-iters 60 --lr 1e-3 --data-path data_text_document --threads 1 --eval-iters 0 --log-interval 10 \
    --save run >log 2>err || code=$?
[ $code = 0 ] || fail "exit $code: $(cat err)"
grep -q "node check: host$slow: matrix product " err || fail "the node check does not name host$slow: $(cat err)"
grep -Eq "node check: host$disk: .*(1 MiB, median|no answer)" err || fail "the node check does not name host$disk: $(cat err)"
grep -q "warning: rank [$slow$disk] on host[$slow$disk]: slow: " err || fail "no warning: $(cat err)"
table=$(grep -E 'note: rank +[0-9]+ host[0-9]+ +ratio ' err | head -n 2)
for rank in $slow $disk; do
    grep -Eq "rank +$rank host$rank +ratio (1\.[1-9]|[2-9]|[0-9]{2,})" <<<"$table" || fail "the table does not name rank $rank: $(cat err)"
done
echo "the slow rank and the slow disk:"
echo "$table"
