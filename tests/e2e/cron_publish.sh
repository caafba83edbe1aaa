#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# share/cron/publish to a git repository and a web directory: changed files, whole lines, pushes that failed, no secrets.
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
kit=$(realpath "$here/../../share/cron")
command -v git >/dev/null || {
    echo "skipped: no git"
    exit 77
}
mkdir -p run/tensorboard run/global_step10 state
git init -q --bare hub
git clone -q hub logs 2>/dev/null
cat >site.conf <<END
PATH=/usr/bin:/bin
JOB_NAME=tiny
RUN_DIRECTORY=$work/run
STATUS_FILE=$work/status.json
STATE_DIRECTORY=$work/state
PUBLISH_TO=$work/logs
PUBLISH_FILES="log *.jsonl tensorboard/*"
END
publish() { # CODE PATTERN
    local code=0
    env -i HOME=/nonexistent PATH=/usr/bin:/bin /bin/sh -c "$kit/publish $work/site.conf" >out 2>err </dev/null || code=$?
    [ "$code" = "$1" ] || fail "exit $code, wanted $1: $(cat out err)"
    grep -Eq -- "$2" out || fail "no '$2' in: $(cat out err)"
}
published() { git -C hub show "HEAD:$1"; }

printf 'one\ntwo\nthr' >run/log
echo '{"kind":"step"}' >run/log.jsonl
printf '\0\1\2' >run/tensorboard/events.out.tfevents.1
echo weights >run/global_step10/log
echo secret >run/password
publish 0 'publish: 3 changed files'
[ "$(published log)" = $'one\ntwo' ] || fail "not whole lines: $(published log)"
[ "$(git -C hub ls-tree -r --name-only HEAD | tr '\n' ' ')" = "log log.jsonl tensorboard/events.out.tfevents.1 " ] ||
    fail "published: $(git -C hub ls-tree -r --name-only HEAD)"
head=$(git -C hub rev-parse HEAD)
publish 0 'publish: 0 changed files'
[ "$(git -C hub rev-parse HEAD)" = "$head" ] || fail "a commit without a change"

# The hub is down: the next run pushes the old commit, without new data.
echo ee >>run/log
mv hub gone
publish 1 'ALERT publish: '
mv gone hub
publish 0 'publish: 0 changed files'
[ "$(published log)" = $'one\ntwo\nthree' ] || fail "not pushed again: $(published log)"

# A large file that is not in LFS is refused before the hub does so.
seq 2000000 >run/large.jsonl
publish 1 'more than 10 MB and not in LFS: large.jsonl'
rm run/large.jsonl logs/large.jsonl
publish 0 'publish'

# No secret in a URL, a log or a message.
git -C logs remote set-url origin https://user:hunter2@localhost:1/x.git
publish 3 'the URL of origin has a password'
! grep -r hunter2 out err state || fail "the password is repeated"
git -C logs remote set-url origin "$work/hub"

# Another publish still runs.
flock --close state/publish.lock sleep 30 &
until ! flock -n state/publish.lock true; do sleep 0.05; done
publish 0 'publish still runs'
kill %1

echo "PUBLISH_KIND=web PUBLISH_TO=$work/web" >>site.conf
if command -v rsync >/dev/null; then
    publish 0 'publish: 3 changed files'
    [ "$(cat web/log)" = $'one\ntwo\nthree' ] || fail "web: $(ls -R web)"
    [ "$(find web -name password -o -name "global_step*")" = "" ] || fail "web: $(ls -R web)"
fi
echo "publish to git and to a web directory"
