# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# Sourced by tests/check and tests/demo: builds the tree somewhere else, so that
# a tree that is itself configured, read or edited meanwhile does not matter.

# copy_tree TOP DIR: the sources of TOP into DIR; times are kept, so that a second build there
# compiles only what changed
copy_tree() {
	local f built=()
	# What was built in place, make would take for up to date.
	while read -r f; do
		built+=("--exclude=${f%.*}")
	done < <(cd "$1" && find ./tests -name '*.c' && find ./src/deploy -name '*.in')
	built+=(--exclude=./src/deploy/{sockrail,sockrail-stat,_sockrail})
	mkdir -p "$2" && tar -C "$1" --exclude-vcs --exclude='./build*' \
		"${built[@]}" --exclude='*.log' --exclude='*.trs' \
		--exclude=./Makefile --exclude=./Makefile.in --exclude=./configure \
		--exclude=./aclocal.m4 --exclude=./autom4te.cache --exclude=./m4 \
		--exclude=./config.h --exclude=./config.h.in --exclude=./config.status \
		--exclude=./stamp-h1 --exclude=./libtool --exclude=./sockrail \
		--exclude=./sockrail.pc --exclude='*.map' \
		--exclude='*.o' --exclude='*.lo' --exclude='*.la' \
		--exclude=.libs --exclude=.deps --exclude=.dirstamp \
		-cf - . | tar -C "$2" -xf -
}

# copy_sources TOP DIR: the same, ready for configure
copy_sources() {
	local f
	copy_tree "$1" "$2" || return
	# As newly made as the files they come from, or newer
	for f in configure.ac Makefile.am; do
		[ "$2/configure" -nt "$2/$f" ] || { (cd "$2" && autoreconf -i); return; }
	done
}

# build_in SRC DIR [CONFIGURE-ARGUMENT...]: configure and make, out of tree
build_in() {
	local src=$1 dir=$2
	shift 2
	mkdir -p "$dir" && cd "$dir" || return
	if [ ! -e config.status ] || [ "$src/configure" -nt config.status ] ||
		[ "$*" != "$(cat .arguments 2>/dev/null)" ]; then
		"$src/configure" "$@" && echo "$*" >.arguments || return
	fi
	make -j"$(nproc)"
}
