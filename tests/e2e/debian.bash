# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Bare Debian roots by debootstrap, for tests; sourced after common.bash.

# mirror: prints the address of the archive of this machine's packages.
# shellcheck disable=SC2016
mirror() { apt-get indextargets --format '$(SITE)' "Created-By: Packages" | grep -m1 "debian$" || fail "apt has no Debian archive"; }

# bare_debian SUITE DIR [ARGUMENT...]: makes a bare root directory. The ARGUMENTs are passed to debootstrap.
bare_debian() {
    local suite=$1 directory=$2
    shift 2
    debootstrap --variant=minbase "$@" "$suite" "$directory" "$(mirror)" >"$suite.log" 2>&1 || fail "debootstrap: $(tail -n 5 "$suite.log")"
}

# bare_debian_like_this DIR: makes a bare Debian 12 with the package sources of this machine.
bare_debian_like_this() {
    bare_debian bookworm "$1" --include=ca-certificates
    rm "$1/etc/apt/sources.list" # debootstrap's; the same source twice is a warning, which autopkgtest takes for an error
    cp -r /etc/apt/sources.list* /etc/apt/apt.conf.d "$1/etc/apt/"
}
