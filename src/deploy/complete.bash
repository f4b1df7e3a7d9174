# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash disable=SC2034
#
# bash completion for sockrail(1).  The words between @ are filled in by
# src/deploy/completions.

_sockrail_words() {
	mapfile -t COMPREPLY < <(compgen -W "${*:2}" -- "$1")
}

_sockrail_files() {
	compopt -o filenames 2>/dev/null
	mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

# KNOB=VALUE, with the name in the case in which it is being typed
_sockrail_knob() {
	local value=${1#*=} name=${1%%=*} names='@names@'
	if [[ $1 != *=* ]]; then
		[[ $1 != [a-z]* ]] || names=${names,,}
		compopt -o nospace 2>/dev/null
		_sockrail_words "$1" "$names"
		return
	fi
	case ${name^^} in
	# @values@
	esac
}

_sockrail() {
	local line=${COMP_LINE:0:COMP_POINT} words i at cur
	read -ra words <<<"$line"
	[[ $line != *[[:space:]] ]] || words+=('')
	cur=${words[-1]} COMPREPLY=()
	for ((i = 1; i < ${#words[@]} - 1; i++)); do
		case ${words[i]} in
		-s | --set | -p | --profile) ((i++)) ;;
		--) ((i++)); break ;;
		-*) ;;
		*) break ;;
		esac
	done
	if ((i < ${#words[@]} - 1)); then # the command has begun
		for ((at = 1; at < COMP_CWORD; at++)); do
			[[ ${COMP_WORDS[at]} != "${words[i]}" ]] || break
		done
		if declare -F _command_offset >/dev/null; then
			_command_offset "$at"
		else
			_sockrail_files "$cur"
		fi
		return
	fi
	case ${words[-2]}:$cur in
	-s:* | --set:*) _sockrail_knob "$cur" ;;
	-p:* | --profile:*) _sockrail_words "$cur" '@profiles@' ;;
	*:--set=*) _sockrail_knob "${cur#*=}" ;;
	*:--profile=*) _sockrail_words "${cur#*=}" '@profiles@' ;;
	*:--require=*) _sockrail_words "${cur#*=}" link verbs shm ;;
	*:-*) _sockrail_words "$cur" --help --profile --require --set --show-config --version ;;
	*) mapfile -t COMPREPLY < <(compgen -c -W check -- "$cur") ;;
	esac
}

complete -F _sockrail sockrail
