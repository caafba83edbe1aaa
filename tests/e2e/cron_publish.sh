#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# share/cron/publish to a git repository and a web directory: publishes changed files, in whole lines, repeats a push that failed,
# and publishes no secrets.
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
PUBLISH_FILES="log *.jsonl *.csv tensorboard/*"
END
publish() { # CODE PATTERN [PROGRAM...]
    local code=0
    "${@:3}" env -i HOME=/nonexistent PATH=/usr/bin:/bin /bin/sh -c "$kit/publish $work/${conf:-site.conf}" >out 2>err </dev/null || code=$?
    [ "$code" = "$1" ] || fail "exit $code, wanted $1: $(cat out err)"
    grep -Eq -- "$2" out || fail "no '$2' in: $(cat out err)"
}
published() { git -C hub show "HEAD:$1"; }

printf 'one\ntwo\nthr' >run/log
echo '{"kind":"step"}' >run/log.jsonl
printf '\0\1\2' >run/tensorboard/events.out.tfevents.1
echo weights >run/global_step10/log
echo secret >run/password
mkdir -p run/flight-recorder/1-2 run/abandoned-g3
echo '{}' | tee run/flight-recorder/1-2/rank-0.jsonl run/abandoned-g3/log.jsonl >/dev/null
publish 0 'publish: 3 changed files'
[ "$(published log)" = $'one\ntwo' ] || fail "not whole lines: $(published log)"
[ "$(git -C hub ls-tree -r --name-only HEAD | tr '\n' ' ')" = "log log.jsonl tensorboard/events.out.tfevents.1 " ] ||
    fail "published: $(git -C hub ls-tree -r --name-only HEAD)"
head=$(git -C hub rev-parse HEAD)
publish 0 'publish: 0 changed files'
[ "$(git -C hub rev-parse HEAD)" = "$head" ] || fail "a commit without a change"

# Somebody who may write to the run plants a link under the name of a listed file: mkdir runs between the listing and the copy.
echo '{}' >run/race.jsonl
echo SECRET >private
mkdir bin
printf '#!/bin/sh\nln -sfn %q/private %q/run/race.jsonl\nexec /usr/bin/mkdir "$@"\n' "$work" "$work" >bin/mkdir
chmod +x bin/mkdir
sed "s|^PATH=|PATH=$work/bin:|" site.conf >race.conf
conf=race.conf publish 0 'publish: 0 changed files'
! git -C hub grep -q SECRET HEAD || fail "the target of a planted link was published"
rm run/race.jsonl
# A file that cannot be read is named without control characters, and the others are published. root loses the capability to read
# any file.
as=()
[ "$(id -u)" != 0 ] || as=(setpriv --bounding-set="-dac_override,-dac_read_search")
unreadable=run/$'a\e[2J\n.jsonl'
for kind in git web; do
    mkdir -p other-web
    sed "s#^PUBLISH_TO=.*#PUBLISH_TO=$work/other-web#; s#^STATE_DIRECTORY=.*#STATE_DIRECTORY=$work/other-state#" site.conf >web.conf
    echo PUBLISH_KIND=web >>web.conf
    conf=site.conf
    if [ $kind = web ]; then
        command -v rsync >/dev/null || continue
        conf=web.conf
    fi
    echo '{}' >"$unreadable"
    chmod 000 "$unreadable"
    echo "a line for $kind" >>run/log.jsonl
    publish 3 "not published: .*$work/run/a\\\\E\[2J.*: cannot be read" "${as[@]}"
    ! grep -q $'\e' out err || fail "the name of the file: $(cat -v out err)"
    [ ! -s err ] || fail "stderr: $(cat err)"
    [ -z "$(find . -name '*publish-tmp*')" ] || fail "left: $(find . -name '*publish-tmp*')"
    if [ $kind = git ]; then published log.jsonl >now; else cp other-web/log.jsonl now; fi
    grep -q "a line for $kind" now || fail "the other files are not published by $kind: $(cat now)"
    rm "$unreadable"
done
unset conf
publish 0 "publish: 1 changed files"
# Files of users whose names are similar stay.
touch logs/log.publish-tmp
publish 0 'publish: 0 changed files'
[ -e logs/log.publish-tmp ] || fail "a foreign file was removed"
rm logs/log.publish-tmp

# The hub is down: the next run pushes the old commit, without new data.
echo ee >>run/log
mv hub gone
publish 1 'ALERT publish: '
mv gone hub
publish 0 'publish: 0 changed files'
[ "$(published log)" = $'one\ntwo\nthree' ] || fail "not pushed again: $(published log)"

# A hook of the hub prints anything.
printf '#!/bin/sh\nprintf "error: \\302\\233\\033]0;title\\007\\033[2J no\\n"; exit 1\n' >hub/hooks/pre-receive
chmod +x hub/hooks/pre-receive
echo four >>run/log
publish 1 'ALERT publish: .*error: .*title'
! LC_ALL=C grep -q $'[[:cntrl:]]\\|\xc2\x9b' out || fail "control characters: $(cat -v out)"
rm hub/hooks/pre-receive
publish 0 'publish: 0 changed files'

mv run moved
publish 3 "^publish: $work/run: no such directory"
[ ! -s err ] || fail "a message of the shell: $(cat err)"
mv moved run

# A lock that a killed git left is removed after 10 minutes.
touch -d '11 minutes ago' logs/.git/index.lock
publish 0 'publish: 0 changed files'
[ ! -e logs/.git/index.lock ] || fail "the lock of a killed git is left"

# A large file that is not in LFS is skipped before the hub refuses it; the others are published.
seq 2000000 >run/large.jsonl
echo four >>run/log
publish 1 'ALERT publish: .*10 MB .*LFS: large.jsonl'
grep -q four <<<"$(published log)" || fail "a large file keeps the others: $(git -C hub ls-tree -r --name-only HEAD)"
! published large.jsonl >/dev/null 2>&1 || fail "a large file was pushed"
if git lfs version >/dev/null 2>&1; then
    # With LFS it is published, and grows by whole lines.
    (cd logs && git lfs install --local && git lfs track '*.jsonl') >/dev/null 2>&1
    publish 0 'publish: 0 changed files'
    grep -q 'version https://git-lfs' <<<"$(published large.jsonl)" || fail "not in LFS: $(published large.jsonl | head -n 2)"
    printf 'half a' >>run/large.jsonl
    echo line >>run/log
    publish 0 'publish: 1 changed files'
    GIT_LFS_SKIP_SMUDGE=0 git clone -q hub copy 2>/dev/null
    cmp <(head -n 2000000 run/large.jsonl) copy/large.jsonl || fail "another content in LFS: $(head -n 3 copy/large.jsonl)"
    git -C hub rev-parse -q --verify HEAD:.gitattributes >/dev/null || fail "the rules of LFS are not published"
else
    # Without the file, its alert ends. (An untracked copy is left in the clone.)
    rm run/large.jsonl
fi
publish 0 'publish'

# The README is edited in the hub.
git clone -q hub other 2>/dev/null
(cd other && echo model >README.md && git add . && git -c user.name=x -c user.email=x@x commit -q -m readme && git push -q)
echo five >>run/log
publish 0 'publish: 1 changed files'
grep -q five <<<"$(published log)" || fail "not pushed after another commit"
[ "$(published README.md)" = model ] || fail "the other commit is lost"

# Another clone has changed a published file: the message names the remedy, and that file is not overwritten.
(cd other && git pull -q && echo other >>log && git -c user.name=x -c user.email=x@x commit -q -a -m log && git push -q)
echo fives >>run/log
publish 1 'ALERT publish: error: .*/logs .*: run git pull'
publish 1 'ALERT publish: error: .*/logs .*: run git pull'
(cd logs && git -c user.name=x -c user.email=x@x pull -q --no-rebase -X ours) || fail "the remedy fails"
publish 0 'publish'
grep -q fives <<<"$(published log)" || fail "not published after the remedy: $(published log)"

# Any name of a file is published.
names=('-e.csv' '--help.csv' ' lead.csv' 'trail .csv' $'new\nline.csv' '*.csv' 'a\b.csv' ':(top).csv')
for name in "${names[@]}"; do echo "$name" >"run/$name"; done
publish 0 "publish: ${#names[@]} changed files"
for name in "${names[@]}"; do [ "$(published "$name")" = "$name" ] || fail "not published: '$name'"; done
for name in "${names[@]}"; do rm "run/$name"; done

# The training writes into the published clone itself: the files stay those that it writes, also when another clone has pushed.
git init -q --bare in_place_hub
git clone -q in_place_hub in_place 2>/dev/null
mkdir -p in_place/logs in_place/global_step1
echo weights >in_place/global_step1/x.txt
sed "s#$work/run#$work/in_place#; s#$work/logs#$work/in_place#; s#^PUBLISH_FILES=.*#PUBLISH_FILES='logs/*.txt *.txt'#" site.conf >in_place.conf
exec 7>>in_place/logs/main.txt
echo one >&7
printf 'tw' >&7
conf=in_place.conf
publish 0 'publish: 0 changed files'
echo o >&7
[ "$(cat in_place/logs/main.txt)" = $'one\ntwo' ] || fail "the log that the training writes was replaced: $(cat in_place/logs/main.txt)"
rm -rf other
git clone -q in_place_hub other 2>/dev/null
(cd other && echo model >README.md && git add . && git -c user.name=x -c user.email=x@x commit -q -m readme && git push -q)
publish 0 'publish'
# Another clone edits, renames or removes the log, which the training has open and has not changed since the last publish.
for change in 'echo edited >>logs/main.txt' 'git mv logs/main.txt logs/old.txt' 'git rm -q logs/main.txt'; do
    (cd other && git pull -q && eval "$change" && git -c user.name=x -c user.email=x@x commit -q -a -m change && git push -q)
    echo more >>in_place/new.txt
    publish 1 'ALERT publish: error: .* logs/main.txt .*/in_place: .*git revert'
    [ /proc/self/fd/7 -ef in_place/logs/main.txt ] || fail "$change: the log that the training writes was replaced"
    (cd other && git -c user.name=x -c user.email=x@x revert --no-edit HEAD >/dev/null && git push -q)
    publish 0 'publish'
done
rm in_place/new.txt
(cd in_place && git rm -q --cached new.txt)
echo three >&7
publish 0 'publish'
exec 7>&-
[ "$(cat in_place/logs/main.txt)" = $'one\ntwo\nthree' ] || fail "the log was replaced after a push: $(cat in_place/logs/main.txt)"
[ "$(git -C in_place_hub show HEAD:logs/main.txt)" = $'one\ntwo\nthree' ] || fail "not published in place"
[ "$(git -C in_place_hub ls-tree -r --name-only HEAD | tr '\n' ' ')" = "README.md logs/main.txt " ] ||
    fail "published in place: $(git -C in_place_hub ls-tree -r --name-only HEAD)"
[ "$(cat in_place/README.md)" = model ] || fail "the file of the other clone is missing"
# The clone, or the state of the checks, is in the directory of the run: no copies of copies.
mkdir -p outer/state
git clone -q hub outer/logs 2>/dev/null
echo x >outer/x.jsonl
sed "s#$work/run#$work/outer#; s#$work/logs#$work/outer/logs#; s#$work/state#$work/outer/state#; s#^PUBLISH_FILES=.*#PUBLISH_FILES=*.jsonl#" site.conf >outer.conf
conf=outer.conf
publish 0 'publish: 1 changed files'
publish 0 'publish: 0 changed files'
# A link in the clone leads nowhere else.
mkdir -p outer/t elsewhere
echo x >outer/t/y.jsonl
ln -s "$work/elsewhere" outer/logs/t
publish 3 'is outside of'
[ -z "$(ls elsewhere)" ] || fail "written through a link: $(ls elsewhere)"
conf=site.conf
echo "PUBLISH_FILES=no-such-file" >>site.conf
publish 1 'ALERT publish: .*/run .*PUBLISH_FILES="no-such-file"'
sed -i '/no-such-file/d' site.conf

# No secret in a URL, a log or a message.
for url in https://user:hunter2@localhost:1/x.git https://hf_hunter2@localhost:1/x https://hunter2abcdefghijklmnopqrstuvwxyz012345@localhost:1/x; do
    git -C logs remote set-url origin "$url"
    publish 3 'URL of origin '
done
git -C logs remote set-url origin "$work/hub"
git -C logs remote set-url --push origin https://user:hunter2@localhost:1/x.git
publish 3 'URL of origin '
! grep -r hunter2 out err state || fail "the password is repeated"
git -C logs config --unset remote.origin.pushurl
# Credentials in a file: the hub gets them, and no message contains them.
python3 - >port 2>seen <<'END' &
import base64, http.server, sys
class Hub(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        given = self.headers.get("Authorization", "").partition(" ")[2]
        print(base64.b64decode(given).decode(), flush=True, file=sys.stderr)
        self.send_response(403 if given else 401)
        self.send_header("WWW-Authenticate", "Basic realm=hub")
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Hub)
print(server.server_port, flush=True)
server.serve_forever()
END
hub=$!
until [ -s port ]; do sleep 0.05; done
echo "http://bot:hunter2@127.0.0.1%3a$(cat port)" >credentials
chmod 600 credentials
echo "PUBLISH_CREDENTIALS=$work/credentials" >>site.conf
git -C logs remote set-url origin "http://127.0.0.1:$(cat port)/logs"
echo six >>run/log
publish 1 'ALERT publish: .*403'
grep -q '^bot:hunter2$' seen || fail "the hub got no credentials: $(cat seen)"
! grep -r hunter2 out err state logs/.git/config || fail "the password is repeated"
kill $hub
git -C logs remote set-url origin "$work/hub"
publish 0 'publish: 0 changed files'
grep -q six <<<"$(published log)" || fail "not pushed later"

# Another publish still runs.
flock --close state/publish.lock sleep 30 &
until ! flock -n state/publish.lock true; do sleep 0.05; done
publish 0 'publish still runs'
touch -d '25 hours ago' state/publish.lock
publish 1 'ALERT busy: publish .*25.0 h'
kill $!

echo "PUBLISH_KIND=web PUBLISH_TO=$work/web" >>site.conf
if command -v rsync >/dev/null; then
    publish 0 'publish: [345] changed files'
    [ "$(tail -n 1 web/log)" = six ] || fail "web: $(ls -R web)"
    # The training writes into the web directory itself.
    sed "s#$work/run#$work/live#; s#=$work/web#=$work/live#" site.conf >live.conf
    mkdir live
    exec 7>>live/log
    printf 'one\ntw' >&7
    conf=live.conf
    publish 0 'publish: 0 changed files'
    echo o >&7
    exec 7>&-
    [ "$(cat live/log)" = $'one\ntwo' ] || fail "the log that the training writes was replaced: $(cat live/log)"
    [ "$(find web -name password -o -name "global_step*")" = "" ] || fail "web: $(ls -R web)"
fi
echo "publish to git and to a web directory"
