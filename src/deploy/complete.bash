# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash disable=SC2034
#
# bash completion for sockrail(1) and sockrail-stat(1).  The words between @ are
# filled in by src/deploy/completions.

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

# Sets words, and cur, the last of them
_sockrail_split() {
	local line=${COMP_LINE:0:COMP_POINT}
	read -ra words <<<"$line"
	[[ $line != *[[:space:]] ]] || words+=('')
	cur=${words[-1]} COMPREPLY=()
}

# An option, or OPTION=; $2: all of them
_sockrail_option() {
	_sockrail_words "$1" "$2"
	[[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null
}

_sockrail_check() {
	case ${words[-2]}:$cur in
	-u:* | --unit:*) _sockrail_units "$cur" ;;
	*:--unit=*) _sockrail_units "${cur#*=}" ;;
	--unit-path:*) _sockrail_files "$cur" ;;
	*:--unit-path=*) _sockrail_files "${cur#*=}" ;;
	--:*) mapfile -t COMPREPLY < <(compgen -c -- "$cur") ;;
	*:-*) _sockrail_option "$cur" '@check_options@' ;;
	*) mapfile -t COMPREPLY < <(compgen -A hostname -- "$cur") ;;
	esac
}

_sockrail_units() {
	_sockrail_words "$1" "$(systemctl list-unit-files --type=service --no-legend 2>/dev/null |
		sed 's/\.service .*//')"
}

_sockrail_stat() {
	local words cur
	_sockrail_split
	case ${words[-2]}:$cur in
	state:*) _sockrail_words "$cur" '@states@' ;;
	*:--pid=*) _sockrail_words "${cur#*=}" "$(cd /proc && echo [0-9]*)" ;;
	*:--output=*) _sockrail_files "${cur#*=}" ;;
	*:-*) _sockrail_option "$cur" '@stat_options@' ;;
	*) _sockrail_words "$cur" src dst sport dport state and ;;
	esac
}

_sockrail() {
	local words cur i at
	_sockrail_split
	for ((i = 1; i < ${#words[@]} - 1; i++)); do
		case ${words[i]} in
		-s | --set | -p | --profile) ((i++)) ;;
		--) ((i++)); break ;;
		-*) ;;
		*) break ;;
		esac
	done
	if ((i < ${#words[@]} - 1)); then # the command has begun
		if [[ ${words[i]} = check && ${words[i - 1]} != -- ]]; then
			_sockrail_check
			return
		fi
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
complete -F _sockrail_stat sockrail-stat
