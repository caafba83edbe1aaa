#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-shmcheck on a private /dev/shm of 8 MiB, without the System V segments of other tests. Tests thresholds, owners, dead
# segments, the stress test and exit codes.
set -euo pipefail
build=$(cd "$1" && pwd)
shmcheck=$build/bin/lm-shmcheck

die() { echo "shmcheck: $*"; exit 1; }
# gives CODE PATTERN ARGUMENTS...: checks the exit code, and that a line of the output matches.
gives() {
    local code=$1 pattern=$2 got=0 out
    shift 2
    out=$("$shmcheck" "$@" 2>&1) || got=$?
    [ "$got" = "$code" ] || die "$*: exit $got, not $code: $out"
    grep -qE -- "$pattern" <<<"$out" || die "$*: no line '$pattern' in: $out"
}

# Only the first process on a host prints.
OMPI_COMM_WORLD_LOCAL_RANK=0 gives 0 /dev/shm --warn 100% --crit 100%
OMPI_COMM_WORLD_LOCAL_RANK=1 gives 0 '^$' --warn 100% --crit 100%
gives 2 '^lm-shmcheck: --warn: 99% .*--crit 10%' --warn 99% --crit 10%
gives 2 '^lm-shmcheck: --warn: 101 .*100 %' --warn 101%
gives 2 '^lm-shmcheck: --remove: .*--stale' --remove
gives 2 '^lm-shmcheck: --name: .*--stale' --name 'psm_*'
gives 2 "^lm-shmcheck: --user: 'no-such-user' " --stale --user no-such-user
gives 2 '^lm-shmcheck: --watch: .*--limits' --watch 1s --limits
gives 2 '^lm-shmcheck: --min-size: ' --min-size 5lightyears

gives 2 '^lm-shmcheck: --summary: .*--stale' --summary --json

if [ "${LM_PRIVATE_SHM-}" != yes ]; then
    # The samples of many hosts are summarized in one line for each finding.
    many=$(mktemp)
    trap 'rm -f "$many"' EXIT
    summary() { gives "$1" "$2" --summary "${@:3}" <"$many"; }
    host() {
        printf '{"kind":"host","host":"%s","health":"%s","reason":"%s","size":%s,"dead_segments":%s,"dead_bytes":%s}\n' "$@"
    }
    for ((i = 1; i <= 1000; i++)); do host "$(printf 'n%04d' "$i")" ok "" 68719476736 0 0; done >"$many"
    summary 0 '^1000 hosts: 1000 ok, 0 warning, 0 critical$'
    {
        echo '{"kind":"limits"}'
        host n0017 critical "97.3 % of its bytes are used (critical from 95 %)" 68719476736 2 1024
        for i in 3 4 5 9; do host "n000$i" warning "8$i.0 % of its bytes are used (warning from 80 %)" 68719476736 0 0; done
        host login1 ok "" 1073741824 0 0
        host n1000 ok "" 68719476736 1 1024
    } >>"$many"
    summary 1 '^1001 hosts: 996 ok, 4 warning, 1 critical$'
    summary 1 '^critical: 1 host, up to 97\.3 % of its bytes are used \(critical from 95 %\): n0017$'
    summary 1 '^warning: 4 hosts, up to 89\.0 % of its bytes are used \(warning from 80 %\): n\[0003-0005,0009\]$'
    summary 1 '^dead segments: 2 hosts, 3 with 2\.00 KiB: n\[0017,1000\]$'
    summary 1 '^size: 1 host with 1\.00 GiB, 1000 hosts with 64\.0 GiB: login1$'
    host a ok "" 1 1 1 >"$many"
    summary 0 '^1 host: 1 ok'
    summary 1 '^dead segments: 1 host, 1 with 1 B: a$' --stale
    # Hosts that are expected and send nothing are missing, also while the input waits for them.
    summary 0 '^1 host: 1 ok' --hosts-expected 1
    summary 1 '^missing: 2 of 3 hosts$' --hosts-expected 3
    summary 1 '^missing: 3 hosts: b,n\[08-09\]$' --hosts-expected 'n[08-09],a,b'
    summary 2 "^lm-shmcheck: --hosts-expected: 'n\[' " --hosts-expected 'n['
    summary 2 "^lm-shmcheck: --hosts-expected: 'n\[5-1\]' " --hosts-expected 'n[5-1]'
    summary 2 '^lm-shmcheck: --hosts-expected: .*empty' --hosts-expected ''
    gives 2 '^lm-shmcheck: --hosts-expected: .*--summary' --hosts-expected 3
    streamed=$(mktemp)
    trap 'rm -f "$many" "$streamed"' EXIT
    # The second host answers only after the summary of the first one was printed.
    # shellcheck disable=SC2094
    {
        host a ok "" 1 0 0
        for ((i = 0; i < 600; i++)); do
            ! grep -q '^missing: 1 host: b$' "$streamed" || break
            sleep 0.1
        done
        host b ok "" 1 0 0
    } | "$shmcheck" --summary --hosts-expected a,b >"$streamed" || die "streamed: exit $?: $(cat "$streamed")"
    [ "$(tr '\n' ';' <"$streamed")" = '1 host: 1 ok, 0 warning, 0 critical;missing: 1 host: b;;2 hosts: 2 ok, 0 warning, 0 critical;' ] ||
        die "streamed: $(cat "$streamed")"
    rm -f "$streamed"
    # Lines of srun and warnings go to standard error; the findings of all other lines count.
    { host a warning "0.5 % of its bytes are used" 1024 0 0; echo "srun: error: n004: task 3: Exited with exit code 1"; host b ok "" 1024 0 0; } >"$many"
    summary 1 '^srun: error: n004: task 3: Exited with exit code 1$'
    summary 1 '^2 hosts: 1 ok, 1 warning, 0 critical$'
    echo '{}' >"$many"
    summary 3 '^lm-shmcheck: standard input: line 1: '
    echo nonsense >"$many"
    summary 3 'contains no host'
    : >"$many"
    summary 3 'contains no host'
    rm -f "$many"

    if [ "$(id -u)" != 0 ] || ! unshare -m -i true 2>/dev/null; then
        echo "skipped: a private /dev/shm needs root, and mount and IPC namespaces"
        exit 77
    fi
    exec env LM_PRIVATE_SHM=yes unshare -m -i --propagation private bash "$0" "$build"
fi
mount -t tmpfs -o size=8M,nr_inodes=50,mode=1777 tmpfs /dev/shm


host=$(uname -n)
gives 0 "^$host +/dev/shm +8\.00 MiB +0 B +8\.00 MiB +0% +[0-9]+% +" --min-size 1TiB
gives 0 '^memory of the control group ' --limits
gives 0 '"kind":"limits","memlock_soft":' --limits --json
gives 0 '^stress: 6\.00 MiB of 6\.00 MiB allocated and touched' --stress 6MiB
gives 1 "/dev/shm: not tried: .*8\.00 MiB .*64\.0 MiB" --stress 64MiB
gives 1 '"touched":0,.*"passed":false' --stress 64MiB --json
# More than the host's memory is refused before anything is written: a write would fail at the
# limit on the size of files.
mount -t tmpfs -o remount,size=1T /dev/shm
(
    ulimit -f 8192
    gives 1 '/dev/shm: not tried: 900 GiB ' --stress 900GiB
) || exit 1
mount -t tmpfs -o remount,size=8M /dev/shm
[ -z "$(ls -A /dev/shm)" ] || die "--stress left a file"

# A process that holds two segments, one of them unlinked.
head -c 1048576 /dev/zero >/dev/shm/held
head -c 1048576 /dev/zero >/dev/shm/nameless
exec 7</dev/shm/held 8</dev/shm/nameless
rm /dev/shm/nameless
# Owners are in the order of their numbers. A subshell of this test may have a lower number than this shell, because numbers begin
# again after the largest one.
owner="([0-9]+ \(bash\), )*$$ \(bash\)(, [0-9]+ \(bash\))*\$"
gives 0 "^ +1\.00 MiB +root +/dev/shm/held +$owner" --min-size 1MiB
gives 0 "^ +1\.00 MiB +root +/dev/shm/nameless \(deleted\) +$owner"
gives 0 '"name":"/dev/shm/held","type":"posix","bytes":1048576,"state":"live"' --json
# A user who cannot see the holder does not report the segment as dead.
grep -qE "/dev/shm/held +owner not visible" <<<"$(unshare -pf --mount-proc "$shmcheck" 7<&- 8<&-)" ||
    die "the segment of a process in another namespace"
exec 7<&- 8<&-

# A file with the name of a known library and the id of a process that has ended was left over by a killed program. Other files may
# be kept on purpose.
ended=$(bash -c 'echo $$')
gives 0 '^ +1\.00 MiB +root +/dev/shm/held +not open'
gives 0 ' 1$' --stale
mv /dev/shm/held "/dev/shm/torch_${ended}_1_1"
gives 1 "^ +1\.00 MiB +root +/dev/shm/torch_${ended}_1_1 +DEAD" --stale
gives 1 "torch_${ended}_1_1: not removed: .*60 s" --stale --remove
gives 0 ' 1 dead ' --stale --older 30m --remove
gives 0 ' 1 dead ' --stale --user nobody --remove
touch -d '1 hour ago' "/dev/shm/torch_${ended}_1_1"
gives 0 "note: .*/dev/shm/torch_${ended}_1_1: removed, 1\.00 MiB freed" --stale --older 30m --user root --remove
gives 0 ' 0$' --stale

# A name without a process does not show whether its program has ended: Python's SharedMemory lasts after close().
echo x >/dev/shm/psm_0123abcd
touch -d '1 hour ago' /dev/shm/psm_0123abcd
gives 0 ' 1$' --stale --remove
gives 0 ' 1$' --stale --older 2h --remove
[ -f /dev/shm/psm_0123abcd ] || die "the segment of a running program is gone"
gives 1 '/dev/shm/psm_0123abcd +not open' --stale --older 30m
gives 0 'psm_0123abcd: removed' --stale --older 30m --remove

# The steps of --local-save and staged data stay; --name removes what it names, but no step.
mkdir -p /dev/shm/run/n1/global_step55 /dev/shm/stage /dev/shm/sm_segment.run/global_step5
for file in run/n1/global_step55/weights-00000.safetensors run/n1/global_step55/local-manifest.json stage/corpus.bin left \
    sm_segment.run/global_step5/weights-00000.safetensors; do
    echo x >/dev/shm/$file
    touch -d '1 hour ago' /dev/shm/$file
done
gives 0 '' --stale --remove
gives 0 '' --stale --name '*/*/*/*' --remove
gives 0 '' --stale --name 'sm_segment.run/*/*' --remove
[ "$(find /dev/shm -type f | wc -l)" = 5 ] || die "kept files are gone: $(find /dev/shm -type f)"
gives 1 'left +not open' --stale --name '*'
gives 0 'left: removed' --stale --name '*' --remove
gives 0 'corpus.bin: removed' --stale --name 'stage/*' --remove
[ "$(find /dev/shm -type f | wc -l)" = 3 ] || die "steps are gone: $(find /dev/shm -type f)"
rm -r /dev/shm/run /dev/shm/stage /dev/shm/sm_segment.run

# One more dead segment costs no search of all processes: the reads of 40 removals are not many more than those of one.
# removes N: removes N segments. Prints how many reads this took.
removes() {
    for ((i = 0; i < $1; i++)); do
        : >"/dev/shm/torch_${ended}_${i}_1"
        touch -d '1 hour ago' "/dev/shm/torch_${ended}_${i}_1"
    done
    # shellcheck disable=SC2016
    bash -c '"$0" --stale --remove >/dev/null 2>&1; sed -n "s/^syscr: //p" /proc/$$/io' "$shmcheck"
    [ -z "$(ls -A /dev/shm)" ] || die "dead segments stay: $(ls /dev/shm)"
}
one=$(removes 1)
forty=$(removes 40)
((forty < 3 * one)) || die "$one reads for one removal, $forty for 40"

head -c 7500000 /dev/zero >"/dev/shm/torch_${ended}_1_1"
gives 1 "warning: $host: /dev/shm: 89\.5 % .*bytes .*\(warning from 80 %\)"
gives 1 '"health":"critical","reason":"89\.5 % of its bytes are used \(critical from 85 %\)"' \
    --crit 85 --json
gives 0 ' 1, 1 dead ' --warn 90% --crit 95%
rm "/dev/shm/torch_${ended}_1_1"
for i in $(seq 44); do : >"/dev/shm/empty$i"; done
gives 1 '% of its inodes are used \(warning' --warn 80%
rm /dev/shm/empty*

# --watch prints a line when something has changed. A signal ends it.
watched=$(mktemp)
pid_file=$(mktemp)
trap 'rm -f "$watched" "$pid_file"' EXIT
"$shmcheck" --watch 200ms >"$watched" &
watcher=$!
# shows PATTERN: waits until lm-shmcheck has printed a matching line.
shows() {
    for _ in {1..1200}; do
        grep -qE -- "$1" "$watched" && return
        sleep 0.05
    done
    die "--watch: no line '$1': $(tail -n 5 "$watched")"
}
shows ' 0 B +0$'
sleep 1 # five checks without a change
head -c 4194304 /dev/zero >"/dev/shm/torch_${ended}_1_1"
shows '4\.00 MiB  1, 1 dead '
rm "/dev/shm/torch_${ended}_1_1"
shows '4\.00 MiB  0$'
kill -TERM $watcher
code=0
wait $watcher || code=$?
[ $code = 0 ] || die "--watch: exit $code"
grep -q '^TIME' "$watched" || die "--watch without heading"
same=$(sed 's/^[^ ]* *//' "$watched" | uniq -d)
[ -z "$same" ] || die "--watch: a line without a change: $same"

# A terminal of 80 columns shows each line whole, also with dead segments and long names.
head -c 1048576 /dev/zero >"/dev/shm/fi_shm_${ended}_$(printf 'segment%.0s' {1..7})"
for options in "" "--watch 200ms"; do
    : >"$watched"
    : >"$pid_file"
    script -qefc "stty cols 80; echo \$\$ >$pid_file; NO_COLOR=1 exec $shmcheck $options" /dev/null </dev/null >"$watched" &
    terminal=$!
    shows '1, 1 dead \(1\.00 MiB\)'
    kill -TERM "$(cat "$pid_file")" 2>/dev/null || true
    wait $terminal || true
    [ "$(grep -v '^lm-shmcheck: ' "$watched" | tr -d '\r' | wc -L)" -le 80 ] ||
        die "$options: a line of more than 80 columns: $(cat "$watched")"
done
rm /dev/shm/fi_shm_*

umount /dev/shm
