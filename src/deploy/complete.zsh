#compdef sockrail sockrail-stat
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# zsh completion for sockrail(1) and sockrail-stat(1).  The words between @ are
# filled in by src/deploy/completions.

_sockrail_knob() {
	local -a knobs=(
	# @values@
	)
	_values knob $knobs
}

_sockrail_rest() {
	if [[ $words[1] != check ]]; then
		_normal
		return
	fi
	_arguments \
		# @check@
		'1:host and port:_hosts' \
		'*::command: _normal'
}

if [[ $service = sockrail-stat ]]; then
	_arguments -s \
		# @stat@
		'*:filter:(src dst sport dport state and @states@)'
	return
fi

_arguments -S \
	'*'{-s+,--set=}'[set a knob]:knob:_sockrail_knob' \
	'(-p --profile)'{-p+,--profile=}'[the settings of a profile]:profile:(@profiles@)' \
	'(-r --require)-r[fail if bytes went by TCP]' \
	'(-r --require)--require=-[fail if bytes went by TCP]::kind:(link verbs shm)' \
	'(-c --show-config)'{-c,--show-config}'[print what is set, and where]' \
	'(- *)'{-h,--help}'[print the usage]' \
	'(- *)'{-V,--version}'[print the version]' \
	'(-):command: _command_names -e' \
	'*::arguments: _sockrail_rest'
